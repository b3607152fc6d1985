"""Reading for Spark: options, plans of ranges, and records as Arrow batches."""
