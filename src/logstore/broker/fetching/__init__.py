"""Fetch: regions of files for what clients ask, in their sessions and outside of them."""
