"""Topics: the catalogue, the directories of their partitions, and their open logs."""
