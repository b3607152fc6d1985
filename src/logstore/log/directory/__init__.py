"""Files of a partition: their names, the segments in order, the lock."""
