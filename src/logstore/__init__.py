"""Kafka's log as a Python library: durable, ordered, replayable records in plain files.

>>> import logstore
>>> with logstore.open(tmp / "data") as store:
...     flights = store.create_topic("flights", partitions=4)
...     flights.append(b"AA 1141", key=b"AA", ack="synced").offset
0

Names are imported when they are first used, so a program that never opens a log does not pay for them.
Most of the cost is `dataclasses` and `logging`, which its other parts may import anyway.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

    from logstore.batch._batch import Batches, BatchView, Record
    from logstore.batch._key_hash import partition_of
    from logstore.client.consumer import Consumer
    from logstore.client.dbapi import DatabaseOffsets
    from logstore.client.lag import Lag
    from logstore.client.partitioners import Partitioner
    from logstore.client.producer import Producer
    from logstore.config.client import ConsumerConfig, ProducerConfig
    from logstore.config.log import LogConfig
    from logstore.config.store import StoreConfig
    from logstore.errors import LogstoreError
    from logstore.groups.offsets import OffsetAndMetadata
    from logstore.log import HighWatermarkPolicy, Log, LogReader, ProducerStamp, StandalonePolicy
    from logstore.records import (
        AbortedTransaction,
        Ack,
        AppendResult,
        Codec,
        Isolation,
        Marker,
        Origin,
        RecordMetadata,
        TimestampOffset,
        TimestampType,
        TopicPartition,
    )
    from logstore.store import Store, Topic, open_store
    from logstore.store.admin.kafka_directories import adopt_kafka_directory, release_to_kafka
    from logstore.store.admin.rebuild import rebuild

    __version__: str
    open = open_store

_HOMES = {
    **dict.fromkeys(("BatchView", "Batches", "Record"), "logstore.batch._batch"),
    **dict.fromkeys(("ConsumerConfig", "ProducerConfig"), "logstore.config.client"),
    "LogConfig": "logstore.config.log",
    "partition_of": "logstore.batch._key_hash",
    "LogstoreError": "logstore.errors",
    "StoreConfig": "logstore.config.store",
    **dict.fromkeys(
        ("Log", "LogReader", "HighWatermarkPolicy", "ProducerStamp", "StandalonePolicy"), "logstore.log"
    ),
    **dict.fromkeys(
        (
            "AbortedTransaction",
            "Ack",
            "AppendResult",
            "Codec",
            "Isolation",
            "Marker",
            "Origin",
            "RecordMetadata",
            "TimestampOffset",
            "TimestampType",
            "TopicPartition",
        ),
        "logstore.records",
    ),
    "OffsetAndMetadata": "logstore.groups.offsets",
    **dict.fromkeys(("Store", "Topic", "open"), "logstore.store"),
    **dict.fromkeys(("adopt_kafka_directory", "release_to_kafka"), "logstore.store.admin.kafka_directories"),
    "Consumer": "logstore.client.consumer",
    "DatabaseOffsets": "logstore.client.dbapi",
    "Lag": "logstore.client.lag",
    "Partitioner": "logstore.client.partitioners",
    "Producer": "logstore.client.producer",
    "rebuild": "logstore.store.admin.rebuild",
}

#: Old name -> new name, kept for one release.
_RENAMED = {
    "Owner": "HighWatermarkPolicy",
    "SoloOwner": "StandalonePolicy",
    "adopt": "adopt_kafka_directory",
    "hand_back": "release_to_kafka",
}

#: Without `open`: ``from logstore import *`` would hide Python's own `open` from the program.
__all__ = [
    "AbortedTransaction",
    "Ack",
    "AppendResult",
    "BatchView",
    "Batches",
    "Codec",
    "Consumer",
    "ConsumerConfig",
    "DatabaseOffsets",
    "HighWatermarkPolicy",
    "Isolation",
    "Lag",
    "Log",
    "LogConfig",
    "LogReader",
    "LogstoreError",
    "Marker",
    "OffsetAndMetadata",
    "Origin",
    "Partitioner",
    "Producer",
    "ProducerConfig",
    "ProducerStamp",
    "Record",
    "RecordMetadata",
    "StandalonePolicy",
    "Store",
    "StoreConfig",
    "TimestampOffset",
    "TimestampType",
    "Topic",
    "TopicPartition",
    "adopt_kafka_directory",
    "partition_of",
    "rebuild",
    "release_to_kafka",
]


if not TYPE_CHECKING:
    # A type checker that sees it accepts every name of the module.
    def __getattr__(name: str) -> object:
        from importlib import import_module

        if name == "__version__":
            # A copy in the code could differ from the distribution that is installed.
            from importlib.metadata import version

            return version("logstore")
        if name in _RENAMED:
            from logstore.renamed import warn

            warn(f"logstore.{name}", f"logstore.{_RENAMED[name]}")
            return __getattr__(_RENAMED[name])
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module 'logstore' has no attribute {name!r}")
        value = getattr(import_module(home), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return [*__all__, "__version__", "open"]


class _Renamed:
    """Finder of modules by their old names: it imports `logstore.renamed` only when Python finds no other."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if not name.startswith("logstore."):
            return None
        from logstore.renamed import Renamed

        return Renamed.find_spec(name)


sys.meta_path.append(_Renamed)
