"""Batches of several clients in one call: each as if it were alone, with one write and one sync for all."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from logstore import Log
from logstore.batch._batch import stamp_producer
from logstore.errors import (
    CorruptRecordError,
    DiskFullError,
    LogClosedError,
    OutOfOrderSequenceError,
    RecordTooLargeError,
    StorageFailedError,
)
from logstore.log.append import append as appends
from logstore.records import AppendResult
from logstore.testing import FaultyFiles, ManualClock
from tests.kit.inside import producers_of
from tests.log.append.failing_calls import check_kept, each_call_fails
from tests.log.append.test_append_batch import CONFIGS, batches, contents, outcome
from tests.log.logs import NOW_MS, log_files, one_batch, open_log, values_of

TURN_CONFIGS = [
    *CONFIGS,
    {"tail": "memory"},
    {"offset_mode": "bytes"},
    {"segment_bytes": 700, "segment_ms": 1_000},
    {"flush_messages": 3},
]


def of_producer(producer_id: int, base_sequence: int, values: list[bytes], epoch: int = 0) -> bytes:
    data = bytearray(one_batch(values))
    stamp_producer(data, producer_id, epoch, base_sequence)
    return bytes(data)


@st.composite
def turns(draw: st.DrawFn) -> list[bytes]:
    """Batches of a turn: those of two producers mostly go on where the last one ended."""
    found: list[bytes] = []
    sequences = {1: 0, 2: 0}
    for _ in range(draw(st.integers(0, 8))):
        if draw(st.booleans()):
            found.append(draw(batches()))
            continue
        producer_id, count = draw(st.sampled_from([1, 2])), draw(st.integers(1, 3))
        epoch = draw(st.sampled_from([0] * 6 + [1]))
        found.append(of_producer(producer_id, sequences[producer_id], [b"v"] * count, epoch))
        if draw(st.integers(0, 5)):
            sequences[producer_id] += count
    return found


def counters_of(log: Log) -> dict[str, int]:
    return log.metrics().counters


def told(result: object) -> object:
    return result if isinstance(result, AppendResult) else (type(result), str(result))


@pytest.mark.filterwarnings("ignore::logstore.errors.RetentionWarning")
@pytest.mark.parametrize("config", TURN_CONFIGS, ids=str)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(given=st.lists(turns(), max_size=3))
def test_a_turn_does_what_its_batches_do_one_by_one(
    tmp_path_factory: pytest.TempPathFactory, config: dict[str, object], given: list[list[bytes]]
) -> None:
    home = tmp_path_factory.mktemp("turns")
    logs = [open_log(Path(home) / side, clock=ManualClock(NOW_MS), **config) for side in ("turn", "single")]
    try:
        for log in logs:
            log.append([(b"k", b"v")])
        for turn in given:
            results = [told(result) for result in logs[0].replica.append_turn(turn)]
            assert results == [outcome(logs[1], bytearray(batch)) for batch in turn]
        for log in logs:
            log.flush()
        assert contents(logs[0]) == contents(logs[1])
        turn, single = (counters_of(log) for log in logs)
        assert {**turn, "flushes": 0} == {**single, "flushes": 0}
    finally:
        for log in logs:
            log.close()


def test_a_turn_takes_one_write_and_one_sync(tmp_path):
    files = FaultyFiles()
    with open_log(tmp_path, files=files) as log:
        log.append([b"first"])
        turn = [one_batch([b"plain"]), of_producer(7, 0, [b"a", b"b"]), of_producer(7, 2, [b"c"])]
        log.replica.append_turn(turn)  # the producer is known from here on
        before = files.counts()
        turn = [one_batch([b"y"]) if n % 2 else of_producer(7, 3 + n // 2, [b"x"]) for n in range(40)]
        results = log.replica.append_turn(turn, ack="synced")
        after = files.counts()
        assert [result.first_offset for result in results] == list(range(5, 45))
        assert log.synced_end == 45
        assert after["fdatasync"] - before["fdatasync"] == 1
        # One for the batches, one for readers in other processes at each move of the marks.
        assert after["pwrite"] - before["pwrite"] <= 3
        assert values_of(log) == [b"first", b"plain", b"a", b"b", b"c", *[b"x", b"y"] * 20]


def test_a_turn_of_one_producer_stays_in_sequence_after_it_is_repeated(tmp_path):
    with open_log(tmp_path) as log:
        turn = [of_producer(7, n, [b"%d" % n]) for n in range(5)]
        first = log.replica.append_turn(turn)
        assert [result.duplicate for result in first] == [False] * 5
        again = log.replica.append_turn(turn)
        assert again == [result._replace(duplicate=True) for result in first]
        gap, following = log.replica.append_turn([of_producer(7, 6, [b"6"]), of_producer(7, 5, [b"5"])])
        assert isinstance(gap, OutOfOrderSequenceError)
        assert following.first_offset == 5


def test_producers_that_begin_in_one_turn(tmp_path):
    """At any sequence; what follows the first batch of a producer in its turn has to be its next one."""
    with open_log(tmp_path) as log:
        log.append([b"first"])
        turn = [
            of_producer(1, 0, [b"a"]),
            of_producer(2, 5, [b"b", b"c"]),
            of_producer(1, 1, [b"d"]),
            of_producer(2, 8, [b"gap"]),
            of_producer(2, 7, [b"e"]),
        ]
        results = log.replica.append_turn(turn)
        assert isinstance(results.pop(3), OutOfOrderSequenceError)
        assert [result.first_offset for result in results] == [1, 2, 4, 5]
        assert [result.duplicate for result in log.replica.append_turn([turn[1], turn[2]])] == [True, True]
        known = {producer.producer_id: producer.next_sequence for producer in producers_of(log)}
        assert known == {1: 2, 2: 8}
    with open_log(tmp_path) as log:
        assert {producer.producer_id: producer.next_sequence for producer in producers_of(log)} == known
        assert log.replica.append_batch(turn[4]).duplicate


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC], ids=errno.errorcode.get)
def test_a_producer_whose_first_batch_was_not_written_is_not_known(tmp_path, error):
    files = FaultyFiles()
    with open_log(tmp_path, files=files) as log:
        log.append([b"first"])
        files.fail("pwrite", 1, error, times=9, path_contains=".log", short=40)
        (result,) = log.replica.append_turn([of_producer(1, 0, [b"a"])])
        assert isinstance(result, StorageFailedError if error == errno.EIO else DiskFullError)
        files.heal()
        assert len(producers_of(log)) == 0
        if error == errno.ENOSPC:
            assert log.replica.append_batch(of_producer(1, 3, [b"b"])).first_offset == 1


def test_more_batches_and_bytes_than_one_write_takes(tmp_path):
    with open_log(tmp_path) as log:
        turn = [one_batch([b"%d" % n]) for n in range(300)] + [one_batch([bytes(300_000)]) for _ in range(8)]
        results = log.replica.append_turn(turn)
        assert [result.first_offset for result in results] == list(range(308))
        assert [len(value) for value in values_of(log)][-8:] == [300_000] * 8


def test_an_error_of_one_batch_changes_nothing_for_the_others(tmp_path):
    with open_log(tmp_path, max_message_bytes=10_000) as log:
        good, wrong = one_batch([b"good"]), bytearray(one_batch([b"wrong"]))
        wrong[-1] ^= 1
        turn = [good, bytes(wrong), good, one_batch([bytes(20_000)]), good, b"", memoryview(good)]
        results = log.replica.append_turn(turn)
        assert [type(result) for result in results] == [
            *(AppendResult, CorruptRecordError, AppendResult, RecordTooLargeError, AppendResult),
            *(CorruptRecordError, AppendResult),
        ]
        assert [result.first_offset for result in results if isinstance(result, AppendResult)] == [0, 1, 2, 3]
        assert values_of(log) == [b"good"] * 4


@pytest.mark.parametrize("place", range(4))
def test_a_batch_larger_than_the_segment_is_refused_alone(tmp_path, place):
    """It would fit no segment, whatever was rolled for it; nothing is."""
    with open_log(tmp_path, segment_bytes=2_000) as log:
        log.append([b"first"])
        turn = [one_batch([b"%d" % n]) for n in range(3)]
        turn.insert(place, one_batch([bytes(3_000)]))
        results = log.replica.append_turn(turn)
        error = results.pop(place)
        assert isinstance(error, RecordTooLargeError)
        assert "segment.bytes" in str(error)
        assert told(error) == outcome(log, bytearray(turn[place]))
        assert [result.first_offset for result in results] == [1, 2, 3]
        assert log.maintenance.segment_count == 1
        assert values_of(log) == [b"first", b"0", b"1", b"2"]
    with open_log(tmp_path) as log:
        assert values_of(log) == [b"first", b"0", b"1", b"2"]


def test_what_is_no_buffer_is_refused_before_anything_is_written(tmp_path):
    with open_log(tmp_path) as log:
        with pytest.raises(TypeError):
            log.replica.append_turn([one_batch([b"x"]), "text"])
        assert log.log_end_offset == 0
        assert log.replica.append_turn([]) == []
    with pytest.raises(LogClosedError):
        log.replica.append_turn([one_batch([b"x"])])


def test_a_disk_that_is_full_between_two_batches(tmp_path):
    files = FaultyFiles()
    with open_log(tmp_path, files=files) as log:
        log.append([b"first"])
        # All in one write, then one by one: of five batches, the second and third find no space.
        files.fail("pwrite", 1, errno.ENOSPC, path_contains=".log", short=100)
        files.fail("pwrite", 4, errno.ENOSPC, times=3, path_contains=".log", short=30)
        results = log.replica.append_turn([one_batch([b"%d" % n]) for n in range(5)])
        full = [isinstance(result, DiskFullError) for result in results]
        assert any(full)
        assert not all(full)
        written = [b"%d" % n for n, result in enumerate(results) if isinstance(result, AppendResult)]
        assert values_of(log) == [b"first", *written]
        files.heal()
        log.append([b"last"])
        assert counters_of(log)["disk_full"] > 0
    with open_log(tmp_path) as log:
        assert values_of(log) == [b"first", *written, b"last"]


def test_batches_that_fit_one_by_one_are_written_if_all_of_them_do_not(tmp_path):
    files = FaultyFiles()
    with open_log(tmp_path, files=files) as log:
        log.append([b"first"])
        files.fail("pwrite", 1, errno.ENOSPC, path_contains=".log", short=100)
        results = log.replica.append_turn([one_batch([b"%d" % n]) for n in range(3)])
        assert [type(result) for result in results] == [AppendResult] * 3
        assert values_of(log) == [b"first", b"0", b"1", b"2"]


def test_the_first_batch_of_a_segment_decides_when_it_is_rolled(tmp_path):
    bases = []
    for side in ("turn", "single"):
        with open_log(tmp_path / side, clock=ManualClock(NOW_MS), segment_ms=1_000) as log:
            log.append([b"first"])
            log.maintenance.roll()
            turn = [one_batch([b"v"], timestamp_ms=NOW_MS + late) for late in (0, 5_000, 5_001, 20_000)]
            if side == "turn":
                log.replica.append_turn(turn)
            else:
                for batch in turn:
                    log.replica.append_batch(batch)
            bases.append(list(log_files(log)))
    assert bases == [[0, 1, 2, 4]] * 2


def test_a_failed_write_fails_the_log_and_every_batch_says_so(tmp_path):
    files = FaultyFiles()
    with open_log(tmp_path, files=files) as log:
        log.append([b"first"])
        files.fail("pwrite", 1, errno.EIO, path_contains=".log")
        results = log.replica.append_turn([one_batch([b"%d" % n]) for n in range(5)])
        assert [type(result) for result in results] == [StorageFailedError] * 5
        assert "pwrite" in str(results[0]) or "write" in str(results[0])
        assert log.log_end_offset == 1
        with pytest.raises(StorageFailedError):
            log.replica.append_turn([one_batch([b"x"])])


def test_a_failed_sync_is_the_error_of_every_written_batch(tmp_path):
    files = FaultyFiles()
    with open_log(tmp_path, files=files) as log:
        log.append([b"first"], ack="synced")
        files.fail("fdatasync", 1, errno.EIO)
        wrong = one_batch([b"wrong"])[:-1]
        results = log.replica.append_turn([one_batch([b"a"]), wrong, one_batch([b"b"])], ack="synced")
        assert [type(result) for result in results] == [StorageFailedError, CorruptRecordError, StorageFailedError]


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC], ids=errno.errorcode.get)
def test_each_call_of_a_turn_fails_once(error):
    turn = [one_batch([b"%d" % n]) for n in range(12)]
    for log, files, results in each_call_fails(
        error, lambda log: log.append([b"first"]), lambda log: log.replica.append_turn(turn, ack="synced")
    ):
        check_kept(log, files, results)


def test_an_interrupt_in_a_turn_leaves_whole_batches(tmp_path, monkeypatch):
    class StruckError(BaseException):
        pass

    def struck(*arguments: object) -> None:
        raise StruckError

    with open_log(tmp_path) as log:
        log.append([b"first"])
        wrong = one_batch([b"wrong"])[:-1]
        # The damaged one takes the steps in Python, before anything is written.
        monkeypatch.setattr(appends, "admit", struck)
        with pytest.raises(StruckError):
            log.replica.append_turn([one_batch([b"a"]), wrong])
        monkeypatch.undo()
        assert values_of(log) == [b"first"]
        repeated = of_producer(7, 0, [b"repeated"])
        log.replica.append_batch(repeated)
        # The first two are written together; the repeated one goes by itself, and there the interrupt comes.
        monkeypatch.setattr(appends, "write_locked", struck)
        with pytest.raises(StruckError):
            log.replica.append_turn([one_batch([b"a"]), one_batch([b"b"]), repeated, one_batch([b"c"])])
        monkeypatch.undo()
        assert values_of(log) == [b"first", b"repeated", b"a", b"b"]
        assert log.replica.append_turn([one_batch([b"d"])])[0].first_offset == 4


def test_a_file_of_a_turn_is_that_of_its_batches(tmp_path):
    with open_log(tmp_path / "turn") as log:
        log.append([b"first"], timestamp=NOW_MS)
        log.replica.append_turn([one_batch([b"%d" % n]) for n in range(200)])
        (turn,) = log_files(log).values()
    with open_log(tmp_path / "run") as log:
        log.append([b"first"], timestamp=NOW_MS)
        for n in range(200):
            log.append([(None, b"%d" % n, NOW_MS)])
        (run,) = log_files(log).values()
    assert turn.read_bytes() == run.read_bytes()


CHANGED = {
    "compressed": {"compression_type": "lz4"},
    "uncompressed": {"compression_type": "uncompressed"},
    "with the log's time": {"message_timestamp_type": "LogAppendTime"},
}


@pytest.mark.parametrize("config", CHANGED.values(), ids=CHANGED)
def test_batches_that_are_changed_take_one_write(tmp_path, config):
    files, clock = FaultyFiles(), ManualClock(NOW_MS)
    with open_log(tmp_path, files=files, clock=clock, **config) as log:
        log.append([b"first"])
        log.replica.append_turn([of_producer(7, 0, [b"a"])])  # the producer is known from here on
        wrong = bytearray(one_batch([b"wrong"]))
        wrong[-1] ^= 1
        given = [
            one_batch([b"y" * 100], codec=n % 2) if n % 2 else of_producer(7, 1 + n // 2, [b"x"]) for n in range(20)
        ]
        clock.advance(5)
        before = files.counts()
        results = log.replica.append_turn([*given[:10], bytes(wrong), *given[10:]])
        after = files.counts()
        assert isinstance(results.pop(10), CorruptRecordError)
        has_time = "message_timestamp_type" in config
        assert results == [AppendResult(n, n, NOW_MS + 5 if has_time else -1) for n in range(2, 22)]
        # Twice one for the batches and one for readers in other processes: the error is between them.
        assert after["pwrite"] - before["pwrite"] <= 4
        assert values_of(log) == [b"first", b"a", *[b"x", b"y" * 100] * 10]


def test_planted_a_write_for_each_changed_batch_is_found(tmp_path, monkeypatch):
    attempt, later = appends.LogWriter.attempt, CorruptRecordError("admitted at its own write only")

    def attempted(self, batch, admitted, now):
        return attempt(self, batch, None if admitted is later else admitted, now)

    admitted = appends.LogWriter.admitted
    asked = iter([later] * 20)
    monkeypatch.setattr(appends.LogWriter, "attempt", attempted)
    monkeypatch.setattr(appends.LogWriter, "admitted", lambda *given: next(asked, None) or admitted(*given))
    with pytest.raises(AssertionError):
        test_batches_that_are_changed_take_one_write(tmp_path, CHANGED["compressed"])
