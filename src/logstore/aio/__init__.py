"""The asynchronous twin: the same names, awaited. No call blocks the event loop.

Each class here stands for one of the store and hands its calls to a few threads of its own, which spend
their time in system calls and compiled code without the GIL. What takes no lock and no system call is done
at once: most of what a producer sends. Whoever waits for records occupies no thread: the logs call the loop
when they move. This module adds no rule of its own; meaning, errors and defaults are those of the twin,
which is `sync` of every object here.

What has no await is answered at once: ``name in store`` goes by what is in memory, but reads a small file where the
store is open read-only.

A call that is cancelled is over for its caller at once, but a system call cannot be taken back: an append
may still be written, a flush goes on. Nothing is lost by it: records that a cancelled `poll` was to give
come again, and what a cancelled `open` has opened is closed.

>>> import asyncio, logstore.aio
>>> async def main():
...     async with logstore.aio.open(tmp / "data") as store:
...         await store.create_topic("flights")
...         async with store.producer() as producer:
...             await producer.send("flights", b"AA 1141")
...         async with store.consumer(auto_offset_reset="earliest") as consumer:
...             await consumer.assign(["flights"])
...             return [record.value for record in await consumer.poll()]
>>> asyncio.run(main())
[b'AA 1141']
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from logstore.aio.clients import Consumer, Producer
from logstore.aio.store import Store
from logstore.aio.store import open as open
from logstore.aio.threads import Pending
from logstore.aio.topics import Scan, Topic

#: Without `open`: ``from logstore.aio import *`` must not take Python's own away from the program.
__all__ = ["Consumer", "Pending", "Producer", "Scan", "Store", "Topic"]


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name == "Coming":
            from logstore.renamed import warn

            warn("logstore.aio.Coming", "logstore.aio.Pending")
            return Pending
        raise AttributeError(f"module 'logstore.aio' has no attribute {name!r}")
