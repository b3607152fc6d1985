"""Asynchronous facades of a producer and of a consumer.

A producer sends most records at once, since that needs no lock; the others use a thread. A waiting consumer
is notified by the logs it reads. Its calls take turns, and no record is handed out in a thread. So a
cancelled poll has either returned its records or left them in their runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from logstore.aio.threads import AsyncFacade, Closing, SyncAttribute, Threads, async_method, document_as
from logstore.aio.wakeups import LoopWakeups
from logstore.client import consumer as _consumer
from logstore.client import producer as _producer
from logstore.clock import seconds_of
from logstore.errors import ConsumerClosedError
from logstore.renamed import keep_names

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from logstore.batch.record_types import Headers
    from logstore.io._notifier import Notifier

R = TypeVar("R")


@keep_names("Producer", {name: (advice, f"sync._{name}") for name, advice in _producer.FORMER.items()})
class Producer(AsyncFacade[_producer.Producer], Closing):
    """A `Producer` for tasks: ``future = await producer.send(…)`` sends, ``await future`` waits for the result."""

    producer_id = SyncAttribute[int]()
    closed = SyncAttribute[bool]()

    @document_as(_producer.Producer.send)
    async def send(
        self,
        topic: str,
        value: Buffer | None,
        key: Buffer | None = None,
        *,
        partition: int | None = None,
        timestamp: Any = None,
        headers: Headers | None = None,
    ) -> Any:
        future = self.sync._offer(topic, value, key, partition=partition, timestamp=timestamp, headers=headers)
        if future is not None:
            return future
        return await self._call(
            self.sync.send, topic, value, key, partition=partition, timestamp=timestamp, headers=headers
        )

    flush = async_method(_producer.Producer.flush)
    partitions_for = async_method(_producer.Producer.partitions_for)
    metrics = async_method(_producer.Producer.metrics)
    tick = async_method(_producer.Producer.tick)
    close = async_method(_producer.Producer.close)


@keep_names("Consumer", {"config": (_consumer.FORMER["config"][0], "sync._config")})
class Consumer(AsyncFacade[_consumer.Consumer], Closing):
    """A `Consumer` for tasks. Calls of several tasks take turns; `wakeup` and `close` end one that waits."""

    def __init__(self, sync: _consumer.Consumer, threads: Threads) -> None:
        super().__init__(sync, threads)
        self._turn = asyncio.Lock()
        self._news = asyncio.Event()
        self._wakeups: LoopWakeups | None = None  # once the consumer has waited
        self._notifier: Notifier | None = None

    async def _call(self, work: Callable[..., R], *args: Any, **kwargs: Any) -> R:
        """Run a call in a thread, exclusively: the next one waits for that thread, also after a cancellation."""
        await self._turn.acquire()
        return await self._begin(work, *args, **kwargs)

    def _begin(self, work: Callable[..., R], *args: Any, **kwargs: Any) -> Awaitable[R]:
        # Shielded: after a cancellation nothing would tell when its thread has left the consumer.
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
            future.exception()  # the task may be gone; an error not retrieved would be logged

    assignment = SyncAttribute[frozenset[Any]]()
    paused = SyncAttribute[frozenset[Any]]()

    assign = async_method(_consumer.Consumer.assign)
    assign_topics = async_method(_consumer.Consumer.assign_topics)
    subscribe = async_method(_consumer.Consumer.subscribe)
    unsubscribe = async_method(_consumer.Consumer.unsubscribe)
    pause = async_method(_consumer.Consumer.pause)
    resume = async_method(_consumer.Consumer.resume)
    position = async_method(_consumer.Consumer.position)
    seek = async_method(_consumer.Consumer.seek)
    seek_to_beginning = async_method(_consumer.Consumer.seek_to_beginning)
    seek_to_end = async_method(_consumer.Consumer.seek_to_end)
    seek_to_time = async_method(_consumer.Consumer.seek_to_time)
    beginning_offsets = async_method(_consumer.Consumer.beginning_offsets)
    end_offsets = async_method(_consumer.Consumer.end_offsets)
    offsets_for_times = async_method(_consumer.Consumer.offsets_for_times)
    commit = async_method(_consumer.Consumer.commit)
    committed = async_method(_consumer.Consumer.committed)

    @document_as(_consumer.Consumer.poll)
    async def poll(self, timeout_s: float | None = 0.0, max_records: int | None = None) -> list[Any]:
        limit = _consumer.check_limit(self.sync._config.max_poll_records if max_records is None else max_records)
        timeout_s = seconds_of(timeout_s)
        records: list[Any] = []
        # Taken without an await in between: either the caller gets them, or they are still in their runs.
        for run in await self._runs(timeout_s):
            try:
                records.extend(run.allow(limit - len(records)))
            except Exception:
                # Records already taken must be returned first; the next call raises the error again.
                if not records:
                    raise
            if len(records) >= limit:
                break
        return records

    def __aiter__(self) -> AsyncIterator[Any]:
        return self.records()

    @document_as(_consumer.Consumer.records)
    async def records(self, timeout_s: float | None = None) -> AsyncIterator[Any]:
        each = self.sync._config.max_poll_records
        timeout_s = seconds_of(timeout_s)
        try:
            while runs := await self._runs(timeout_s):
                # One run at a time: the rest of the others comes again.
                for record in runs[0].allow(each):
                    yield record
        except ConsumerClosedError:
            return

    async def _runs(self, timeout_s: float | None) -> list[Any]:
        """Return runs that have records; none once nothing new has come for ``timeout_s``."""
        loop = asyncio.get_running_loop()
        until = None if timeout_s is None else loop.time() + timeout_s
        while True:
            self._news.clear()
            runs: list[Any] = await self._call(self.sync._ready)
            if runs:
                return runs
            left = None if until is None else until - loop.time()
            if left is not None and left <= 0:
                return []
            await self._wait(left, loop)

    async def _wait(self, left: float | None, loop: asyncio.AbstractEventLoop) -> None:
        """Wait for a new record, a wakeup or the deadline. Occupies no thread."""
        if self._wakeups is None:
            self._wakeups, self._notifier = LoopWakeups.join(loop, self._news)
            self.sync._listen(self._notifier)
        listener = self.sync._begin_wait()
        if listener is None:
            return
        poll_s = self.sync._poll_s
        if poll_s is not None:
            left = poll_s if left is None else min(left, poll_s)
        if listener.must_look:
            left = listener.LOOK_S if left is None else min(left, listener.LOOK_S)
        try:
            async with asyncio.timeout(left):
                await self._news.wait()
        except TimeoutError:
            pass

    def wakeup(self) -> None:
        """Wake the consumer as `Consumer.wakeup` does; at once, and inside the loop's own thread."""
        self.sync.wakeup()
        self._news.set()

    @document_as(_consumer.Consumer.close)
    async def close(self) -> None:
        self._news.set()
        await self._call(self.sync.close)
        self._end_waits()

    def _end_waits(self) -> None:
        self._news.set()
        if self._wakeups is not None and self._notifier is not None:
            self._wakeups.leave(self._notifier)

    async def __aexit__(self, kind: type[BaseException] | None, *_exc_info: object) -> None:
        if kind is None:
            await self.close()
        else:
            await self._call(self.sync._abandon)
            self._end_waits()
