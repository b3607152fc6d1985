"""Clients of a real Kafka side by side: ours, confluent-kafka and aiokafka, each in a process of its own."""
