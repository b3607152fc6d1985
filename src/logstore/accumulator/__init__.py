"""What a producer gathers before it is written: batches, memory, and its records' futures."""
