"""The accumulator of a producer: batches before they are written, their memory, and their records' futures."""
