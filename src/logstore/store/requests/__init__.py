"""What a process asks of the one that writes the store."""
