"""Batches of several encoders in one write: those of an accumulator that waits for acks of replicas."""

from __future__ import annotations

import errno

import pytest

from logstore import Log
from logstore.batch._encode import Encoder
from logstore.errors import InvalidTimestampError, LogClosedError, LogstoreError, StorageFailedError
from logstore.records import AppendResult, ProducerStamp
from logstore.testing import FaultyFiles, ManualClock
from tests.kit.inside import append_together
from tests.log.append.failing_calls import each_call_fails, reopened_values
from tests.log.logs import NOW_MS, log_files, open_log, values_of

Batches = tuple[list[Encoder], list[ProducerStamp | None]]


def closed(values: list[bytes], sequence: int = -1, timestamp_ms: int = NOW_MS) -> Encoder:
    producer_id, epoch = (7, 0) if sequence >= 0 else (-1, -1)
    encoder = Encoder().begin(
        timestamp_ms=timestamp_ms, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence
    )
    encoder.add_all(values)
    return encoder.finish()


def batches(count: int, *, first: int = 0) -> Batches:
    """Return encoders with a record each, of one producer."""
    numbers = range(first, first + count)
    return [closed([b"%d" % n], n) for n in numbers], [ProducerStamp(7, 0, n, False) for n in numbers]


def put(log: Log, given: Batches) -> list[AppendResult | LogstoreError]:
    """Append as an accumulator does: together, and what is left one by one."""
    encoders, producers = given
    results: list[AppendResult | LogstoreError] = [*append_together(log, encoders, producers)]
    for encoder, producer in list(zip(encoders, producers, strict=True))[len(results) :]:
        try:
            results.append(log._append_encoded(encoder, producer=producer))
        except LogstoreError as error:
            results.append(error)
    return results


def test_batches_of_several_encoders_are_one_write_and_one_move_of_the_marks(tmp_path):
    files = FaultyFiles()
    with open_log(tmp_path, files=files) as log:
        put(log, batches(1))
        put(log, batches(1, first=1))  # the producer is known from here on
        before = files.counts()
        encoders, producers = batches(40, first=2)
        results = append_together(log, encoders, producers)
        assert files.counts()["pwrite"] - before["pwrite"] <= 2  # one is for readers in other processes
        assert [tuple(result) for result in results] == [(n, n, -1, False) for n in range(2, 42)]
        assert [encoder.appended_at for encoder in encoders] == list(range(2, 42))
        assert values_of(log) == [b"%d" % n for n in range(42)]


def test_the_bytes_are_those_of_appends_one_by_one(tmp_path):
    written = []
    for side in ("together", "single"):
        with open_log(tmp_path / side, clock=ManualClock(NOW_MS)) as log:
            log.append([b"first"])
            for given in (batches(1), batches(5, first=1), ([closed([b"x", b"y"]), closed([b"z"])], [None, None])):
                if side == "together":
                    put(log, given)
                else:
                    for encoder, producer in zip(*given, strict=True):
                        log.replica.append_encoded(encoder, producer=producer)
            (file,) = log_files(log).values()
            written.append((file.read_bytes(), log.metrics().counters))
    assert written[0] == written[1]


def test_what_is_not_plain_is_left(tmp_path):
    """A batch that breaks a rule, one that was appended, one out of order, one that needs a new segment."""
    with open_log(tmp_path, message_timestamp_before_max_ms=1_000, clock=ManualClock(NOW_MS)) as log:
        put(log, batches(1))
        encoders, producers = batches(3, first=1)
        encoders[1] = closed([b"old"], 2, NOW_MS - 5_000)
        assert len(append_together(log, encoders, producers)) == 1
        assert [encoder.appended_at for encoder in encoders] == [1, -1, -1]
        with pytest.raises(InvalidTimestampError):
            log._append_encoded(encoders[1], producer=producers[1])
        assert append_together(log, encoders, producers) == []  # the first one is in the log already
        assert append_together(log, *batches(2, first=5)) == []  # 2 to 4 are missing
        assert append_together(log, [Encoder().begin(timestamp_ms=NOW_MS)], [None]) == []  # has no batch
        assert values_of(log) == [b"0", b"1"]
    with open_log(tmp_path / "small", segment_bytes=300) as log:
        put(log, batches(1))
        results = put(log, batches(30, first=1))
        assert [result.first_offset for result in results if isinstance(result, AppendResult)] == list(range(1, 31))
        assert len(log_files(log)) > 5


@pytest.mark.parametrize("config", [{"tail": "memory"}, {"offset_mode": "bytes"}, {"flush_messages": 1}], ids=str)
def test_a_log_that_takes_other_steps_gets_them_one_by_one(tmp_path, config):
    with open_log(tmp_path, **config) as log:
        assert all(isinstance(result, AppendResult) for result in put(log, batches(7)))
        log.flush()
        assert values_of(log) == [b"%d" % n for n in range(7)]


def test_a_closed_log_takes_none(tmp_path):
    with open_log(tmp_path) as log:
        pass
    assert append_together(log, *batches(2)) == []
    assert all(isinstance(result, LogClosedError) for result in put(log, batches(2)))


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC], ids=errno.errorcode.get)
def test_each_call_of_a_turn_of_encoders_fails_once(error):
    """What has a result is in the log when it is opened again, and nothing twice or out of order."""
    given: Batches = ([], [])

    def act(log: Log) -> list[AppendResult | LogstoreError]:
        nonlocal given
        given = batches(12, first=1)
        return put(log, given)

    for log, files, results in each_call_fails(error, lambda log: put(log, batches(1)), act):
        files.heal()
        failed = log.replica.failure is not None
        if not failed:
            # An accumulator tries again from the first batch on that has no result.
            assert all(isinstance(result, AppendResult) for result in put(log, given))
        try:
            log.close()
        except StorageFailedError:
            pass
        written = [b"%d" % n for n, result in enumerate(results, 1) if isinstance(result, AppendResult)]
        found = reopened_values(files)
        assert set(written) <= set(found)
        assert found == sorted(set(found), key=int)
        if not failed:
            assert found == [b"%d" % n for n in range(13)]
