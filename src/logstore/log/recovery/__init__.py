"""From a directory to a log that can be trusted."""
