"""Kafka's log as a Python library."""
