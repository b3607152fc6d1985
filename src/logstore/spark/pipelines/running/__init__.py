"""Start, progress and stop of a pipeline's queries."""
