"""Polls, sends and cancellations without end leave nothing behind: memory, threads and tasks stay as they were.

LOGSTORE_AIO_ROUNDS says how long: the ordinary suite goes round a few times, ``make soak`` for long.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
import threading
from pathlib import Path

from logstore import aio

ROUNDS = int(os.environ.get("LOGSTORE_AIO_ROUNDS", "3"))
SEED = int(os.environ.get("LOGSTORE_SEED", str(random.randrange(1 << 32))))

#: What a process may still grow by once it is warm: the allocator keeps pages of its own.
SLACK_BYTES = 6 << 20


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def cancelled(task: asyncio.Task, steps: int) -> list:
    """Let a task run for a few turns of the loop, then cancel it; what it still gave."""
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    try:
        return await task
    except asyncio.CancelledError:
        return []


async def one_round(store: aio.Store, rng: random.Random) -> None:
    """Empty polls, polls with news, cancelled ones; producers and consumers that come and go; a loop left early."""
    async with store.producer(linger_ms=1) as producer:
        async with store.consumer(auto_offset_reset="latest") as consumer:
            await consumer.assign_topics(["flights"])
            assert await consumer.poll(max_records=1) == []
            found, sent = [], 0
            for turn in range(200):
                if turn % 4 == 0:
                    await (await producer.send("flights", b"x" * 200))
                    sent += 1
                poll = asyncio.create_task(consumer.poll(timeout_s=60, max_records=2))
                found += await cancelled(poll, rng.randrange(6))
            while len(found) < sent:
                found += await consumer.poll(timeout_s=60)
            assert len(found) == sent
            await consumer.seek_to_beginning()
            async for _record in consumer:
                break
        waiting = [asyncio.ensure_future(store.topic("flights")) for _ in range(20)]
        for task in waiting:
            await cancelled(task, rng.randrange(3))


def test_memory_threads_and_tasks_stay_as_they_were(tmp_path):
    """Compared once the first rounds have warmed everything up."""
    print(f"LOGSTORE_SEED={SEED}")
    rng = random.Random(SEED)
    sizes: list[int] = []

    async def main() -> None:
        settings = {"segment.bytes": 1 << 20, "retention.bytes": 2 << 20}
        # The environment is this test's, not the store's.
        async with aio.open(tmp_path / "data", environ={}) as store:
            await store.create_topic("flights", partitions=1, settings=settings)
            for _ in range(ROUNDS + 1):
                await one_round(store, rng)
                gc.collect()
                sizes.append(resident_bytes())
                assert len(asyncio.all_tasks()) == 1
                # The pool, and what the store and the ticker have of their own.
                assert len([t for t in threading.enumerate() if t.name.startswith("logstore-aio")]) <= 8

    asyncio.run(main())
    warm = sizes[len(sizes) // 2 :]
    print(f"{ROUNDS + 1} rounds, resident {warm[0] / 1e6:.1f} to {warm[-1] / 1e6:.1f} MB")
    assert warm[-1] - warm[0] < SLACK_BYTES, sizes
    # The threads end by themselves once the store is closed.
    for thread in threading.enumerate():
        if thread.name.startswith("logstore-aio"):
            thread.join(300)
            assert not thread.is_alive()
