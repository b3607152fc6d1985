"""Kafka's client-side partition assignors as pure functions: range, round robin, sticky, cooperative-sticky."""
