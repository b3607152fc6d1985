"""Fetches of many partitions from one broker at a time, as state machines. No sockets."""
