"""Writing from Spark: options, rows as record batches, and sinks that commit them once."""
