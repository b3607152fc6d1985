"""The asynchronous twin: the same names, awaited. No call blocks the event loop.

Each class here stands for one of the store and hands its calls to a few threads of its own, which spend
their time in system calls and compiled code without the GIL. What takes no lock and no system call is done
at once: most of what a producer sends. Whoever waits for records occupies no thread: the logs call the loop
when they move. This module adds no rule of its own; meaning, errors and defaults are those of the twin,
which is `sync` of every object here.

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

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from logstore.errors import ConsumerClosedError
from logstore.store import consumer as _consumer
from logstore.store import producer as _producer
from logstore.store import scans as _scans
from logstore.store import store as _store
from logstore.store import topic as _topic

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

_THREADS = 8


class _Threads:
    """A few threads that make blocking calls for one store.

    Owns: the threads, which end when the store has been closed.
    """

    def __init__(self, count: int) -> None:
        self._pool = _pool(count)
        self._ended = False

    def start(
        self, work: Callable[..., R], *args: Any, undo: Callable[[R], object] | None = None, **kwargs: Any
    ) -> asyncio.Future[R]:
        """Begin a call; its future may be cancelled, the call not. ``undo`` gets a result that nobody took."""
        loop = asyncio.get_running_loop()
        # What is called after the store was closed is told so, in a thread for that call alone.
        pool = _pool(1) if self._ended else self._pool
        taken = pool.submit(functools.partial(work, *args, **kwargs))
        if self._ended:
            pool.shutdown(wait=False)
        future = asyncio.wrap_future(taken, loop=loop)
        # A `concurrent.futures` future that has not begun is cancelled with its wrapper; one that has, goes on.
        if undo is not None:
            future.add_done_callback(functools.partial(self._taken_back, taken, undo))
        return future

    def _taken_back(self, taken: Any, undo: Callable[[Any], object], future: asyncio.Future[Any]) -> None:
        if future.cancelled():
            taken.add_done_callback(lambda done: done.cancelled() or done.exception() or undo(done.result()))

    def end(self) -> None:
        """Let the threads end, once they have done what was begun."""
        self._ended = True
        self._pool.shutdown(wait=False)


def _pool(count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, thread_name_prefix="logstore-aio")


class _Twin(Generic[S]):
    """Stands for one object of the store, named `sync`, whose calls block."""

    def __init__(self, sync: S, threads: _Threads) -> None:
        self.sync = sync
        self._threads = threads

    async def _call(self, work: Callable[..., R], *args: Any, **kwargs: Any) -> R:
        return await self._threads.start(work, *args, **kwargs)

    def __repr__(self) -> str:
        return f"<aio of {self.sync!r}>"


def _told_as(twin: Callable[..., Any]) -> Callable[[F], F]:
    """Give a function the name, the text and, for who looks, the signature of its twin."""
    return functools.wraps(twin)  # type: ignore[return-value]  # which says less of it


def _awaited(
    method: Callable[Concatenate[Any, P], R],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]:
    """A method of the twin, made in a thread."""

    @_told_as(method)
    async def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        made: R = await self._call(method, self.sync, *args, **kwargs)
        return made

    return call


def _asked(attribute: property) -> Callable[[Any], Coroutine[Any, Any, Any]]:
    """A property whose value may have to be waited for: a method here."""
    get = attribute.fget
    assert get is not None

    @_told_as(get)
    async def call(self: Any) -> Any:
        return await self._call(get, self.sync)

    return call


class Coming(Generic[T]):
    """Something that is opened when it is awaited, or entered by ``async with`` and closed behind it."""

    def __init__(self, opening: Callable[[], Awaitable[T]]) -> None:
        self._opening = opening
        self._opened: Any = None

    def __await__(self) -> Generator[Any, None, T]:
        return self._opening().__await__()

    async def __aenter__(self) -> T:
        self._opened = await self._opening()
        return self._opened  # type: ignore[no-any-return]

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._opened.__aexit__(kind, error, traceback)


class _Closing:
    """What is closed at the end of an ``async with``."""

    async def close(self) -> None:
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_exc_info: object) -> None:
        await self.close()


# --- topics and scans --------------------------------------------------------------------------


class Scan(_Twin[_scans.TopicScan]):
    """As `TopicScan`. Iterate it for records, or its `chunks`, `values` and `batches`, with ``async for``."""

    @property
    def columns(self) -> tuple[str, ...]:
        return self.sync.columns

    @property
    def partitions(self) -> tuple[int, ...]:
        return self.sync.partitions

    @property
    def bounds(self) -> dict[int, tuple[int, int]]:
        return self.sync.bounds

    count = _awaited(_scans.TopicScan.count)

    async def _each(self, iterator: Iterator[R]) -> AsyncIterator[R]:
        under_way: asyncio.Future[Any] | None = None
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
        """As `TopicScan.chunks`."""
        return self._each(self.sync.chunks())

    def values(self) -> AsyncIterator[list[bytes | None]]:
        """As `TopicScan.values`."""
        return self._each(self.sync.values())

    def batches(self) -> AsyncIterator[Any]:
        """As `TopicScan.batches`."""
        return self._each(self.sync.batches())

    async def __aiter__(self) -> AsyncIterator[Any]:
        async for chunk in self.chunks():
            for record in chunk:
                yield record


_END: Any = object()


class Topic(_Twin[_topic.Topic]):
    """As `Topic`."""

    @property
    def name(self) -> str:
        return self.sync.name

    @property
    def id(self) -> str:
        return self.sync.id

    partition_count = _asked(_topic.Topic.partition_count)  # type: ignore[arg-type]
    config = _asked(_topic.Topic.config)  # type: ignore[arg-type]
    append = _awaited(_topic.Topic.append)
    append_many = _awaited(_topic.Topic.append_many)
    append_arrow = _awaited(_topic.Topic.append_arrow)
    read = _awaited(_topic.Topic.read)
    offset_for_time = _awaited(_topic.Topic.offset_for_time)
    delete_records = _awaited(_topic.Topic.delete_records)

    @_told_as(_topic.Topic.scan)
    async def scan(self, *args: Any, **kwargs: Any) -> Scan:
        return Scan(await self._call(self.sync.scan, *args, **kwargs), self._threads)


# --- producers and consumers -------------------------------------------------------------------


class Producer(_Twin[_producer.Producer], _Closing):
    """As `Producer`. ``future = await producer.send(…)`` gathers, ``await future`` gives the `RecordMetadata`."""

    @property
    def config(self) -> Any:
        return self.sync.config

    @property
    def partitioner(self) -> Any:
        return self.sync.partitioner

    @property
    def producer_id(self) -> int:
        return self.sync.producer_id

    @property
    def closed(self) -> bool:
        return self.sync.closed

    @_told_as(_producer.Producer.send)
    async def send(
        self,
        topic: str,
        value: Any,
        key: Any = None,
        *,
        partition: int | None = None,
        timestamp: Any = None,
        headers: Any = None,
    ) -> Any:
        future = self.sync.offer(topic, value, key, partition=partition, timestamp=timestamp, headers=headers)
        if future is not None:
            return future
        return await self._call(
            self.sync.send, topic, value, key, partition=partition, timestamp=timestamp, headers=headers
        )

    flush = _awaited(_producer.Producer.flush)
    partitions_for = _awaited(_producer.Producer.partitions_for)
    metrics = _awaited(_producer.Producer.metrics)
    tick = _awaited(_producer.Producer.tick)
    close = _awaited(_producer.Producer.close)


class Consumer(_Twin[_consumer.Consumer], _Closing):
    """As `Consumer`. Calls of several tasks take turns; `wakeup` and `close` end one that waits."""

    def __init__(self, sync: _consumer.Consumer, threads: _Threads) -> None:
        super().__init__(sync, threads)
        self._turn = asyncio.Lock()
        self._news = asyncio.Event()

    async def _call(self, work: Callable[..., R], *args: Any, **kwargs: Any) -> R:
        """Make a call in a thread, alone: the next one waits for that thread, also after a cancellation."""
        await self._turn.acquire()
        return await self._begin(work, *args, **kwargs)

    def _begin(self, work: Callable[..., R], *args: Any, **kwargs: Any) -> Awaitable[R]:
        # Shielded: were it cancelled, nobody would know when its thread has left the consumer.
        try:
            future = self._threads.start(work, *args, **kwargs)
        except BaseException:
            self._turn.release()
            raise
        future.add_done_callback(self._ended)
        return asyncio.shield(future)

    def _ended(self, future: asyncio.Future[Any]) -> None:
        self._turn.release()
        if not future.cancelled():
            future.exception()  # that nobody may be left to ask for

    @property
    def config(self) -> Any:
        return self.sync.config

    @property
    def assignment(self) -> frozenset[Any]:
        return self.sync.assignment

    @property
    def paused(self) -> frozenset[Any]:
        return self.sync.paused

    assign = _awaited(_consumer.Consumer.assign)
    pause = _awaited(_consumer.Consumer.pause)
    resume = _awaited(_consumer.Consumer.resume)
    position = _awaited(_consumer.Consumer.position)
    positions = _awaited(_consumer.Consumer.positions)
    topic_id = _awaited(_consumer.Consumer.topic_id)
    seek = _awaited(_consumer.Consumer.seek)
    seek_to_beginning = _awaited(_consumer.Consumer.seek_to_beginning)
    seek_to_end = _awaited(_consumer.Consumer.seek_to_end)
    seek_to_time = _awaited(_consumer.Consumer.seek_to_time)
    beginning_offsets = _awaited(_consumer.Consumer.beginning_offsets)
    end_offsets = _awaited(_consumer.Consumer.end_offsets)
    offsets_for_times = _awaited(_consumer.Consumer.offsets_for_times)
    commit = _awaited(_consumer.Consumer.commit)
    committed = _awaited(_consumer.Consumer.committed)

    @_told_as(_consumer.Consumer.poll)
    async def poll(self, timeout_s: float = 0.0, max_records: int | None = None) -> list[Any]:
        limit = _consumer.check_limit(self.config.max_poll_records if max_records is None else max_records)
        records: list[Any] = []
        # Taken without an await in between: either the caller gets them, or they are still in their runs.
        for run in await self._runs(timeout_s):
            try:
                records.extend(run.allow(limit - len(records)))
            except Exception:
                # What came before has been taken and must be handed out; the next call says it again.
                if not records:
                    raise
            if len(records) >= limit:
                break
        return records

    def __aiter__(self) -> AsyncIterator[Any]:
        return self.records()

    @_told_as(_consumer.Consumer.records)
    async def records(self, timeout_s: float | None = None) -> AsyncIterator[Any]:
        each = self.config.max_poll_records
        try:
            while runs := await self._runs(timeout_s):
                # One at a time: what is left of the others comes again.
                for record in runs[0].allow(each):
                    yield record
        except ConsumerClosedError:
            return

    async def _runs(self, timeout_s: float | None) -> list[Any]:
        """Runs that have records; none once there was nothing new for ``timeout_s``."""
        loop = asyncio.get_running_loop()
        until = None if timeout_s is None else loop.time() + timeout_s
        while True:
            self._news.clear()
            runs: list[Any] = await self._call(self.sync.ready)
            if runs:
                return runs
            left = None if until is None else until - loop.time()
            if left is not None and left <= 0:
                return []
            await self._wait(left, loop)

    async def _wait(self, left: float | None, loop: asyncio.AbstractEventLoop) -> None:
        """Until a log moves, somebody wakes the consumer, or the time is over. Occupies no thread."""

        def ring() -> None:
            try:
                loop.call_soon_threadsafe(self._news.set)
            except RuntimeError:
                pass  # the loop is closed, and nobody waits any more

        listening = self.sync.listen(ring)
        listening.begin()
        try:
            if listening.is_there():
                return
            if listening.must_look:
                left = listening.LOOK_S if left is None else min(left, listening.LOOK_S)
            async with asyncio.timeout(left):
                await self._news.wait()
        except TimeoutError:
            pass
        finally:
            listening.end()

    def wakeup(self) -> None:
        """As `Consumer.wakeup`; at once, and inside the loop's own thread."""
        self.sync.wakeup()
        self._news.set()

    @_told_as(_consumer.Consumer.close)
    async def close(self) -> None:
        self._news.set()
        await self._call(self.sync.close)
        self._news.set()

    @_told_as(_consumer.Consumer.abandon)
    async def abandon(self) -> None:
        await self._call(self.sync.abandon)
        self._news.set()

    async def __aexit__(self, kind: type[BaseException] | None, *_exc_info: object) -> None:
        await (self.close() if kind is None else self.abandon())


