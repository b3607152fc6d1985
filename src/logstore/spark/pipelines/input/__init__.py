"""What pipelines read that is no topic, and what in it cannot be taken."""
