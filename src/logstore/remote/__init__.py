"""A client of Kafka brokers over sockets: metadata, records, topics, and a producer of batches."""
