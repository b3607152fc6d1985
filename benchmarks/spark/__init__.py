"""The Spark source and sink beside Spark's own Kafka connector, Parquet and ready-made Arrow: ``make bench-spark``."""
