from __future__ import annotations

import copy
import os
import struct
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.batch._crc32c import crc32c
from logstore.log import Log, ProducerStamp
from logstore.log._producers import Producers, ProducerState, WrittenBatch
from logstore.log.formats import producer_snapshot
from logstore.log.formats.producer_snapshot import PRODUCERS, SavedProducers
from logstore.records import Marker, Origin
from tests.log.fakes import MemoryDirectory, cuts, flips
from tests.log.produced import attempts, batch_of, checked, marker_of, run


def applied(steps):
    """The batches of a history that were written."""
    batches = []
    for model, batch, origin in run(steps):
        if model.check(batch, origin) is None:
            batches.append(batch)
    return batches


def producers_after(batches) -> Producers:
    producers = Producers()
    for batch in batches:
        producers.apply(batch)
    return producers


def everything(producers: Producers):
    return {state.producer_id: state for state in producers}, producers.open_transactions, producers.completed


def some_producers() -> Producers:
    return producers_after(
        [
            *(batch_of(n, sequence=n) for n in range(7)),
            batch_of(7, producer_id=2**62 + 1, epoch=4, count=3, transactional=True),
            batch_of(10, producer_id=5, transactional=True),
            marker_of(11, producer_id=5, marker=Marker.ABORT, coordinator_epoch=9),
        ]
    )


@pytest.mark.row("P13", part="one process")
@pytest.mark.row("T5", part="one process")
@given(attempts(), st.data())
def test_a_restart_at_any_point_changes_nothing(steps, data):
    batches = applied(steps)
    at = data.draw(st.integers(0, len(batches)))
    offset = batches[at - 1].last_offset + 1 if at else 0
    directory = MemoryDirectory()
    before = producers_after(batches[:at])
    producer_snapshot.save(directory, before, offset, 3, durable=True)

    saved = producer_snapshot.load_newest(directory, end_offset=10**6, generation=3)
    assert saved.offset == offset
    restarted = Producers(copy.deepcopy(saved.states), saved.completed)
    assert everything(restarted) == everything(before)
    for batch in batches[at:]:
        restarted.apply(batch)
    assert everything(restarted) == everything(producers_after(batches))


@pytest.mark.row("P13", part="one process")
@given(attempts(), st.data())
def test_kafkas_snapshot_and_a_replay_never_take_a_fresh_batch_for_a_duplicate(steps, data):
    batches = applied(steps)
    at = data.draw(st.integers(0, len(batches)))
    offset = batches[at - 1].last_offset + 1 if at else 0
    states = producer_snapshot.decode_snapshot(
        producer_snapshot.encode_snapshot(producers_after(batches[:at])), offset
    )
    restarted, whole = Producers(states), producers_after(batches)
    for batch in batches[at:]:
        restarted.apply(batch)
    assert restarted.open_transactions == whole.open_transactions
    for state in whole:
        reloaded = restarted.get(state.producer_id)
        assert reloaded.next_sequence == state.next_sequence
        assert reloaded.chain_count <= state.chain_count
        assert (reloaded.epoch, reloaded.coordinator_epoch) == (state.epoch, state.coordinator_epoch)
        for written in state.batches[-1:]:
            again = batch_of(
                999,
                state.producer_id,
                state.epoch,
                written.base_sequence,
                written.last_offset - written.base_offset + 1,
            )
            # A coordinator or leader may write a sequence twice; ours names the first, Kafka's the last.
            answers = [checked(producers, again, Origin.CLIENT) for producers in (restarted, whole)]
            assert type(answers[0]) is type(answers[1])


def test_the_snapshot_is_kafkas():
    state = ProducerState(7, 2, 5, 1_234, 1_234, 40, (WrittenBatch(10, 12, 50, 52, 1_234),), 3)
    body = struct.pack(">i", 1) + struct.pack(">qhiqiqiq", 7, 2, 12, 52, 2, 1_234, 5, 40)
    data = struct.pack(">hI", 1, crc32c(body)) + body
    assert len(data) == 10 + 46
    assert producer_snapshot.encode_snapshot([state]) == data
    assert producer_snapshot.decode_snapshot(data, 53) == [state]


