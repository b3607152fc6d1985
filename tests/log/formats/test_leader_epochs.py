from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.log.formats.leader_epochs import LEADER_EPOCHS, UNDEFINED, EpochEntry, Epochs
from tests.log.fakes import MemoryDirectory, cuts, flips
from tests.log.logs import crashed_copy, one_batch, open_log


def epochs_of(*entries: tuple[int, int]) -> Epochs:
    return Epochs([EpochEntry(*entry) for entry in entries])


@st.composite
def tables(draw):
    epochs = sorted(draw(st.sets(st.integers(0, 12), max_size=6)))
    starts = sorted(draw(st.sets(st.integers(0, 40), min_size=len(epochs), max_size=len(epochs))))
    return list(zip(epochs, starts, strict=True))


class Model:
    """Kafka's table as a plain dict, each rule by looking at every entry."""

    def __init__(self, entries):
        self.starts = dict(entries)

    def latest(self):
        return max(self.starts.items(), default=None)

    def assign(self, epoch, start):
        latest = self.latest()
        if latest is not None and latest[0] == epoch and start >= latest[1]:
            return False
        self.starts = {e: s for e, s in self.starts.items() if e < epoch and s < start}
        self.starts[epoch] = start
        return True

    def truncate_from_end(self, offset):
        self.starts = {e: s for e, s in self.starts.items() if s < offset}

    def truncate_from_start(self, offset):
        old = [e for e, s in self.starts.items() if s <= offset]
        for epoch in old:
            del self.starts[epoch]
        if old:
            self.starts[max(old)] = offset

    def end_offset_for(self, epoch, log_end):
        latest = self.latest()
        if epoch == -1 or latest is None or epoch > latest[0]:
            return (-1, -1)
        if epoch == latest[0]:
            return (epoch, log_end)
        end = min(s for e, s in self.starts.items() if e > epoch)
        return (max((e for e in self.starts if e <= epoch), default=epoch), end)

    def epoch_at(self, offset):
        return max((e for e, s in self.starts.items() if s <= offset), default=None)


CHANGES = st.one_of(
    st.tuples(st.just("assign"), st.integers(0, 12), st.integers(0, 40)),
    st.tuples(st.sampled_from(["truncate_from_end", "truncate_from_start"]), st.integers(0, 45)),
)


@given(tables(), st.lists(CHANGES, max_size=12))
def test_epochs_agree_with_the_model_after_any_changes(table, changes):
    epochs, model = epochs_of(*table), Model(table)
    for name, *arguments in changes:
        before = epochs.entries
        changed = getattr(epochs, name)(*arguments)
        getattr(model, name)(*arguments)
        assert [tuple(entry) for entry in epochs.entries] == sorted(model.starts.items())
        assert changed == (epochs.entries != before)
    assert epochs.latest == model.latest()
    for epoch in range(-1, 14):
        assert epochs.end_offset_for(epoch, 50) == model.end_offset_for(epoch, 50)
    for offset in range(46):
        assert epochs.epoch_at(offset) == model.epoch_at(offset)


@given(tables())
def test_epochs_come_back_as_written(table):
    directory = MemoryDirectory()
    epochs = epochs_of(*table)
    epochs.save(directory, durable=True)
    assert Epochs.load(directory) == epochs
    assert directory.calls == [("replace", LEADER_EPOCHS, "durable")]


def test_the_file_is_kafkas():
    assert epochs_of((0, 0), (3, 1042)).encode() == b"0\n2\n0 0\n3 1042\n"


def test_an_absent_file_is_unknown():
    assert Epochs.load(MemoryDirectory()) is None


def test_a_file_cut_anywhere_is_rebuilt():
    assert all(Epochs.decode(cut) is None for cut in cuts(epochs_of((0, 0), (3, 1042), (14, 2100)).encode()))


def test_a_flipped_bit_gives_none_or_another_rising_table():
    data = epochs_of((0, 0), (3, 1042), (14, 2100)).encode()
    for damaged in flips(data):
        epochs = Epochs.decode(damaged)
        assert epochs is None or (epochs.encode() == damaged and damaged != data)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_table_or_none(data):
    Epochs.decode(data)


@pytest.mark.parametrize(
    "text",
    [
        b"0\n2\n1 0\n1 5\n",
        b"0\n2\n1 5\n2 5\n",
        b"0\n2\n2 0\n1 5\n",
        b"0\n1\n-1 0\n",
        b"0\n1\n2147483648 0\n",
        b"0\n1\n0 9223372036854775808\n",
        b"0\n2\n0 0\n",
        b"1\n0\n",
    ],
)
def test_a_file_that_contradicts_itself_is_rebuilt(text):
    assert Epochs.decode(text) is None


