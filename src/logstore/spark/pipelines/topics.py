"""Topics at the ends of a pipeline: created if missing, read and written with the pipeline's parameters.

Only this module knows which options of ``format("logstore")`` a pipeline uses. Driver only, any thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from logstore.client.backend.ranges import RangeBackend
from logstore.config.schema import Setting
from logstore.config.text import read_settings
from logstore.errors import DirectoryLockedError, InvalidSettingError, UnknownTopicError
from logstore.remote.topics.store import connect
from logstore.spark.pipelines.parameters import Parameters
from logstore.spark.reading.fetches import backend_of
from logstore.spark.reading.options import ReadOptions
from logstore.store import open_briefly, open_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

FORMAT = "logstore"


def place_options(parameters: Parameters) -> dict[str, str]:
    """Return the options that name the store, and those of the connection to brokers; raises as `connection`."""
    if parameters.bootstrap:
        settings = {f"kafka.{key}": str(value) for key, value in connection(parameters).items()}
        return settings | {"kafka.bootstrap.servers": parameters.bootstrap}
    return {"path": parameters.path}


def connection(parameters: Parameters) -> dict[str, Setting]:
    """Return the settings in the file ``profile``; none without one.

    Raises:
        InvalidSettingError: the file cannot be read, or is malformed.
    """
    path = parameters.profile
    if not path:
        return {}
    try:
        with open(path, "rb") as file:
            return read_settings(file.read(), path)
    except OSError as error:
        raise InvalidSettingError({"profile": f"{path}: {error.strerror}"}) from error


def backend(parameters: Parameters, *topics: str) -> RangeBackend:
    """Return the back end that describes topics of the store. Do not close it."""
    return backend_of(ReadOptions.of(place_options(parameters) | {"subscribe": ",".join(topics)}))


def ensure_topics(
    parameters: Parameters,
    *names: str,
    settings: Mapping[str, Setting] | None = None,
    partitions: int | None = None,
) -> None:
    """Create those of the topics that are missing, and the store if there is none. Durable on return.

    Topics cannot be created in a store that another process has open for writing: then they must exist already.

    Raises:
        UnknownTopicError: another process writes the store, and it lacks one of the topics.
        InvalidTopicError, StorageError: as `Store.create_topic`.
    """
    count = parameters.partitions if partitions is None else partitions
    if parameters.bootstrap:
        with connect(parameters.bootstrap, connection(parameters)) as cluster:
            for name in names:
                # One at a time: of several topics that cannot be created, a request reports only one.
                cluster.create_topic(name, count, settings, if_not_exists=True)
        return
    try:
        with open_briefly(parameters.path, create=True) as store:
            for name in names:
                store.create_topic(name, count, settings, if_not_exists=True)
    except DirectoryLockedError:
        with open_store(parameters.path, read_only=True) as store:
            missing = [name for name in names if name not in store]
        if missing:
            raise UnknownTopicError(
                f"another process writes the store in {parameters.path}, and it has no topic "
                f"{', '.join(missing)}; create {'it' if len(missing) == 1 else 'them'} there with "
                "create_topic() first"
            ) from None


def read_stream(spark: SparkSession, parameters: Parameters, *topics: str, **options: str) -> DataFrame:
    """Read topics as a stream from their beginning, in Kafka's columns."""
    found = place_options(parameters) | {"subscribe": ",".join(topics), "startingOffsets": "earliest"}
    if not parameters.fail_on_data_loss:
        found["failOnDataLoss"] = "false"
    if parameters.max_offsets:
        found["maxOffsetsPerTrigger"] = str(parameters.max_offsets)
    return spark.readStream.format(FORMAT).options(**found | options).load()


def read_batch(spark: SparkSession, parameters: Parameters, *topics: str, **options: str) -> DataFrame:
    """Read topics as they are now, in Kafka's columns."""
    found = place_options(parameters) | {"subscribe": ",".join(topics)}
    return spark.read.format(FORMAT).options(**found | options).load()


def write_stream(frame: DataFrame, parameters: Parameters, topic: str) -> DataStreamWriter:
    """Write a stream with columns key and value to a topic, exactly once where the store is a directory."""
    return frame.writeStream.format(FORMAT).options(**place_options(parameters), topic=topic)


def write_batch(frame: DataFrame, parameters: Parameters, topic: str, query: str, number: int) -> None:
    """Write a micro-batch of a query, in foreachBatch, to a topic: once where the store is a directory."""
    options = place_options(parameters) | {"topic": topic}
    if parameters.path:
        options |= {"query": query, "batch": str(number)}
    frame.write.format(FORMAT).options(**options).mode("append").save()
