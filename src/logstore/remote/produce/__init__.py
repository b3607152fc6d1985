"""Batches of producers on their way to the leaders of partitions: their state, their requests, their sender."""
