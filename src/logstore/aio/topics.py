"""Asynchronous facades of a topic and of a scan of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, TypeVar

from logstore.aio.threads import LateFacade, SyncAttribute, Threads, async_method, document_as, sync_property
from logstore.client.scan import topic_scan as _scans
from logstore.store import topic as _topic

R = TypeVar("R")


class Scan(LateFacade[_scans.TopicScan]):
    """A `TopicScan` for tasks. Iterate it for records, or its `chunks`, `values` and `batches`, with ``async for``.

    ``await topic.scan(...)`` fixes the range; a scan used without it, as in ``async for record in
    topic.scan(...)``, fixes it at its first use. Its attributes (`bounds`, `columns`) are known from then on.
    """

    def __init__(self, make: Callable[[], _scans.TopicScan], threads: Threads, topic: str) -> None:
        super().__init__(make, threads)
        self.topic = topic

    def __repr__(self) -> str:
        return f"<aio scan of {self.topic!r}>"

    columns = SyncAttribute[tuple[str, ...]]()
    partitions = SyncAttribute[tuple[int, ...]]()
    bounds = SyncAttribute[dict[int, tuple[int, int]]]()
    left_out = SyncAttribute[list[Any]]()

    count = async_method(_scans.TopicScan.count)
    to_numpy = async_method(_scans.TopicScan.to_numpy)
    to_arrow = async_method(_scans.TopicScan.to_arrow)
    to_pandas = async_method(_scans.TopicScan.to_pandas)
    to_polars = async_method(_scans.TopicScan.to_polars)
    to_duckdb = async_method(_scans.TopicScan.to_duckdb)

    async def _each(self, method: Callable[[_scans.TopicScan], Iterator[R]]) -> AsyncIterator[R]:
        under_way: asyncio.Future[Any] | None = None
        iterator = method(await self._ready())
        try:
            while True:
                under_way = self._threads.start(next, iterator, _END)
                item = await under_way
                if item is _END:
                    return
                yield item
        finally:
            if under_way is not None:
                under_way.cancel()

    def chunks(self) -> AsyncIterator[Any]:
        """Iterate as `TopicScan.chunks` does."""
        return self._each(_scans.TopicScan.chunks)

    def values(self) -> AsyncIterator[list[bytes | None]]:
        """Iterate as `TopicScan.values` does."""
        return self._each(_scans.TopicScan.values)

    def batches(self) -> AsyncIterator[Any]:
        """Iterate as `TopicScan.batches` does."""
        return self._each(_scans.TopicScan.batches)

    async def __aiter__(self) -> AsyncIterator[Any]:
        async for chunk in self.chunks():
            for record in chunk:
                yield record


_END: Any = object()


class Topic(LateFacade[_topic.Topic]):
    """A `Topic` for tasks. ``store[name]`` looks for its topic when it is awaited, or first used.

    There is no ``topic[0]``: the calls of a log block.
    """

    def __init__(self, make: Callable[[], _topic.Topic], threads: Threads, name: str) -> None:
        super().__init__(make, threads)
        self.name = name

    def __repr__(self) -> str:
        return f"<aio topic {self.name!r}>"

    id = SyncAttribute[str]()

    partition_count = sync_property(_topic.Topic.partition_count)  # type: ignore[arg-type]  # read as an int
    config = sync_property(_topic.Topic.config)  # type: ignore[arg-type]  # read as a LogConfig
    append = async_method(_topic.Topic.append)
    append_many = async_method(_topic.Topic.append_many)
    append_arrow = async_method(_topic.Topic.append_arrow)
    read = async_method(_topic.Topic.read)
    record_at = async_method(_topic.Topic.record_at)
    offset_for_time = async_method(_topic.Topic.offset_for_time)
    delete_records = async_method(_topic.Topic.delete_records)

    @document_as(_topic.Topic.scan)
    def scan(self, *args: Any, **kwargs: Any) -> Scan:
        return Scan(lambda: self._get().scan(*args, **kwargs), self._threads, self.name)
