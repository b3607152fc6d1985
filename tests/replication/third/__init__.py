"""A third set of rules, written from the documentation alone: chain replication."""
