"""Queries started, watched and stopped."""
