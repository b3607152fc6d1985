"""Start, progress and stop of a pipeline's queries."""

from logstore.spark.pipelines.running.queries import finish, start

__all__ = ["finish", "start"]
