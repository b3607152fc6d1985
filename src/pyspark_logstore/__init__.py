"""Found by Spark through its name: ``format("logstore")`` without a call of `logstore.spark.register`."""

from logstore.spark.source import LogstoreDataSource


class DefaultSource(LogstoreDataSource):
    """What Spark looks for in modules of such a name."""
