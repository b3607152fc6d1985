"""Recurring work: its schedule, its tasks, and the disk space that a store may use."""
