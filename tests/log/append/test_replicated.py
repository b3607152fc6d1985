"""Runs of a leader's batches: a follower holds what its leader holds, whatever the runs, segments and faults."""

from __future__ import annotations

import errno
import random
import struct
import tracemalloc

import pytest

from logstore import Log
from logstore.batch._crc32c import crc32c
from logstore.config.log import LogConfig
from logstore.errors import (
    OUT_OF_RESOURCES,
    CorruptRecordError,
    DiskFullError,
    FencedLeaderEpochError,
    InvalidRecordError,
    LogClosedError,
    LogstoreError,
    StorageFailedError,
    UnexpectedOffsetError,
    UnsupportedFormatError,
)
from logstore.log import FixedPolicy, Marker, Moves
from logstore.log.state import State
from logstore.log.transactions import Transactions
from logstore.testing import FaultyFiles, ManualClock, SimDisk
from logstore.testing.simdisk import POLICIES
from tests.crash.histories import CODECS, History, quick_files
from tests.log.logs import NOW_MS, at, one_batch, open_log

PATH = "/data/t-0"


class Led(FixedPolicy):
    def __init__(self) -> None:
        super().__init__(Moves.WITH_END)


def filled(log: Log, rng: random.Random, *, steps: int = 60) -> None:
    """A leader's log: all codecs, producers, transactions of both ends, several epochs, a gap."""
    history, opened = History(log, rng), set()
    for step in range(steps):
        drawn = rng.random()
        if drawn < 0.12:
            log.replica.begin_epoch(log.replica.leader_epoch + rng.randrange(1, 3))
        elif drawn < 0.35 and opened:
            producer_id = opened.pop()
            history.end(producer_id, rng.choice(list(Marker)))
        elif drawn < 0.6:
            producer_id = rng.choice([5, 6, 7])
            history.append(rng.randrange(1, 4), producer_id=producer_id, transactional=True)
            opened.add(producer_id)
        elif drawn < 0.65 and step > steps // 2:
            batch = at(one_batch([b"behind a gap"]), log.log_end_offset + 3, log.replica.leader_epoch)
            log.replica.append_replicated(batch)
        else:
            producer_id = rng.choice([-1, -1, 1, 2])
            history.append(rng.randrange(1, 6), codec=rng.choice(CODECS), producer_id=producer_id)
    # An epoch without a batch is in the leader's table alone.
    log.append([b"last"])


def run_of(log: Log, first: int = 0) -> bytes:
    """Every byte of a log from an offset on."""
    data, end = bytearray(), log.log_end_offset
    while first < end:
        batches = log.read(first, max_bytes=1 << 20)
        assert batches.next_offset > first
        data += batches.data
        first = batches.next_offset
    return bytes(data)


def borders(run: bytes) -> list[int]:
    found = [0]
    while found[-1] < len(run):
        found.append(found[-1] + 12 + struct.unpack_from(">i", run, found[-1] + 8)[0])
    return found


def offsets_of(run: bytes) -> list[int]:
    return [struct.unpack_from(">q", run, cut)[0] for cut in borders(run)[:-1]]


def facts_of(log: Log) -> dict[str, object]:
    """What a follower must have as its leader has it."""
    end, transactions = log.log_end_offset, log._state.transactions
    run = run_of(log)
    return {
        "marks": (log.log_start_offset, end, log.high_watermark, log.last_stable_offset),
        "epochs": [entry.epoch for entry in log.replica.epochs.entries],
        "epochs of batches": [log.replica.epochs.epoch_at(offset) for offset in offsets_of(run)],
        "producers": [
            (each.producer_id, each.epoch, each.coordinator_epoch, each.batches, each.transaction_first_offset)
            for each in sorted(transactions.producers, key=lambda each: each.producer_id)
        ],
        "open transactions": transactions.producers.open_transactions,
        "aborted": [tuple(entry) for entry in transactions.aborted_between(0, end)],
        "bytes": run,
    }


