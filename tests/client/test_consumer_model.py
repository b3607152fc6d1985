"""Any sequence of calls to a consumer, held against a model that is a dictionary of positions."""

from __future__ import annotations

import random

import pytest

import logstore
from logstore.client.partition_position import PartitionPosition
from logstore.records import TopicPartition
from logstore.testing import ManualClock


def positions(consumer):
    return {partition: consumer.position(partition) for partition in consumer.assignment}


PLACES = [TopicPartition("flights", n) for n in range(2)]

#: How often each call is made.
WEIGHTS = {
    "append": 3,
    "poll": 4,
    "loop": 3,
    "seek": 3,
    "delete": 1,
    "pause": 1,
    "resume": 2,
    "commit": 1,
    "assign": 1,
    "restart": 1,
}


def some_calls(seed: int, count: int = 60):
    """Calls with their arguments, the same for the same seed."""
    rng = random.Random(seed)
    for name in rng.choices(list(WEIGHTS), WEIGHTS.values(), k=count):
        place = rng.choice(PLACES)
        yield {
            "append": lambda place=place: ("append", place, rng.randrange(10, 40)),
            "poll": lambda: ("poll", rng.randrange(1, 12)),
            "loop": lambda: ("loop", rng.randrange(1, 12)),
            "seek": lambda place=place: ("seek", place, rng.randrange(100)),
            "delete": lambda place=place: ("delete", place, rng.randrange(100)),
            "pause": lambda place=place: ("pause", place),
            "resume": lambda place=place: ("resume", place),
            "commit": lambda: ("commit",),
            "assign": lambda: ("assign", rng.sample(PLACES, rng.randrange(1, len(PLACES) + 1))),
            "restart": lambda: ("restart",),
        }[name]()


class Model:
    """A store with one consumer, and what the consumer has to be at."""

    def __init__(self, store) -> None:
        self.store = store
        self.topic = store.create_topic("flights", len(PLACES))
        self.start = dict.fromkeys(PLACES, 0)
        self.end = dict.fromkeys(PLACES, 0)
        self.committed: dict[TopicPartition, int] = {}
        self.begin(PLACES)

    def begin(self, assigned) -> None:
        self.consumer = self.store.consumer(
            group="crew", auto_offset_reset="earliest", enable_auto_commit=False, max_partition_fetch_bytes=200
        )
        self.at: dict[TopicPartition, int] = {}
        self.paused: set[TopicPartition] = set()
        self.assign(assigned)

    def assign(self, assigned) -> None:
        self.consumer.assign(assigned)
        self.at = {place: self.at.get(place, self.committed.get(place, -1)) for place in assigned}
        self.paused &= set(assigned)
        for place in assigned:
            if self.at[place] < 0:
                self.at[place] = self.consumer.position(place)
                assert self.at[place] == self.start[place]

    def append(self, place, count) -> None:
        first = self.end[place]
        self.topic.append_many([b"%d" % (first + n) for n in range(count)], partition=place.partition)
        self.end[place] += count

    def delete(self, place, offset) -> None:
        offset = min(max(offset, self.start[place]), self.end[place])
        self.topic.delete_records({place.partition: offset})
        self.start[place] = offset

    def take(self, record) -> None:
        place = TopicPartition(record.topic, record.partition)
        assert place in self.at
        assert place not in self.paused
        assert record.value == b"%d" % record.offset
        if record.offset != self.at[place]:
            # Out of range: below what is kept, or behind the end. Both begin at the start again.
            in_range = self.start[place] <= self.at[place] <= self.end[place]
            assert not in_range, f"{place}: offset {record.offset} was given, expected {self.at[place]}"
            assert record.offset == self.start[place]
        self.at[place] = record.offset + 1

    def settle(self) -> None:
        """A partition out of range is at the start after its turn, and where it was before it."""
        for place in set(self.at) - self.paused:
            if not self.start[place] <= self.at[place] <= self.end[place]:
                found = self.consumer.position(place)
                assert found in (self.at[place], self.start[place])
                self.at[place] = found

    def poll(self, limit) -> None:
        records = self.consumer.poll(max_records=limit)
        assert len(records) <= limit
        for record in records:
            self.take(record)
        self.settle()
        if len(records) < limit:
            assert all(self.at[place] == self.end[place] for place in set(self.at) - self.paused)

    def loop(self, limit) -> None:
        count = 0
        for count, record in enumerate(self.consumer.records(timeout_s=0), 1):
            self.take(record)
            if count == limit:
                break
        self.settle()
        if count < limit:
            assert all(self.at[place] == self.end[place] for place in set(self.at) - self.paused)

    def seek(self, place, offset) -> None:
        if place in self.at:
            self.consumer.seek(place, offset)
            self.at[place] = offset

    def pause(self, place) -> None:
        if place in self.at:
            self.consumer.pause(place)
            self.paused.add(place)

    def resume(self, place) -> None:
        if place in self.at:
            self.consumer.resume(place)
            self.paused.discard(place)

    def commit(self) -> None:
        if any(at > self.end[place] for place, at in self.at.items()):
            # Taken for records that are gone: the group goes back to the end. See crash/test_resuming.py.
            return
        expected = positions(self.consumer)
        found = self.consumer.commit()
        assert {place: commit.offset for place, commit in found.items()} == expected
        self.committed |= {place: commit.offset for place, commit in found.items()}
        assert {p: c.offset for p, c in self.store.committed("crew").items()} == self.committed

    def restart(self) -> None:
        assigned = list(self.at)
        self.consumer.close()
        self.begin(assigned)


def run(path, sequence) -> None:
    with logstore.open(path, clock=ManualClock(), segment_bytes=700) as store:
        model = Model(store)
        for name, *arguments in sequence:
            getattr(model, name)(*arguments)
            assert model.consumer.paused == model.paused
        for place in list(model.at):
            model.resume(place)
        while model.consumer.poll(max_records=1000):
            pass
        assert positions(model.consumer) == {place: model.end[place] for place in model.at}


def test_planted_a_seek_that_forgets_what_was_read_ahead_is_found(tmp_path, monkeypatch):
    """By hand what the sequences below have to find: a consumer goes on in the records that it holds already."""
    sequence = [("append", PLACES[0], 30), ("poll", 5), ("seek", PLACES[0], 20), ("poll", 5)]
    run(tmp_path / "whole", sequence)
    monkeypatch.setattr(PartitionPosition, "go_to", lambda self, offset, epoch=-1: setattr(self, "offset", offset))
    with pytest.raises(AssertionError, match="offset 5 was given, expected 20"):
        run(tmp_path / "planted", sequence)


@pytest.mark.parametrize("seed", range(30))
def test_a_consumer_is_where_its_model_is(tmp_path, seed):
    run(tmp_path, some_calls(seed))


def test_planted_the_same_bug_is_found_by_such_calls_too(tmp_path, monkeypatch):
    monkeypatch.setattr(PartitionPosition, "go_to", lambda self, offset, epoch=-1: setattr(self, "offset", offset))

    def run_all():
        for seed in range(30):
            run(tmp_path / str(seed), some_calls(seed))

    with pytest.raises(AssertionError, match=r"offset \d+ was given, expected"):
        run_all()
