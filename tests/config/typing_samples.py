"""Programs with mistakes in settings: `make lint` fails if a type checker accepts one of them.

Each ``type: ignore`` names the error that is expected; an unused one is an error itself. Nothing runs this file.
"""

# pyright: strict, reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

import logstore
from logstore import Log


def right(path: str) -> None:
    with logstore.open(path, num_partitions=2, retention_ms="7d") as store:
        store.create_topic("flights", retention_ms=86_400_000, cleanup_policy="compact")


def misspelt(path: str) -> None:
    with logstore.open(path, num_partition=2) as store:  # type: ignore[call-arg]
        store.create_topic("flights", retenton_ms=5)  # type: ignore[call-arg]
        store.alter_topic("flights", retenton_ms=5)  # type: ignore[call-arg]
    Log.open(path, segment_byte=5)  # type: ignore[call-overload]


def text_for_a_number(path: str) -> None:
    with logstore.open(path, num_partitions="2") as store:  # type: ignore[arg-type]
        store.create_topic("flights", flush_messages="1")  # type: ignore[arg-type]
        store.alter_topic("flights", flush_messages="1")  # type: ignore[arg-type]
    Log.open(path, flush_messages="1")  # type: ignore[call-overload]
