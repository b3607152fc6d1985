"""Reading a log: ranges, a reader beside the writer, waiting for records."""