def differing(found: dict[str, object], wanted: dict[str, object]) -> list[str]:
    """Names of the facts that differ: a diff of all bytes would take minutes."""
    return [name for name, fact in wanted.items() if found[name] != fact]


@pytest.mark.row("S5", part="leader and follower")
@pytest.mark.parametrize(
    "settings", [{}, {"segment_bytes": 700}, {"segment_bytes": 61}, {"tail": "memory"}, {"offset_mode": "bytes"}]
)
@pytest.mark.parametrize("seed", range(6))
def test_a_follower_has_what_its_leader_has(tmp_path, settings, seed):
    rng = random.Random(seed)
    clock = ManualClock(NOW_MS)
    leader = open_log(tmp_path / "leader", clock=clock, files=quick_files(), policy=Led())
    follower = open_log(tmp_path / "follower", clock=clock, files=quick_files(), policy=Led(), **settings)
    with leader, follower:
        filled(leader, rng)
        run = run_of(leader)
        cuts = borders(run)
        begin = 0
        while begin < len(cuts) - 1:
            end = min(begin + rng.randrange(1, 20), len(cuts) - 1)
            part = run[cuts[begin] : cuts[end]]
            result = follower.replica.append_replicated(rng.choice([bytes, bytearray, memoryview])(part))
            assert result.last_offset + 1 == follower.log_end_offset
            begin = end
        assert differing(facts_of(follower), facts_of(leader)) == []
        assert follower.replica.leader_epoch == max(leader.replica.epochs.latest.epoch, 0)
        assert follower.metrics().counters["appended_batches"] == len(cuts) - 1
        follower.flush()
        before = facts_of(follower)
    with open_log(tmp_path / "follower", clock=clock, policy=Led(), **settings) as follower:
        assert differing(facts_of(follower), before) == []


def test_a_run_is_one_write_for_each_segment(tmp_path):
    batch = one_batch([bytes(1000)])
    run = b"".join(at(batch, n) for n in range(30))
    files = FaultyFiles()
    with open_log(
        tmp_path, files=files, segment_bytes=10 * len(batch), policy=FixedPolicy(Moves.FROM_OUTSIDE)
    ) as log:
        log.replica.append_replicated(at(batch, 0))
        before = files.counts()["pwrite"]
        assert log.replica.append_replicated(run[len(batch) : 4 * len(batch)])[:2] == (1, 3)
        assert files.counts()["pwrite"] - before == 2  # of the batches, and of the published end
        assert log.replica.append_replicated(run[4 * len(batch) :])[:2] == (4, 29)
        assert [segment.next_offset - segment.base_offset for segment in log.maintenance.segments] == [10, 10, 10]
        assert log.metrics().counters["appends"] == 5


def test_no_limit_of_the_follower_refuses_what_its_leader_holds(tmp_path):
    old = NOW_MS - 10**9
    refused = {
        "segment_bytes": 300,
        "max_message_bytes": 100,
        "cleanup_policy": "compact",
        "message_timestamp_before_max_ms": 1_000,
        "compression_type": "zstd",
        "message_timestamp_type": "LogAppendTime",
        "decompressed_max_bytes": 200,
        "retention_ms": 1_000,
    }
    run = at(one_batch([b"no key" * 100], timestamp_ms=old), 0) + at(one_batch([bytes(5000)], codec=1), 1)
    run += at(one_batch([b"small"]), 2) + at(one_batch([bytes(900)]), 3)
    with open_log(tmp_path, clock=ManualClock(NOW_MS), **refused) as log:
        assert log.replica.append_replicated(run)[:2] == (0, 3)
        assert run_of(log) == run


def test_gaps_of_any_width_are_kept(tmp_path):
    offsets = [0, 5, 2**31 + 4, 2**31 + 5, 2**33, 2**61]
    run = b"".join(at(one_batch([b"%d" % offset]), offset) for offset in offsets)
    with open_log(tmp_path) as log:
        assert log.replica.append_replicated(run)[:2] == (0, 2**61)
        assert [record.offset for record in log.scan()] == offsets
    with open_log(tmp_path) as log:
        assert [record.offset for record in log.scan()] == offsets
        assert log.log_end_offset == 2**61 + 1


