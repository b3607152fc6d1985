"""Recurring work: when it is done, what it is, and how much of the disk a store may take."""
