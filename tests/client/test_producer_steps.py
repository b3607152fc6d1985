"""A compiled `send` that opens the next batch does what `Producer._send_slowly` does: same logs, same errors.

Two stores get the same sends, on clocks of their own that agree. One producer sends; the other takes every record
that does not fit an open batch the slow way, which is the rule. What is compared is every byte of the logs, every
future and every error.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import logstore
from logstore import Store
from logstore.client.producer import Producer
from logstore.errors import LogstoreError
from logstore.testing import ManualClock
from logstore.testing._faults import FaultyFiles
from logstore.testing.clock import START_MS

Send = tuple[str, Any, Any, int | None, int | None, Any]


class Slow(Producer):
    """Counts the records that take the slow way."""

    count = 0

    def _send_slowly(self, *args: Any) -> Any:
        self.count += 1
        return super()._send_slowly(*args)


class Side:
    """A store, a producer, and what became of its sends."""

    def __init__(self, path: Path, *, slowly: bool, **settings: Any) -> None:
        self.clock, self.files = ManualClock(), FaultyFiles()
        self.store: Store = logstore.open(path, clock=self.clock, files=self.files, rng=random.Random(5))
        self.path, self.slowly = path, slowly
        self.store.create_topic("one", partitions=1)
        self.store.create_topic("four", partitions=4, max_message_bytes=100_000)
        self.producer = Slow(self.store._backend, **settings)
        self.sent: list[Any] = []

    def send(
        self, topic: str, value: Any, key: Any, partition: int | None, timestamp: int | None, headers: Any
    ) -> None:
        try:
            others: dict[str, Any] = {"partition": partition, "timestamp": timestamp, "headers": headers}
            if not self.slowly:
                future = self.producer.send(topic, value, key, **others)
            else:
                future = self.producer._offer(topic, value, key, **others)
                if future is None:
                    future = self.producer._send_slowly(topic, value, key, partition, timestamp, headers)
        except LogstoreError as error:
            self.sent.append((type(error), str(error).replace(str(self.path), "")))
        else:
            self.sent.append(future)

    def outcomes(self) -> list[Any]:
        """What each send has led to: metadata or an error."""
        found = []
        for sent in self.sent:
            if isinstance(sent, tuple):
                found.append(sent)
                continue
            error = sent.exception(timeout=0)
            found.append(sent.result() if error is None else type(error))
        return found

    def bytes_of_logs(self) -> dict[str, bytes]:
        return {
            str(path.relative_to(self.path)): path.read_bytes()
            for path in sorted(self.path.rglob("*.log"))
            if "-delete" not in str(path)
        }


def a_send(rng: random.Random) -> Send:
    topic = rng.choice(["one", "four", "four", "four", "new"])
    value: Any = rng.choice([b"v", b"value" * 30, bytes(400), bytes(1_500)])
    key: Any = rng.choice([None, None, b"", b"k", b"key%d" % rng.randrange(50)])
    partition = rng.choice([None, None, None, 0, rng.randrange(5), -1])
    timestamp = rng.choice([None, None, None, START_MS + rng.randrange(1_000)])
    headers: Any = None
    unusual = rng.random()
    if unusual < 0.02:
        value = rng.choice(["text", None, bytearray(b"buffer"), 7])
    elif unusual < 0.04:
        key = rng.choice(["text", bytearray(b"buffer")])
    elif unusual < 0.06:
        headers = rng.choice([[], [("h", b"1")], [("h", "text")]])
    elif unusual < 0.07:
        value = bytes(200_000)  # above max.message.bytes of the topic "four", see below
    elif unusual < 0.08:
        timestamp = -5
    return topic, value, key, partition, timestamp, headers


@pytest.mark.parametrize("partitioner", ["default", "sticky", "round_robin"])
@pytest.mark.parametrize(
    "settings",
    [
        {"batch_size": 1_000, "linger_ms": 60_000},
        {"batch_size": 1_000, "linger_ms": 60_000, "buffer_memory": 3_500},
        {"batch_size": 700},
    ],
    ids=["lingers", "little memory", "no linger"],
)
@pytest.mark.parametrize("seed", range(3))
def test_a_compiled_send_writes_what_the_slow_way_writes(tmp_path, partitioner, settings, seed):
    sides = [
        Side(tmp_path / name, slowly=name == "slow", partitioner=partitioner, **settings)
        for name in ("quick", "slow")
    ]
    rng = random.Random(seed)
    for _ in range(1_500):
        change = rng.random()
        count = rng.randrange(5, 9)
        for side in sides:
            if change < 0.035:
                # A record that fits an open batch asks for no change of its topic, and whether the timer writes
                # before the next record is a race.
                side.producer.flush()
            if change < 0.002:
                side.store.alter_topic("four", {"max.message.bytes": 10_000 * count})
            elif change < 0.004 and "new" not in side.store.topics():
                side.store.create_topic("new", partitions=2)
            elif change < 0.006 and "new" in side.store.topics():
                side.store.delete_topic("new")
            elif change < 0.007 and side.store["four"].partition_count < count:
                side.store.add_partitions("four", count)
            elif change < 0.03:
                side.clock.advance(500)
        made = a_send(rng)
        for side in sides:
            side.send(*made)
    before = [side.producer.count for side in sides]
    for side in sides:
        side.producer.close()
        side.store.close()
    assert sides[0].outcomes() == sides[1].outcomes()
    assert sides[0].bytes_of_logs() == sides[1].bytes_of_logs()
    # Of those that need another batch, only the unusual ones take the slow way.
    assert before[0] < before[1] * 2 / 3


@pytest.mark.parametrize("partitioner", ["default", "sticky", "round_robin"])
def test_plain_records_take_the_slow_way_once_for_each_topic(tmp_path, partitioner):
    side = Side(tmp_path / "data", slowly=False, partitioner=partitioner, batch_size=1_000)
    with side.store:
        for number in range(600):
            if number == 100:
                # Each topic was asked about, and again when the first batch was written.
                known = side.producer.count
            if number == 300:
                assert side.producer.count == known
                # The catalogue changes: each topic is asked about once more.
                side.store.create_topic("new", partitions=2)
            side.send(("one", "four")[number % 2], b"%d" % number * 20, None, None, None, None)
        assert side.producer.count == known + 2
        side.producer.close()
    assert [found.topic for found in side.outcomes()] == ["one", "four"] * 300