# --- what is wrong -----------------------------------------------------------------------------


def sound() -> list[bytes]:
    return [at(one_batch([b"%d" % n] * 2), 10 + 2 * n, 3) for n in range(4)]


def flipped(batch: bytes, position: int) -> bytes:
    return batch[:position] + bytes([batch[position] ^ 1]) + batch[position + 1 :]


def transactional(batch: bytes) -> bytes:
    marked = batch[:21] + struct.pack(">h", 0x10) + batch[23:]
    return marked[:17] + struct.pack(">I", crc32c(marked[21:])) + marked[21:]


BAD = {
    "a flipped record": (lambda b: flipped(b, 70), CorruptRecordError, "CRC-32C"),
    "a flipped header": (lambda b: flipped(b, 40), CorruptRecordError, "CRC-32C"),
    "a length beyond the run": (lambda b: b[:8] + struct.pack(">i", 1 << 20) + b[12:], CorruptRecordError, "there"),
    "a length below a header": (lambda b: b[:8] + struct.pack(">i", 3) + b[12:], CorruptRecordError, "length"),
    "another magic": (lambda b: b[:16] + b"\1" + b[17:], UnsupportedFormatError, "magic byte 1"),
    "an offset below zero": (lambda b: b"\xff" * 8 + b[8:], CorruptRecordError, "cannot be"),
    "an offset in the batch before": (lambda b: at(b, 13, 3), UnexpectedOffsetError, "ends at 13"),
    "an older epoch": (lambda b: at(b, 14, 2), FencedLeaderEpochError, "epoch 2 behind one of epoch 3"),
    "a transaction without a producer": (transactional, InvalidRecordError, "producer id"),
}


@pytest.mark.parametrize(("wrong", "error", "words"), BAD.values(), ids=list(BAD))
def test_a_bad_batch_ends_the_run_before_it_and_is_named(tmp_path, wrong, error, words):
    good = sound()
    run = b"".join([*good[:2], wrong(good[2]), good[3]])
    with open_log(tmp_path) as log:
        with pytest.raises(error, match=words) as caught:
            log.replica.append_replicated(run, ack="synced")
        assert caught.value.position == len(good[0] + good[1])
        assert (log.log_end_offset, log.synced_end) == (14, 14)
        assert run_of(log, 10) == good[0] + good[1]
        # The rest, asked again.
        assert log.replica.append_replicated(good[2] + good[3])[:2] == (14, 17)
        assert run_of(log, 10) == b"".join(good)


@pytest.mark.parametrize("cut", [1, 30, 60, 61, 70])
def test_a_run_that_is_cut_ends_with_its_last_whole_batch(tmp_path, cut):
    good = sound()
    with open_log(tmp_path) as log:
        with pytest.raises(CorruptRecordError) as caught:
            log.replica.append_replicated(good[0] + good[1][:cut])
        assert caught.value.position == len(good[0])
        assert log.log_end_offset == 12


def test_what_does_not_continue_the_log_changes_nothing(tmp_path):
    good = sound()
    with open_log(tmp_path) as log:
        log.replica.append_replicated(good[0])
        for run, error, words in (
            (good[0], UnexpectedOffsetError, "begins at offset 10, the log ends at 12"),
            (at(good[1], 12, 2), FencedLeaderEpochError, "leader epoch 2, the log has seen 3"),
            (b"x", CorruptRecordError, "found 1"),
        ):
            with pytest.raises(error, match=words):
                log.replica.append_replicated(run)
            assert (log.log_end_offset, run_of(log, 10)) == (12, good[0])
        assert log.replica.append_replicated(b"")[:2] == (12, 11)
        with pytest.raises(TypeError):
            log.replica.append_replicated("text")
    with pytest.raises(LogClosedError):
        log.replica.append_replicated(good[1])


