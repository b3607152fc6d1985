"""Any sequence of calls to a consumer, held against a model that is a dictionary of positions."""

from __future__ import annotations

import contextlib

from hypothesis import given, settings
from hypothesis import strategies as st

import logstore
from logstore.records import TopicPartition
from logstore.testing import ManualClock

PLACES = [TopicPartition("flights", n) for n in range(3)]

places = st.sampled_from(PLACES)
calls = st.one_of(
    st.tuples(st.just("append"), places, st.integers(1, 40)),
    st.tuples(st.just("delete"), places, st.integers(0, 60)),
    st.tuples(st.just("poll"), st.integers(1, 30)),
    st.tuples(st.just("loop"), st.integers(1, 30)),
    st.tuples(st.just("seek"), places, st.integers(0, 100)),
    st.tuples(st.just("pause"), places),
    st.tuples(st.just("resume"), places),
    st.tuples(st.just("commit")),
    st.tuples(st.just("assign"), st.sets(places, min_size=1)),
    st.tuples(st.just("restart")),
)


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
            "crew", auto_offset_reset="earliest", enable_auto_commit=False, max_partition_fetch_bytes=200
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
            assert not self.start[place] <= self.at[place] <= self.end[place]
            assert record.offset == self.start[place]
        self.at[place] = record.offset + 1

    def settle(self) -> None:
        """Nothing more to read: who is out of range and finds nothing has been put at the start."""
        for place in set(self.at) - self.paused:
            if not self.start[place] <= self.at[place] <= self.end[place]:
                self.at[place] = self.start[place]

    def poll(self, limit) -> None:
        records = self.consumer.poll(max_records=limit)
        assert len(records) <= limit
        for record in records:
            self.take(record)
        if len(records) < limit:
            self.settle()
            assert all(self.at[place] == self.end[place] for place in set(self.at) - self.paused)

    def loop(self, limit) -> None:
        for count, record in enumerate(self.consumer.records(timeout_s=0), 1):
            self.take(record)
            if count == limit:
                break
        else:
            self.settle()
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
        expected = self.consumer.positions()
        found = self.consumer.commit()
        assert {place: commit.offset for place, commit in found.items()} == expected
        self.committed |= {place: commit.offset for place, commit in found.items()}
        assert {p: c.offset for p, c in self.store.committed("crew").items()} == self.committed

    def restart(self) -> None:
        assigned = list(self.at)
        self.consumer.close()
        self.begin(assigned)


@settings(max_examples=80)
@given(st.lists(calls, max_size=40))
def test_a_consumer_is_where_its_model_is(tmp_path_factory, sequence):
    with contextlib.ExitStack() as stack:
        path = tmp_path_factory.mktemp("model")
        model = Model(stack.enter_context(logstore.open(path, clock=ManualClock(), segment_bytes=700)))
        for name, *arguments in sequence:
            getattr(model, name)(*arguments)
            assert model.consumer.paused == model.paused
        for place in list(model.at):
            model.resume(place)
        while model.consumer.poll(max_records=1000):
            pass
        assert model.consumer.positions() == {place: model.end[place] for place in model.at}
