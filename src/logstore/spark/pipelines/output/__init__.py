"""Outputs of pipelines: checked against the checkpoint before a query starts, and listed for other readers."""