def test_the_buffer_is_given_back(tmp_path):
    data = bytearray(sound()[0])
    with open_log(tmp_path) as log:
        log.replica.append_replicated(data)
        data.clear()
        data += b"garbage"
        with pytest.raises(CorruptRecordError):
            log.replica.append_replicated(data)
        data.clear()


# --- faults ------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC, errno.EMFILE], ids=errno.errorcode.get)
def test_each_call_that_fails_leaves_whole_batches_of_the_leader(tmp_path, error):
    leader = open_log(tmp_path / "leader", files=quick_files(), policy=Led(), clock=ManualClock(NOW_MS))
    with leader:
        filled(leader, random.Random(3), steps=25)
        run = run_of(leader)
    cuts = borders(run)
    starts = offsets_of(run)
    number, was_hit = 0, True
    while was_hit:
        number += 1
        files = FaultyFiles()
        settings = {"segment_bytes": 900, "policy": Led(), "clock": ManualClock(NOW_MS)}
        log = open_log(tmp_path / str(number), files=files, **settings)
        files.fail("change", number, errno=error)
        try:
            log.replica.append_replicated(run)
            was_hit = bool(files.fired())
        except StorageFailedError:
            with pytest.raises(StorageFailedError):
                log.replica.append_replicated(run)
        except OUT_OF_RESOURCES:
            files.heal()
            end = log.log_end_offset
            size = cuts[len([start for start in starts if start < end])]
            assert (run_of(log) == run[:size]) is True
            log.replica.append_replicated(run[size:])
            assert (run_of(log) == run) is True
        files.heal()
        log.close()
        with open_log(tmp_path / str(number), **settings) as log:
            held = run_of(log)
            assert run.startswith(held)
            assert len(held) in cuts
            if log.maintenance.was_clean and error != errno.EIO:
                assert (held == run) is True
    assert number > 6


def test_a_full_disk_is_retried_once_with_what_was_reclaimed(tmp_path):
    class Once:
        def __init__(self) -> None:
            self.asked = 0

        def reserve(self, size: int) -> int:
            if self.asked == 0:
                raise DiskFullError("no room")
            return size

        def reclaim(self, size: int) -> bool:
            self.asked += 1
            return True

        def check(self) -> None: ...

    quota = Once()
    with open_log(tmp_path, quota=quota) as log:
        assert log.replica.append_replicated(b"".join(sound()))[:2] == (10, 17)
        assert quota.asked == 1


def test_an_interrupt_leaves_whole_batches_and_a_log_that_goes_on(tmp_path, monkeypatch):
    """At each step that another module takes for it: the state is that of the batches that are in the log."""
    leader = open_log(tmp_path / "leader", files=quick_files(), policy=Led(), clock=ManualClock(NOW_MS))
    with leader:
        filled(leader, random.Random(5), steps=25)
        run, wanted = run_of(leader), facts_of(leader)
    cuts = borders(run)
    for owner, place in ((State, "append_locked"), (State, "move_marks_locked"), (Transactions, "expire")):
        for number in range(1, 4):
            with open_log(
                tmp_path / place / str(number), segment_bytes=900, policy=Led(), clock=ManualClock(NOW_MS)
            ) as log:
                calls, real = [0], getattr(owner, place)

                def interrupted(self, *args, real=real, calls=calls, number=number, **more):
                    calls[0] += 1
                    answer = real(self, *args, **more)
                    if calls[0] == number:
                        raise KeyboardInterrupt
                    return answer

                with monkeypatch.context() as patched:
                    patched.setattr(owner, place, interrupted)
                    with pytest.raises(KeyboardInterrupt):
                        log.replica.append_replicated(run)
                held = run_of(log)
                assert run.startswith(held)
                assert len(held) in cuts
                log.replica.append_replicated(run[len(held) :])
                assert differing(facts_of(log), wanted) == []


