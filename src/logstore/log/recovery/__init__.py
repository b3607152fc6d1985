"""Recovery: from a directory to a log that can be trusted."""