def test_a_producer_without_batches_is_minus_one_in_kafkas_snapshot():
    producers = producers_after([marker_of(0, coordinator_epoch=4)])
    data = producer_snapshot.encode_snapshot(producers)
    assert struct.unpack_from(">qhiqiqiq", data, 10) == (1, 0, -1, -1, 0, 1_000, 4, -1)
    assert producer_snapshot.decode_snapshot(data, 1) == list(producers)


def test_a_batch_whose_sequences_wrap_comes_back_from_kafkas_snapshot():
    producers = producers_after([batch_of(0, sequence=2**31 - 2, count=4)])
    assert producer_snapshot.decode_snapshot(producer_snapshot.encode_snapshot(producers), 4) == list(producers)


def test_snapshot_names():
    assert producer_snapshot.snapshot_offset(producer_snapshot.snapshot_name(2**40)) == 2**40
    for name in (
        "42.snapshot",
        "0" * 20 + ".log",
        "0" * 20 + ".snapshot.deleted",
        "\u0660" * 20 + ".snapshot",
    ):
        assert producer_snapshot.snapshot_offset(name) is None


# --- damage


def test_kafkas_snapshot_cut_or_flipped_anywhere_is_not_believed():
    data = producer_snapshot.encode_snapshot(some_producers())
    assert producer_snapshot.decode_snapshot(data, 12) is not None
    assert all(producer_snapshot.decode_snapshot(cut, 12) is None for cut in cuts(data))
    assert all(producer_snapshot.decode_snapshot(damaged, 12) is None for damaged in flips(data))
    assert producer_snapshot.decode_snapshot(data + b"\0", 12) is None


def test_our_snapshot_cut_or_flipped_anywhere_is_not_believed():
    data = producer_snapshot.encode_producers(SavedProducers.of(some_producers(), 12), 3)
    assert producer_snapshot.decode_producers(data, 3) == SavedProducers.of(some_producers(), 12)
    assert all(producer_snapshot.decode_producers(cut, 3) is None for cut in cuts(data))
    assert all(producer_snapshot.decode_producers(damaged, 3) is None for damaged in flips(data))
    assert producer_snapshot.decode_producers(data + b"\0", 3) is None


def test_our_snapshot_of_another_generation_is_not_believed():
    data = producer_snapshot.encode_producers(SavedProducers.of(some_producers(), 12), 3)
    assert producer_snapshot.decode_producers(data, 4) is None


def test_a_snapshot_that_speaks_of_later_offsets_is_not_believed():
    assert producer_snapshot.decode_snapshot(producer_snapshot.encode_snapshot(some_producers()), 10) is None
    assert (
        producer_snapshot.decode_producers(
            producer_snapshot.encode_producers(SavedProducers.of(some_producers(), 10), 3), 3
        )
        is None
    )


@pytest.mark.parametrize("spans", [[(9, 8)], [(-1, 3)], [(0, 2**31)], [(0, 4), (4, 5)], [(5, 6), (0, 1)]])
def test_batches_that_cannot_follow_one_another_are_not_believed(spans):
    """Found by fuzzing: such a state was taken, and could then not be written as Kafka's snapshot."""
    batches = tuple(WrittenBatch(0, 0, first, last, 0) for first, last in spans)
    data = producer_snapshot.encode_producers(SavedProducers(2**40, [ProducerState(7, batches=batches)], []), 3)
    assert producer_snapshot.decode_producers(data, 3) is None


@given(st.binary(max_size=200))
def test_any_bytes_with_a_good_crc_are_a_snapshot_or_none(body):
    producer_snapshot.decode_snapshot(struct.pack(">hI", 1, crc32c(body)) + body, 100)
    producer_snapshot.decode_producers(body + struct.pack(">I", crc32c(body)), 0)


@given(
    st.lists(st.binary(min_size=43, max_size=43), max_size=2),
    st.lists(st.binary(min_size=32, max_size=32), max_size=3),
    st.lists(st.binary(min_size=25, max_size=25), max_size=2),
)
def test_any_tables_with_a_good_crc_are_a_state_that_can_be_used_or_none(states, batches, completed):
    body = struct.pack(">4sHHQqII", b"lpro", 1, 0, 0, 2**62, len(states), len(completed))
    body += b"".join([*states, *batches, *completed])
    saved = producer_snapshot.decode_producers(body + struct.pack(">I", crc32c(body)), 0)
    if saved is not None:
        Producers(saved.states, saved.completed).first_unstable_offset(0)