# --- the store ---------------------------------------------------------------------------------


class Store(_Twin[_store.Store], _Closing):
    """As `Store`."""

    @property
    def path(self) -> str:
        return self.sync.path

    @property
    def config(self) -> Any:
        return self.sync.config

    @property
    def read_only(self) -> bool:
        return self.sync.read_only

    @property
    def cluster_id(self) -> str:
        return self.sync.cluster_id

    @property
    def closed(self) -> bool:
        return self.sync.closed

    topics = _awaited(_store.Store.topics)
    describe_topic = _awaited(_store.Store.describe_topic)
    alter_topic = _awaited(_store.Store.alter_topic)  # type: ignore[arg-type]  # its settings might be named self
    delete_topic = _awaited(_store.Store.delete_topic)
    commit_offsets = _awaited(_store.Store.commit_offsets)
    committed = _awaited(_store.Store.committed)
    lag = _awaited(_store.Store.lag)
    flush = _awaited(_store.Store.flush)
    housekeep = _awaited(_store.Store.housekeep)

    @_told_as(_store.Store.create_topic)
    async def create_topic(self, *args: Any, **kwargs: Any) -> Topic:
        return Topic(await self._call(self.sync.create_topic, *args, **kwargs), self._threads)

    @_told_as(_store.Store.add_partitions)
    async def add_partitions(self, *args: Any, **kwargs: Any) -> Topic:
        return Topic(await self._call(self.sync.add_partitions, *args, **kwargs), self._threads)

    @_told_as(_store.Store.topic)
    async def topic(self, *args: Any, **kwargs: Any) -> Topic:
        return Topic(await self._call(self.sync.topic, *args, **kwargs), self._threads)

    @_told_as(_store.Store.producer)
    def producer(self, *args: Any, **kwargs: Any) -> Coming[Producer]:
        async def opening() -> Producer:
            made = self._threads.start(self.sync.producer, *args, undo=_producer.Producer.close, **kwargs)
            return Producer(await made, self._threads)

        return Coming(opening)

    @_told_as(_store.Store.consumer)
    def consumer(self, *args: Any, **kwargs: Any) -> Coming[Consumer]:
        async def opening() -> Consumer:
            made = self._threads.start(self.sync.consumer, *args, undo=_consumer.Consumer.abandon, **kwargs)
            return Consumer(await made, self._threads)

        return Coming(opening)

    @_told_as(_store.Store.close)
    async def close(self) -> None:
        if self.sync.closed:
            self._threads.end()
        else:
            # Shielded: a store that is half closed could not be closed again.
            closing = self._threads.start(self.sync.close)
            closing.add_done_callback(lambda _done: self._threads.end())
            await asyncio.shield(closing)


@_told_as(_store.open_store)
def open(*args: Any, threads: int = _THREADS, **kwargs: Any) -> Coming[Store]:
    async def opening() -> Store:
        pool = _Threads(threads)
        try:
            return Store(await pool.start(_store.open_store, *args, undo=_store.Store.close, **kwargs), pool)
        except BaseException:
            # What is under way, closing again among it, is still finished.
            pool.end()
            raise

    return Coming(opening)


__all__ = ["Coming", "Consumer", "Producer", "Scan", "Store", "Topic", "open"]
