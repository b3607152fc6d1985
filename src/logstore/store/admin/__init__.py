"""Copies, Kafka's directories, records from and to elsewhere, diagnosis."""
