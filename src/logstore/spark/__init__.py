"""Logstore as a Spark data source, ``format("logstore")``."""
