"""Brokers side by side, under the same requests."""
