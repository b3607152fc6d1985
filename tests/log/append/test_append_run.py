"""A run of whole batches takes one compiled call, or the steps of `log.append`: both do the same."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from logstore import Log
from logstore.batch._encode import encode
from logstore.errors import CorruptRecordError, DiskFullError, LogstoreError, OutOfOrderSequenceError
from logstore.records import ProducerStamp
from logstore.testing import FaultyFiles, ManualClock, SimDisk
from tests.log.append.test_append_batch import contents
from tests.log.append.test_append_turn import TURN_CONFIGS, counters_of
from tests.log.logs import NOW_MS, one_batch, open_log, values_of


def run_of(*sizes: int) -> bytearray:
    """A run of batches with so many records each."""
    records = [(b"key", b"v%d" % n * 9) for n in range(max(sizes, default=0))]
    return bytearray(b"".join(encode(records[:size], timestamp_ms=NOW_MS) for size in sizes))


def by_steps(log: Log) -> Log:
    """Leave every run of a log to the steps in Python: its compiled method is shadowed, which mypy refuses."""
    log._state.append_run = lambda *_arguments: None  # type: ignore[method-assign]
    return log


runs = st.tuples(
    st.lists(st.integers(1, 4), min_size=1, max_size=6),
    st.sampled_from([None, None, (1, 0, False), (1, 0, False), (1, 1, False), (2, 0, True)]),
    st.sampled_from([0] * 6 + [1]),
    st.booleans(),
)


@pytest.mark.filterwarnings("ignore::logstore.errors.RetentionWarning")
@pytest.mark.parametrize("config", TURN_CONFIGS, ids=str)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(given=st.lists(runs, max_size=5))
def test_the_compiled_append_of_a_run_and_its_steps_in_python_do_the_same(tmp_path_factory, config, given) -> None:
    home = tmp_path_factory.mktemp("runs")
    logs = [open_log(Path(home) / side, clock=ManualClock(NOW_MS), **config) for side in ("compiled", "steps")]
    by_steps(logs[1])
    try:
        for log in logs:
            log.append([(b"k", b"v")])
        sequences: dict[tuple[int, int], int] = {}
        for sizes, producer, skipped, rolls in given:
            stamp = None
            if rolls:
                # A long run begins in an empty segment then, and goes on in others.
                for log in logs:
                    log.maintenance.roll()
            if producer is not None:
                producer_id, epoch, transactional = producer
                base = sequences.get((producer_id, epoch), 0) + skipped
                stamp = ProducerStamp(producer_id, epoch, base, transactional)
            outcomes = []
            for log in logs:
                try:
                    outcomes.append(log.replica.append_run(run_of(*sizes), producer=stamp, max_timestamp_ms=NOW_MS))
                except LogstoreError as error:
                    outcomes.append((type(error), str(error)))
            assert outcomes[0] == outcomes[1]
            if producer is not None and not isinstance(outcomes[0][0], type):
                sequences[producer[:2]] = stamp.base_sequence + sum(sizes)
        assert contents(logs[0]) == contents(logs[1])
        assert counters_of(logs[0]) == counters_of(logs[1])
    finally:
        for log in logs:
            log.close()
    # What is found after a close, and after none: the producers go on where they were.
    with open_log(Path(home) / "compiled", **config) as log, open_log(Path(home) / "steps", **config) as other:
        assert contents(log) == contents(other)


def test_a_run_that_fits_takes_one_write(tmp_path: Path) -> None:
    files = FaultyFiles()
    with open_log(tmp_path, files=files) as log:
        log.append([b"first"])
        log.replica.append_run(run_of(1), producer=ProducerStamp(7, 0, 0), max_timestamp_ms=NOW_MS)
        before = files.counts()
        result = log.replica.append_run(run_of(*[2] * 30), producer=ProducerStamp(7, 0, 1), max_timestamp_ms=NOW_MS)
        after = files.counts()
        assert result[:2] == (2, 61)
        # One for the batches, at most one for readers in other processes.
        assert after["pwrite"] - before["pwrite"] <= 2
        assert log.metrics().counters["appends"] == 3
        assert log.metrics().counters["appended_batches"] == 32
        with pytest.raises(OutOfOrderSequenceError):
            log.replica.append_run(run_of(1), producer=ProducerStamp(7, 0, 63), max_timestamp_ms=NOW_MS)
        assert (
            log.replica.append_run(
                run_of(1), producer=ProducerStamp(7, 0, 61), max_timestamp_ms=NOW_MS
            ).first_offset
            == 62
        )


def test_a_run_with_a_bad_batch_in_the_middle_changes_nothing(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        log.append([b"first"])
        wrong = run_of(2, 2, 2)
        wrong[len(wrong) // 2] ^= 1
        for run in (wrong, run_of(2, 2)[:-1]):
            with pytest.raises(CorruptRecordError):
                log.replica.append_run(run, max_timestamp_ms=NOW_MS)
        assert values_of(log) == [b"first"]
        assert log.replica.append_run(run_of(1), max_timestamp_ms=NOW_MS).first_offset == 1


def test_a_run_without_batches_writes_nothing(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        log.append([b"first"])
        result = log.replica.append_run(bytearray(), max_timestamp_ms=NOW_MS)
        assert result.last_offset < result.first_offset
        assert log.log_end_offset == 1


def test_a_run_longer_than_a_segment_is_rolled_between_its_batches(tmp_path: Path) -> None:
    with open_log(tmp_path, segment_bytes=400) as log:
        log.append([b"first"])
        log.replica.append_run(run_of(1), producer=ProducerStamp(7, 0, 0), max_timestamp_ms=NOW_MS)
        # The first piece fits the empty segment; the others need a roll.
        log.maintenance.roll()
        result = log.replica.append_run(run_of(*[3] * 12), producer=ProducerStamp(7, 0, 1), max_timestamp_ms=NOW_MS)
        assert result[:2] == (2, 37)
        assert log.metrics().counters["rolls"] >= 4
        assert len(values_of(log)) == 38
        end = ProducerStamp(7, 0, 37)
        assert log.replica.append_run(run_of(1), producer=end, max_timestamp_ms=NOW_MS).first_offset == 38


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC], ids=errno.errorcode.get)
def test_each_call_of_a_run_fails_once(error: int) -> None:
    """When the log is opened again, it has the run from its beginning up to some batch, and nothing torn."""
    calls, number = 1, 0
    config = {"segment_bytes": 420}
    written = [b"first", *[b"v%d" % n * 9 for _ in range(8) for n in range(2)]]
    while number < calls:
        number += 1
        disk = SimDisk(1)
        with Log.open("/data/t-0", config, files=disk, clock=ManualClock(NOW_MS)) as log:
            log.append([b"first"])
        files = disk.kill()
        log = Log.open("/data/t-0", config, files=files, clock=ManualClock(NOW_MS))
        began = files.operations
        stamp = ProducerStamp(7, 0, 0)
        if number == 1:
            log.replica.append_run(run_of(*[2] * 8), producer=stamp, max_timestamp_ms=NOW_MS)
            calls = files.operations - began
            assert calls > 10
            log.close()
            continue
        files.fail("change", number - 1, errno=error)
        done = True
        try:
            log.replica.append_run(run_of(*[2] * 8), producer=stamp, max_timestamp_ms=NOW_MS)
        except LogstoreError:
            done = False
        files.heal()
        end = log.log_end_offset
        try:
            log.close()
        except LogstoreError:
            pass
        with Log.open("/data/t-0", config, files=files.kill(), clock=ManualClock(NOW_MS)) as log:
            found = values_of(log)
        assert found == written[: len(found)]
        assert len(found) % 2 == 1
        assert len(found) >= end
        assert not done or found == written


def test_a_disk_that_is_full_leaves_the_batches_before(tmp_path: Path) -> None:
    files = FaultyFiles()
    with open_log(tmp_path, files=files, segment_bytes=400) as log:
        log.append([b"first"])
        log.replica.append_run(bytearray(one_batch([b"second"])), max_timestamp_ms=NOW_MS)
        files.fail("pwrite", 1, errno.ENOSPC)
        with pytest.raises(DiskFullError):
            log.replica.append_run(run_of(2), max_timestamp_ms=NOW_MS)
        assert values_of(log) == [b"first", b"second"]
        assert log.replica.append_run(run_of(1), max_timestamp_ms=NOW_MS).first_offset == 2
