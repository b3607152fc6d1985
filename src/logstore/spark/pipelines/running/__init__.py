"""Queries started, watched and stopped."""

from logstore.spark.pipelines.running.queries import finish, start

__all__ = ["finish", "start"]
