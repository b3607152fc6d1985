"""Reading a log: ranges, a reader in another process than the writer, waiting for records."""
