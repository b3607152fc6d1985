"""The Spark source and sink beside Spark's Kafka connector, Parquet and ready-made Arrow: ``make bench-spark``."""
