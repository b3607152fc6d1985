"""Topics: which there are, where their partitions lie, and their open logs."""
