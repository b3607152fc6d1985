"""Asynchronous facade of a store, and its opening."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from logstore.aio.clients import Consumer, Producer
from logstore.aio.threads import AsyncFacade, Closing, Pending, SyncAttribute, Threads, async_method, document_as
from logstore.aio.topics import Topic
from logstore.client import consumer as _consumer
from logstore.client import producer as _producer
from logstore.clock import SYSTEM_CLOCK
from logstore.errors import DirectoryLockedError
from logstore.renamed import keep_names
from logstore.store import store as _store
from logstore.store import topic as _topic

_THREADS = 8

#: Names of the last release: those of the synchronous store that were here too.
_FORMER: dict[str, tuple[str, str | Callable[..., Any]]] = {
    **{
        name: (_store.MOVED[name], f"sync._host.{name}") for name in ("closed", "cluster_id", "config", "read_only")
    },
    "ingest": (
        _store.MOVED["ingest"],
        lambda self, *given, **named: self._call(self.sync._host.ingest, *given, **named),
    ),
}


@keep_names("store", _FORMER)
class Store(AsyncFacade[Any], Closing):
    """A `Store` for tasks, or the topics of a cluster, by what has opened it."""

    path = SyncAttribute[str]()

    topics = async_method(_store.Store.topics)
    describe_topic = async_method(_store.Store.describe_topic)
    alter_topic = async_method(_store.Store.alter_topic)
    delete_topic = async_method(_store.Store.delete_topic)
    delete_topics = async_method(_store.Store.delete_topics)
    commit_offsets = async_method(_store.Store.commit_offsets)
    committed = async_method(_store.Store.committed)
    lag = async_method(_store.Store.lag)
    flush = async_method(_store.Store.flush)
    housekeep = async_method(_store.Store.housekeep)
    snapshot = async_method(_store.Store.snapshot)
    disk_usage = async_method(_store.Store.disk_usage)
    metrics = async_method(_store.Store.metrics)
    set_disk_budget = async_method(_store.Store.set_disk_budget)

    @document_as(_store.Store.create_topic)
    async def create_topic(self, *args: Any, **kwargs: Any) -> Topic:
        return await self._topic(await self._call(self.sync.create_topic, *args, **kwargs))

    @document_as(_store.Store.create_topics)
    async def create_topics(self, *args: Any, **kwargs: Any) -> list[Topic]:
        return [await self._topic(made) for made in await self._call(self.sync.create_topics, *args, **kwargs)]

    @document_as(_store.Store.add_partitions)
    async def add_partitions(self, *args: Any, **kwargs: Any) -> Topic:
        return await self._topic(await self._call(self.sync.add_partitions, *args, **kwargs))

    async def _topic(self, made: _topic.Topic) -> Topic:
        return await Topic(lambda: made, self._threads, made.name)

    @document_as(_store.Store.topic)
    def topic(self, name: str) -> Topic:
        return Topic(lambda: self.sync.topic(name), self._threads, name)

    def __getitem__(self, name: str) -> Topic:
        return self.topic(name)

    def __contains__(self, name: object) -> bool:
        """Test ``name in`` a `Store`, at once; if it is open read-only, that reads a small file."""
        return name in self.sync

    async def __aiter__(self) -> AsyncIterator[str]:
        for name in await self.topics():
            yield name

    @document_as(_store.Store.producer)
    def producer(self, *args: Any, **kwargs: Any) -> Pending[Producer]:
        async def opening() -> Producer:
            made = await self._threads.make(self.sync.producer, _producer.Producer.close, *args, **kwargs)
            return Producer(made, self._threads)

        return Pending(opening, "store.producer")

    @document_as(_store.Store.consumer)
    def consumer(self, *args: Any, **kwargs: Any) -> Pending[Consumer]:
        async def opening() -> Consumer:
            made = await self._threads.make(self.sync.consumer, _consumer.Consumer._abandon, *args, **kwargs)
            return Consumer(made, self._threads)

        return Pending(opening, "store.consumer")

    @document_as(_store.Store.close)
    async def close(self) -> None:
        if self.sync._is_closed:
            self._threads.end()
        else:
            # Shielded: a half-closed store could not be closed again.
            closing = self._threads.start(self.sync.close)
            closing.add_done_callback(lambda _done: self._threads.end())
            await asyncio.shield(closing)


def connect(*args: Any, threads: int = _THREADS, **kwargs: Any) -> Pending[Store]:
    """Connect to a Kafka cluster, as `logstore.connect` does with the same arguments.

    ``threads`` is how many calls may wait for brokers at once.
    """

    async def connecting() -> Store:
        from logstore.remote.topics.store import (  # here: only this call needs a client of brokers
            RemoteStore,
            connect,
        )

        pool = Threads(threads)
        try:
            return Store(await pool.make(connect, RemoteStore.close, *args, **kwargs), pool)
        except BaseException:
            pool.end()
            raise

    return Pending(connecting, "logstore.aio.connect")


@document_as(_store.open_store)
def open(*args: Any, threads: int = _THREADS, wait_s: float | None = 0.0, **kwargs: Any) -> Pending[Store]:
    async def opening() -> Store:
        pool = Threads(threads)
        patience = _store.Patience(SYSTEM_CLOCK, wait_s)
        try:
            while True:
                try:
                    return Store(await pool.make(_store.open_store, _store.Store.close, *args, **kwargs), pool)
                except DirectoryLockedError as error:
                    # Waited for here: a waiting thread would continue after its caller has given up.
                    pause_s = patience.pause_s(error)
                await asyncio.sleep(pause_s)
        except BaseException:
            # Running calls still finish, and so does closing after a cancellation.
            pool.end()
            raise

    return Pending(opening, "logstore.aio.open")
