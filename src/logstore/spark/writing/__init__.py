"""Writing: options, rows as batches, and sinks that commit them once."""