# --- bugs that Kafka had


def test_kafka_10706_a_truncated_log_takes_its_epochs_with_it():
    epochs = epochs_of((1, 0), (2, 10), (3, 20))
    assert epochs.truncate_from_end(15)
    assert epochs.latest == (2, 10)
    assert epochs.end_offset_for(3, log_end_offset=15) == UNDEFINED
    epochs.assign(4, 15)
    assert epochs.end_offset_for(3, log_end_offset=30) == (2, 15)


def test_kafka_10706_an_epoch_that_begins_at_the_new_end_goes_too():
    epochs = epochs_of((1, 0), (2, 10))
    epochs.truncate_from_end(10)
    assert epochs.entries == ((1, 0),)


def test_kafka_10432_epoch_0_is_an_epoch():
    epochs = Epochs()
    assert epochs.assign(0, 0)
    assert epochs.latest == (0, 0)
    assert epochs.epoch_at(0) == 0
    assert epochs.end_offset_for(0, log_end_offset=7) == (0, 7)
    assert Epochs.decode(epochs.encode()) == epochs


def test_kafka_7897_a_sparse_table_answers_unknown_and_never_a_far_too_low_offset():
    assert Epochs().end_offset_for(5, log_end_offset=1_000_000) == UNDEFINED
    sparse = epochs_of((2, 10))
    assert sparse.end_offset_for(5, log_end_offset=1_000_000) == UNDEFINED
    assert sparse.end_offset_for(2, log_end_offset=1_000_000) == (2, 1_000_000)


def test_kafka_7897_a_batch_without_an_epoch_leaves_the_table_alone():
    epochs = epochs_of((2, 10))
    assert not epochs.assign(-1, 20)
    assert epochs.entries == ((2, 10),)


def test_an_epoch_without_records_is_replaced_by_the_next_at_the_same_offset():
    epochs = epochs_of((1, 0), (2, 10))
    assert epochs.assign(3, 10)
    assert epochs.entries == ((1, 0), (3, 10))
    assert epochs.end_offset_for(2, log_end_offset=20) == (1, 10)


def test_an_epoch_that_goes_back_removes_what_contradicts_it():
    epochs = epochs_of((1, 0), (4, 10), (5, 20))
    assert epochs.assign(3, 30)
    assert epochs.entries == ((1, 0), (3, 30))


def test_a_start_that_goes_back_removes_what_contradicts_it():
    epochs = epochs_of((1, 0), (4, 10), (5, 20))
    assert epochs.assign(6, 5)
    assert epochs.entries == ((1, 0), (6, 5))


def test_an_epoch_older_than_the_log_ends_where_the_log_starts():
    epochs = epochs_of((1, 0), (2, 10), (5, 20))
    epochs.truncate_from_start(12)
    assert epochs.entries == ((2, 12), (5, 20))
    assert epochs.end_offset_for(1, log_end_offset=30) == (1, 12)


# --- in a log ----------------------------------------------------------------------------------


def test_an_epoch_whose_records_were_lost_is_not_given_to_others(tmp_path):
    log = open_log(tmp_path / "0")
    log.append([b"old"], ack="synced")
    second = open_log(crashed_copy(log, tmp_path / "1"))
    second.append([b"read by a consumer, then lost"])
    assert second.replica.leader_epoch == 1
    crashed_copy(second, tmp_path / "2")
    for each in (log, second):
        each.close()
    # A power cut: the batch of epoch 1 was never synced, the epoch file reached the disk.
    (path,) = (tmp_path / "2" / "t-0").glob("*.log")
    path.write_bytes(path.read_bytes()[: len(one_batch([b"old"]))])
    with open_log(tmp_path / "2") as log:
        assert (log.log_end_offset, log.replica.leader_epoch) == (1, 2)
        log.append([b"another"])
        assert [batch.leader_epoch for batch in log.read(0).batches()] == [0, 2]
        assert log.replica.epochs.entries == ((0, 0), (2, 1))


def test_an_epoch_in_which_nothing_was_written_outlives_a_clean_close(tmp_path):
    log = open_log(tmp_path / "0")
    log.append([b"old"])
    root = crashed_copy(log, tmp_path / "1")
    log.close()
    open_log(root).close()
    for _ in range(2):
        with open_log(root) as log:
            assert (log.maintenance.was_clean, log.replica.leader_epoch) == (True, 1)
    with open_log(root) as log:
        log.append([b"new"])
        assert [batch.leader_epoch for batch in log.read(0).batches()] == [0, 1]