# --- which file counts


def saved_at(directory, batches, offset, generation=3):
    producer_snapshot.save(directory, producers_after(batches), offset, generation, durable=False)


@pytest.mark.row("P13", part="one process")
def test_after_a_roll_all_five_batches_are_known():
    batches = [batch_of(n, sequence=n) for n in range(5)]
    directory = MemoryDirectory()
    saved_at(directory, batches, 5)
    saved = producer_snapshot.load_newest(directory, 5, 3)
    restarted = Producers(saved.states, saved.completed)
    assert all(restarted.check(batch, Origin.CLIENT).duplicate for batch in batches)


def test_ours_is_written_before_kafkas():
    directory = MemoryDirectory()
    saved_at(directory, [batch_of(0)], 1)
    assert [name for _, name, _ in directory.calls] == [PRODUCERS, producer_snapshot.snapshot_name(1)]


def test_the_newest_whole_snapshot_at_or_before_the_end_is_taken():
    directory = MemoryDirectory()
    for offset in (1, 2, 3, 9):
        saved_at(directory, [batch_of(n, sequence=n) for n in range(offset)], offset)
    del directory.files[PRODUCERS]
    assert producer_snapshot.load_newest(directory, 5, 3).offset == 3
    directory.files[producer_snapshot.snapshot_name(3)] = b"damaged"
    assert producer_snapshot.load_newest(directory, 5, 3).offset == 2
    assert producer_snapshot.load_newest(directory, 0, 3) is None


def test_ours_of_an_older_generation_or_behind_the_end_gives_way_to_kafkas():
    directory = MemoryDirectory()
    saved_at(directory, [batch_of(0)], 1)
    saved_at(directory, [batch_of(n, sequence=n) for n in range(9)], 9)
    assert producer_snapshot.load_newest(directory, 9, 3).states[0].chain_count == 9
    assert producer_snapshot.load_newest(directory, 5, 3).offset == 1
    assert producer_snapshot.load_newest(directory, 9, 4).states[0].chain_count == 1


def test_snapshots_behind_the_end_are_removed_before_the_log_grows_over_them():
    directory = MemoryDirectory()
    for offset in (2, 5, 9):
        saved_at(directory, [batch_of(n, sequence=n) for n in range(offset)], offset)
    producer_snapshot.remove_beyond(directory, 5, 3)
    assert producer_snapshot.load_newest(directory, 5, 3).offset == 5
    # The log has grown again, with other batches: nothing of before speaks for them.
    assert producer_snapshot.load_newest(directory, 100, 3).offset == 5


def test_kafkas_newer_snapshot_wins_over_ours():
    directory = MemoryDirectory()
    saved_at(directory, [batch_of(0)], 1)
    directory.files[producer_snapshot.snapshot_name(2)] = producer_snapshot.encode_snapshot(
        producers_after([batch_of(0), batch_of(1, sequence=1)])
    )
    assert producer_snapshot.load_newest(directory, 5, 3).offset == 2


def test_a_hundred_thousand_producers_are_saved_and_loaded_in_seconds():
    batches = tuple(WrittenBatch(n, n, n, n, 0) for n in range(5))
    states = [ProducerState(2**62 + n, batches=batches) for n in range(100_000)]
    began = time.process_time()
    saved = SavedProducers(5, states, [])
    assert producer_snapshot.decode_producers(producer_snapshot.encode_producers(saved, 0), 0) == saved
    assert len(producer_snapshot.decode_snapshot(producer_snapshot.encode_snapshot(states), 5)) == 100_000
    assert time.process_time() - began < 20


def test_closing_again_and_again_leaves_few_snapshots(tmp_path):
    """A store that is opened for each batch of a query would fill its directories with them."""
    for number in range(12):
        with Log.open(tmp_path / "t-0") as log:
            log.append([b"x"], producer=ProducerStamp(1, 0, number))
    assert len([name for name in os.listdir(tmp_path / "t-0") if name.endswith(".snapshot")]) <= 3
    with Log.open(tmp_path / "t-0") as log:
        assert log.append([b"x"], producer=ProducerStamp(1, 0, 11)).duplicate
