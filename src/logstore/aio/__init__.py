"""The asynchronous facade of a store: the same names, awaited. No call blocks the event loop.

Each class here stands for one of the store and runs its calls in a few threads of its own. They spend
their time in system calls and compiled code without the GIL. Calls that take no lock and no system call run
at once: most calls of `send`. A task that waits for records occupies no thread: the logs notify the loop
of new records. This module adds no rule of its own; meaning, errors and defaults are those of the
synchronous object, which is `sync` of every object here.

Operations without an await run at once. ``name in store`` uses the topics in memory, but reads a small file if the
store is open read-only.

A cancelled call ends at once for its caller. A system call cannot be withdrawn: an append may still be written,
and a flush continues. Nothing is lost. Records that a cancelled `poll` would have returned are returned again, and
a store that a cancelled `open` has opened is closed.

>>> import asyncio, logstore.aio
>>> async def main():
...     async with logstore.aio.open(tmp / "data") as store:
...         await store.create_topic("flights")
...         async with store.producer() as producer:
...             await producer.send("flights", b"AA 1141")
...         async with store.consumer(auto_offset_reset="earliest") as consumer:
...             await consumer.assign_topics(["flights"])
...             return [record.value for record in await consumer.poll()]
>>> asyncio.run(main())
[b'AA 1141']
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from logstore.aio.clients import Consumer, Producer
from logstore.aio.store import Store, connect
from logstore.aio.store import open as open
from logstore.aio.threads import Pending
from logstore.aio.topics import Scan, Topic

#: Without `open`: ``from logstore.aio import *`` would hide Python's own `open` in the program.
__all__ = ["Consumer", "Pending", "Producer", "Scan", "Store", "Topic", "connect"]


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name == "Coming":
            from logstore.renamed import warn

            warn("logstore.aio.Coming", "logstore.aio.Pending")
            return Pending
        raise AttributeError(f"module 'logstore.aio' has no attribute {name!r}")
