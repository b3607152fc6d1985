"""The topics of a cluster as their users hold them: what `logstore.connect` returns."""
