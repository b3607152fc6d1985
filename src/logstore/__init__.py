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

    from logstore.batch._batch import Record
    from logstore.batch._key_hash import partition_of
    from logstore.client.consumer import Consumer
    from logstore.client.dbapi import DatabaseOffsets
    from logstore.client.partitioners import Partitioner
    from logstore.client.producer import Producer
    from logstore.config.client import ConsumerConfig, ProducerConfig
    from logstore.config.log import LogConfig
    from logstore.config.store import StoreConfig
    from logstore.errors import LogstoreError
    from logstore.groups.offsets import OffsetAndMetadata
    from logstore.log import Log
    from logstore.records import Ack, AppendResult, Codec, Isolation, RecordMetadata, TopicPartition
    from logstore.remote.topics.store import connect as connect
    from logstore.store import Store, Topic, open_store
    from logstore.store.admin.kafka_directories import adopt_kafka_directory, release_to_kafka
    from logstore.store.admin.rebuild import rebuild

    __version__: str
    open = open_store

_HOMES = {
    "Record": "logstore.batch._batch",
    **dict.fromkeys(("ConsumerConfig", "ProducerConfig"), "logstore.config.client"),
    "LogConfig": "logstore.config.log",
    "partition_of": "logstore.batch._key_hash",
    "LogstoreError": "logstore.errors",
    "StoreConfig": "logstore.config.store",
    "Log": "logstore.log",
    **dict.fromkeys(
        ("Ack", "AppendResult", "Codec", "Isolation", "RecordMetadata", "TopicPartition"), "logstore.records"
    ),
    "OffsetAndMetadata": "logstore.groups.offsets",
    "connect": "logstore.remote.topics.store",
    **dict.fromkeys(("Store", "Topic", "open"), "logstore.store"),
    **dict.fromkeys(("adopt_kafka_directory", "release_to_kafka"), "logstore.store.admin.kafka_directories"),
    "Consumer": "logstore.client.consumer",
    "DatabaseOffsets": "logstore.client.dbapi",
    "Partitioner": "logstore.client.partitioners",
    "Producer": "logstore.client.producer",
    "rebuild": "logstore.store.admin.rebuild",
}

#: Former name -> module and name of today, kept for one release.
_RENAMED = {
    **{
        name: ("logstore.log", name)
        for name in (
            *("AbortedTransaction", "BatchView", "Batches", "HighWatermarkPolicy", "LogReader"),
            *("Marker", "Origin", "ProducerStamp", "StandalonePolicy"),
        )
    },
    "Lag": ("logstore.client.lag", "Lag"),
    "Owner": ("logstore.log", "HighWatermarkPolicy"),
    "SoloOwner": ("logstore.log", "StandalonePolicy"),
    "TimestampOffset": ("logstore.records", "TimestampOffset"),
    "TimestampType": ("logstore.records", "TimestampType"),
    "adopt": ("logstore", "adopt_kafka_directory"),
    "hand_back": ("logstore", "release_to_kafka"),
}

#: Without `open`: ``from logstore import *`` would hide Python's own `open` from the program.
__all__ = [
    "Ack",
    "AppendResult",
    "Codec",
    "Consumer",
    "ConsumerConfig",
    "DatabaseOffsets",
    "Isolation",
    "Log",
    "LogConfig",
    "LogstoreError",
    "OffsetAndMetadata",
    "Partitioner",
    "Producer",
    "ProducerConfig",
    "Record",
    "RecordMetadata",
    "Store",
    "StoreConfig",
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

            home, new = _RENAMED[name]
            warn(f"logstore.{name}", f"{home}.{new}")
            return getattr(import_module(home), new)
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module 'logstore' has no attribute {name!r}")
        value = getattr(import_module(home), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return [*__all__, "__version__", "connect", "open"]


class _Renamed:
    """Finder of modules by their old names: it imports `logstore.renamed` only when Python finds no other."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if not name.startswith("logstore."):
            return None
        from logstore.renamed import Renamed

        return Renamed.find_spec(name)


sys.meta_path.append(_Renamed)