def test_a_power_cut_leaves_a_prefix_of_the_leaders_batches():
    with Log.open(PATH, files=SimDisk(), clock=ManualClock(NOW_MS), policy=Led()) as leader:
        filled(leader, random.Random(11), steps=40)
        run = run_of(leader)
        epochs = leader.replica.epochs
    cuts, rng = borders(run), random.Random(2)
    disk, promised = SimDisk(), [(0, 0)]
    disk.keep_moments()
    settings = LogConfig(segment_bytes=900)
    log = Log.open(PATH, settings, files=disk, clock=ManualClock(NOW_MS), policy=Led())
    begin = 0
    while begin < len(cuts) - 1:
        end = min(begin + rng.randrange(1, 8), len(cuts) - 1)
        synced = rng.random() < 0.4
        log.replica.append_replicated(run[cuts[begin] : cuts[end]], ack="synced" if synced else "written")
        begin = end
        if synced:
            promised.append((disk.operations, cuts[end]))
    log.close()
    began, states = disk.operations - disk.moment_count, 0
    for number, moment in enumerate(disk.moments(), began + 1):
        least = max(size for done, size in promised if done <= number)
        for policy in POLICIES:
            after = moment.crash(policy, seed=number, page_bytes=64)
            with Log.open(PATH, settings, files=after, clock=ManualClock(NOW_MS), policy=Led()) as log:
                held = run_of(log)
                assert run.startswith(held), f"operation {number}, {policy}"
                assert len(held) in cuts
                assert len(held) >= least, f"operation {number}, {policy}"
                for base_offset in offsets_of(held):
                    assert log.replica.epochs.epoch_at(base_offset) == epochs.epoch_at(base_offset)
                try:
                    log.replica.append_replicated(run[len(held) :])
                except LogstoreError as error:
                    raise AssertionError(f"operation {number}, {policy}") from error
            states += 1
    assert states > 150


def peak_bytes(tmp_path, batches: int, records: int) -> int:
    """The most memory of Python objects that the append of a run takes, beside the run itself."""
    with Log.open(tmp_path / f"of-{batches}-{records}" / "t-0") as leader:
        for _ in range(batches):
            leader.append([b"v" * 10] * records)
        run = run_of(leader)
    with Log.open(tmp_path / f"to-{batches}-{records}" / "t-0", policy=Led()) as follower:
        follower.replica.append_replicated(run[: len(run) // batches])
        rest = run[len(run) // batches :]
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            assert follower.replica.append_replicated(rest)[1] == batches * records - 1
            return tracemalloc.get_traced_memory()[1] - before
        finally:
            tracemalloc.stop()


def test_a_run_makes_no_object_for_a_batch_or_a_record(tmp_path):
    few, many, large = (peak_bytes(tmp_path, *each) for each in ((10, 10), (1_000, 10), (10, 1_000)))
    # An object for each batch or record would take 32 kB more, at least.
    assert many < few + 8_000
    assert large < few + 8_000


@pytest.mark.parametrize("has_prepared", [False, True])
def test_an_empty_segment_that_cannot_reach_a_batch_behind_a_gap_is_left_behind_it(tmp_path, has_prepared):
    """As a compaction leaves it: one record, and the last offset of all that were in the batch."""
    batch = bytearray(at(one_batch([b"wide"]), 5))
    struct.pack_into(">i", batch, 23, 2**31 - 1)
    struct.pack_into(">I", batch, 17, crc32c(batch[21:]))
    with open_log(tmp_path) as log:
        if has_prepared:
            log._state.rolls.make_ready()
        assert log.replica.append_replicated(bytes(batch)).last_offset == 5 + 2**31 - 1
        assert [record.value for record in log.scan()] == [b"wide"]
        assert log.append([b"next"]).first_offset == 5 + 2**31
    with open_log(tmp_path) as log:
        assert [record.value for record in log.scan()] == [b"wide", b"next"]
