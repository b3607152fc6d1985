"""Reading: options, plans of ranges, and records as Arrow batches."""
