"""Appends whose records a truncation removes before they are acknowledged as synced: none returns normally."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from logstore import Log
from logstore.accumulator.syncing import Syncing
from logstore.batch._encode import Encoder
from logstore.errors import AppendTruncatedError, LogstoreError
from logstore.records import AppendResult, ProducerStamp
from logstore.testing import FaultyFiles, ManualClock
from tests.crash.planted import must_break
from tests.kit.waiting import wait_for
from tests.log.logs import values_of

STAMP = ProducerStamp(7, 0, 0)


def encoded(value: bytes) -> Encoder:
    encoder = Encoder().begin(timestamp_ms=1_790_000_000_000)
    encoder.add_all([value])
    return encoder.finish()


def batch_of(values: list[bytes]) -> bytes:
    return bytes(encoded(values[0]))


def by_records(log: Log) -> AppendResult:
    return log.append([b"x"], ack="synced")


def by_iterator(log: Log) -> AppendResult:
    return log.append(iter([b"x"]), ack="synced")


def by_expected_offset(log: Log) -> AppendResult:
    return log.append([b"x"], ack="synced", expect=log.log_end_offset)


def by_producer(log: Log) -> AppendResult:
    return log.append([b"x"], ack="synced", producer=STAMP)


def by_batch(log: Log) -> AppendResult:
    return log.replica.append_batch(batch_of([b"x"]), ack="synced")


def by_other_buffer(log: Log) -> AppendResult:
    return log.replica.append_batch(bytearray(batch_of([b"x"])), ack="synced")


def by_turn(log: Log) -> AppendResult:
    results = log.replica.append_turn([batch_of([b"x"]), b"no batch", batch_of([b"y"])], ack="synced")
    errors = {type(result) for result in (results[0], results[2])}
    assert len(errors) == 1
    if isinstance(results[0], LogstoreError):
        raise results[0]
    return results[0]


WAYS = [by_records, by_iterator, by_expected_offset, by_producer, by_batch, by_other_buffer, by_turn]


def cut_while_synced(log: Log, files: FaultyFiles, append: Callable[[Log], AppendResult], to: int) -> BaseException:
    """Append, and truncate before the sync has ended; return what the append raised."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            append(log)
        except BaseException as error:  # noqa: BLE001  looked at by the test
            raised.append(error)

    held = files.held_syncs()
    files.hold_syncs(".log")
    appending = threading.Thread(target=run, daemon=True)
    appending.start()
    wait_for(lambda: files.held_syncs() > held, 300)
    truncating = threading.Thread(target=log.replica.truncate_to, args=(to,), daemon=True)
    truncating.start()
    wait_for(log._state.lock.locked, 300)
    files.release_syncs()
    truncating.join(300)
    appending.join(300)
    assert not appending.is_alive()
    assert not truncating.is_alive()
    assert raised, "an append returned whose record is not in the log"
    return raised[0]


@pytest.mark.parametrize("append", WAYS)
def test_an_append_that_is_cut_before_it_is_synced_raises(ram_path: Path, append: Callable[[Log], AppendResult]):
    files = FaultyFiles()
    with Log.open(ram_path / "t-0", files=files) as log:
        log.append([b"kept"], ack="synced")
        error = cut_while_synced(log, files, append, 1)
        assert isinstance(error, AppendTruncatedError)
        assert "offsets 1 to 1 are not in the log" in str(error)
        assert append(log).first_offset == 1
        assert values_of(log)[:2] == [b"kept", b"x"]


def test_planted_an_end_that_is_taken_for_a_sync_is_found(ram_path: Path, monkeypatch: pytest.MonkeyPatch):
    files = FaultyFiles()
    with Log.open(ram_path / "t-0", files=files) as log:
        log.append([b"kept"], ack="synced")
        monkeypatch.setattr(log._writer.state.__class__, "_check_kept", lambda *_: None)
        must_break("an append returned", lambda: cut_while_synced(log, files, by_iterator, 1))


def test_a_cut_behind_the_records_takes_nothing_from_them(ram_path: Path):
    with Log.open(ram_path / "t-0") as log:
        log.append([b"a"])
        before = log._state.marks.cuts
        log.append([b"b"])
        log.append([b"c"])
        log.replica.truncate_to(2)
        log.append([b"d"])
        log.replica.truncate_to(3)
        assert log._loss_of(1, 1, before) is None
        assert isinstance(log._loss_of(2, 2, before), AppendTruncatedError)
        # The record that took its place is another one.
        assert log._loss_of(2, 2, log._state.marks.cuts) is None


def test_a_log_that_begins_again_has_none_of_the_records_before(ram_path: Path):
    with Log.open(ram_path / "t-0") as log:
        log.append([b"a"])
        before = log._state.marks.cuts
        log.replica.restart_at(100)
        assert isinstance(log._loss_of(0, 0, before), AppendTruncatedError)
        log.append([b"b"])
        log.replica.truncate_to(100)
        assert isinstance(log._loss_of(0, 0, before), AppendTruncatedError)


def test_the_lowest_cut_since_an_append_decides(ram_path: Path):
    with Log.open(ram_path / "t-0") as log:
        moments = []
        for end in (4, 2, 3):
            while log.log_end_offset < 5:
                log.append([b"x"])
            moments.append(log._state.marks.cuts)
            log.replica.truncate_to(end)
        lost = [[log._state.marks.was_cut(end, moment) for end in (1, 2, 3, 4, 5)] for moment in moments]
        assert lost == [
            [False, False, True, True, True],
            [False, False, True, True, True],
            [False, False, False, True, True],
        ]


class _Result:
    """A `BatchResult` as `Syncing` uses one."""

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self.first = -1

    def appended(self, *_: object) -> None: ...

    def notify(self) -> None: ...

    def fail(self, error: BaseException) -> None:
        self.error = error

    def acknowledge(self, first_offset: int, _append_time_ms: int) -> None:
        self.first = first_offset


def test_batches_that_wait_for_the_disk_are_answered_when_a_truncation_has_removed_them(ram_path: Path):
    """Else they would wait for ever, or until others have written as far as that."""
    with Log.open(ram_path / "t-0") as log:
        syncing, results = Syncing(ManualClock()), [_Result() for _ in range(3)]
        encoders = [encoded(b"x") for _ in results]
        for encoder, result in zip(encoders[:2], results, strict=False):
            first, last, time_ms, _ = log._append_encoded(encoder)
            syncing.add(log, result, first, last, time_ms, encoder.cuts)
        log.replica.truncate_to(1)
        first, last, time_ms, _ = log._append_encoded(encoders[2])
        syncing.add(log, results[2], first, last, time_ms, encoders[2].cuts)
        assert first == 1
        syncing.sync()
        assert [result.first for result in results] == [0, -1, 1]
        assert isinstance(results[1].error, AppendTruncatedError)
        assert not syncing._waiting


def test_an_encoder_whose_batch_was_removed_is_appended_again(ram_path: Path):
    with Log.open(ram_path / "t-0") as log:
        log.append([b"kept"])
        encoder = encoded(b"x")
        log._append_encoded(encoder)
        log.replica.truncate_to(1)
        # An earlier call has written it, and was interrupted before its sync.
        with pytest.raises(AppendTruncatedError):
            log._append_encoded(encoder, ack="synced")
        assert encoder.appended_at == -1
        assert log._append_encoded(encoder, ack="synced").first_offset == 1
        assert values_of(log) == [b"kept", b"x"]
