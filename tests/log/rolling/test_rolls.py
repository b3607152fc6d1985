"""Rolls: what an append does at them, what is left to the background, and what a failure there means."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click.testing
import pytest

from logstore import Codec, Log
from logstore.batch._encode import encode
from logstore.cli.main import cli
from logstore.errors import DiskFullError, StorageFailedError
from logstore.log import maintenance
from logstore.log.cleanup import retention
from logstore.log.directory import files as log_names
from logstore.log.directory import next_segment
from logstore.log.directory.files import Directory
from logstore.log.directory.next_segment import name_after
from logstore.log.durability import Durability
from logstore.log.formats.recovery_point import RecoveryPointFile
from logstore.log.rolling import rolls, worker
from logstore.log.state import State
from logstore.log.tools import repair, verify
from logstore.testing import FaultyFiles
from tests.kit.inside import state_of
from tests.kit.logs import crashed_copy, log_files, values_of
from tests.kit.rolling import HeldTasks

SEGMENT = 4_000
DAY_MS = 86_400_000
VALUE = b"v" * 400  # about eight of them fill a segment


@pytest.fixture
def background(monkeypatch):
    held = HeldTasks()
    monkeypatch.setattr(worker, "worker_of", lambda files: held)
    return held


@pytest.fixture
def files():
    return FaultyFiles()


def open_log(tmp_path: Path, files=None, **settings) -> Log:
    options = {} if files is None else {"files": files}
    return Log.open(tmp_path / "t-0", segment_bytes=SEGMENT, **options, **settings)


def until_rolled(log: Log) -> int:
    rolls_before, count = log.metrics().counters["rolls"], 0
    while log.metrics().counters["rolls"] == rolls_before:
        log.append([VALUE])
        count += 1
    return count


def half_full(log: Log) -> None:
    while log.maintenance.segments[-1].size < SEGMENT // 2:
        log.append([VALUE])


def test_an_append_that_rolls_writes_and_does_nothing_else(tmp_path, files, background):
    with open_log(tmp_path, files) as log:
        log.append([VALUE])
        half_full(log)
        background.run()
        before = files.counts()
        until_rolled(log)
        log.append([VALUE])
        calls = {name for name, count in files.counts().items() if count > before.get(name, 0)}
        assert calls == {"pwrite"}
        background.run()
        after = {name for name, count in files.counts().items() if count > before.get(name, 0)}
        assert {"fdatasync", "fsync_dir", "rename"} <= after
        assert sorted(log_files(log)) == [segment.base_offset for segment in log.maintenance.segments]


def test_the_background_raises_the_recovery_point_over_the_sealed_segment(tmp_path, background):
    with open_log(tmp_path) as log:
        half_full(log)
        background.run()
        until_rolled(log)
        base = log.maintenance.segments[-1].base_offset
        assert log.synced_end == 0
        background.run()
        assert log.synced_end == log.metrics().recovery_point == base


@pytest.mark.parametrize("most", [rolls.MOST_UNSYNCED, pytest.param(99, id="planted")])
def test_at_most_two_sealed_segments_are_unsynced_and_appends_that_wait_are_counted(
    tmp_path, background, monkeypatch, most
):
    monkeypatch.setattr(rolls, "MOST_UNSYNCED", most)
    seen = 0
    with open_log(tmp_path) as log:
        for _ in range(60):
            log.append([VALUE])
            seen = max(seen, len(state_of(log).unsynced.segments))
        waits = log.metrics().counters["roll_waits"]
        assert values_of(log) == [VALUE] * 60
    is_kept = seen <= 2 and waits > 0
    assert is_kept == (most == 2)


def test_records_in_a_file_that_has_no_final_name_yet_are_there_after_a_kill(tmp_path, background):
    log = open_log(tmp_path)
    half_full(log)
    background.run()
    until_rolled(log)
    log.append([b"newest"], ack="synced")
    sealed = log.maintenance.segments[-2].base_offset
    assert name_after(sealed) in os.listdir(log.path)
    copy = crashed_copy(log, tmp_path / "copy")
    # A reader of the killed log finds them, too, and changes nothing.
    with Log.open(copy / "t-0", read_only=True) as reader:
        assert values_of(reader) == values_of(log)
    with Log.open(copy / "t-0", segment_bytes=SEGMENT) as again:
        assert values_of(again) == values_of(log)
        assert again.append([b"next"]).first_offset == log.log_end_offset
        assert name_after(sealed) not in os.listdir(again.path)
    log.close()


@pytest.mark.parametrize("left", [b"", b"\0" * 10, b"\0" * 200])
def test_a_prepared_file_without_a_batch_is_removed(tmp_path, left):
    with open_log(tmp_path) as log:
        log.append([VALUE])
    (tmp_path / "t-0" / name_after(0)).write_bytes(left)
    (tmp_path / "t-0" / name_after(77)).write_bytes(b"of a segment that is gone")
    with Log.open(tmp_path / "t-0", read_only=True) as reader:
        assert values_of(reader) == [VALUE]
    with open_log(tmp_path) as log:
        assert values_of(log) == [VALUE]
        assert not [name for name in os.listdir(log.path) if "after" in name]


def test_a_closed_log_has_no_prepared_file(tmp_path, background):
    log = open_log(tmp_path)
    half_full(log)
    background.run()
    assert name_after(0) in os.listdir(log.path)
    log.close()
    assert not [name for name in os.listdir(log.path) if "after" in name]
    with open_log(tmp_path) as log:
        assert log.maintenance.was_clean


def test_a_reader_in_another_process_follows_over_a_roll_under_both_names(tmp_path, background):
    with open_log(tmp_path) as log:
        half_full(log)
        with Log.open(log.path, read_only=True) as reader, Log.open(log.path, read_only=True) as late:
            background.run()
            until_rolled(log)
            assert values_of(reader) == values_of(log)
            background.run()
            log.append([b"newest"])
            assert values_of(reader) == values_of(log) == values_of(late)
            with Log.open(log.path, read_only=True) as third:
                assert values_of(third) == values_of(log)


def test_a_failed_background_sync_fails_the_log_and_later_appends_say_why(tmp_path, files, background):
    log = open_log(tmp_path, files)
    log.append([b"safe"], ack="synced")
    half_full(log)
    background.run()
    until_rolled(log)
    synced = log.synced_end
    files.fail("fdatasync", path_contains=".log")
    background.run()
    with pytest.raises(StorageFailedError, match="sync"):
        log.append([b"refused"])
    assert log.synced_end == synced
    with pytest.raises(StorageFailedError):
        log.flush()
    log.close()
    with open_log(tmp_path) as again:
        assert values_of(again)[0] == b"safe"


def test_a_full_disk_refuses_the_next_segment_and_the_log_goes_on(tmp_path, files, background):
    with open_log(tmp_path, files) as log:
        half_full(log)
        files.fail("open", errno=28, path_contains="logstore.after-", times=-1)
        background.run()
        with pytest.raises(DiskFullError):
            until_rolled(log)
        count = log.log_end_offset
        files.heal()
        assert log.append([b"room again"]).first_offset == count
        background.run()


@pytest.mark.parametrize("operation", ["rename", "pwrite"])
def test_a_log_on_a_full_disk_closes_with_all_its_records_and_the_next_open_finishes_the_roll(
    tmp_path, files, background, caplog, operation
):
    """A rename may need a block for its directory, and the index files of the sealed segment need some."""
    log = open_log(tmp_path, files)
    half_full(log)
    background.run()
    until_rolled(log)
    log.append([b"newest"])
    end, expected = log.log_end_offset, values_of(log)
    files.fail(operation, errno=28, times=-1)
    synced_before = log.synced_end
    log.close()
    assert synced_before < end
    assert "without the mark of a clean stop" in caplog.text
    files.heal()
    with open_log(tmp_path, files) as again:
        assert not again.maintenance.was_clean
        assert values_of(again) == expected
        assert again.append([b"next"]).first_offset == end


def test_a_truncation_removes_a_file_that_was_prepared_for_another_segment(tmp_path, background):
    with open_log(tmp_path) as log:
        half_full(log)
        background.run()
        until_rolled(log)
        background.run()
        half_full(log)
        background.run()
        base = log.maintenance.segments[-1].base_offset
        assert name_after(base) in os.listdir(log.path)
        log.replica.truncate_to(base - 1)
        assert name_after(base) not in os.listdir(log.path)
        log.append([b"on"])
        assert values_of(log)[-1] == b"on"


@pytest.mark.threads
def test_threads_finish_rolls_while_others_append_and_read(tmp_path):
    with open_log(tmp_path) as log:
        ends = []

        def append() -> None:
            for _ in range(150):
                ends.append(log.append([VALUE]).first_offset)

        threads = [threading.Thread(target=append) for _ in range(3)]
        for thread in threads:
            thread.start()
        with Log.open(log.path, read_only=True) as reader:
            while any(thread.is_alive() for thread in threads):
                count = sum(1 for _ in reader.scan())
                assert count <= log.log_end_offset
        for thread in threads:
            thread.join()
        assert sorted(ends) == list(range(450))
        assert len(values_of(log)) == 450
    with open_log(tmp_path) as again:
        assert again.maintenance.was_clean
        assert len(values_of(again)) == 450


def rolls_under_the_lock(monkeypatch, tmp_path, how: str) -> tuple[int, int]:
    """Eight threads that fill segments faster than one thread prepares them: (rolls under the lock, all rolls)."""
    at_once = State._roll_at_once_locked
    counted: list[int] = []

    def counting(state, begin):
        counted.append(1)
        at_once(state, begin)

    monkeypatch.setattr(State, "_roll_at_once_locked", counting)
    encoded = bytes(encode([VALUE]))
    with open_log(tmp_path) as log:
        appends = {
            "append": lambda: log.append([VALUE]),
            "append_many": lambda: log.append([VALUE] * 5),
            "codec": lambda: log.append([VALUE], timestamp=1, codec=Codec.LZ4),
            "append_batch": lambda: log.replica.append_batch(encoded),
            "append_batch, checked": lambda: log.replica.append_batch(bytearray(encoded)),
            "append_turn": lambda: log.replica.append_turn([encoded] * 3),
            "append_run": lambda: log.replica.append_run(bytearray(encoded * 3), max_timestamp_ms=0),
        }

        def fill() -> None:
            for _ in range(150):
                appends[how]()

        with ThreadPoolExecutor(8) as pool:
            for done in [pool.submit(fill) for _ in range(8)]:
                done.result()
        return len(counted), log.metrics().counters["rolls"]


WAYS = ["append", "append_many", "codec", "append_batch", "append_batch, checked", "append_turn", "append_run"]


@pytest.mark.parametrize("how", WAYS)
def test_no_append_of_many_threads_rolls_under_the_lock(monkeypatch, tmp_path, how):
    under_the_lock, all_rolls = rolls_under_the_lock(monkeypatch, tmp_path, how)
    assert under_the_lock == 0
    assert all_rolls > 20


@pytest.mark.parametrize("how", ["append", "append_batch, checked"])
def test_planted_an_append_that_has_waited_often_enough_rolls_under_the_lock(monkeypatch, tmp_path, how):
    monkeypatch.setattr(State, "must_wait_locked", lambda state, size, span, newest: False)
    for attempt in range(10):  # it takes threads that meet
        (tmp_path / str(attempt)).mkdir()
        if rolls_under_the_lock(monkeypatch, tmp_path / str(attempt), how)[0]:
            return
    pytest.fail("no append has rolled under the lock")


def test_tools_find_the_records_of_a_roll_that_a_kill_has_interrupted(tmp_path, background):
    """The newest segment has the name of a prepared file, until the next open for writing."""
    with open_log(tmp_path) as log:
        half_full(log)
        background.run()
        until_rolled(log)
        end = log.log_end_offset
        killed = crashed_copy(log, tmp_path.with_name("killed")) / "t-0"
    directory = Directory(killed)
    base = next_segment.base_offsets(directory)[-1]
    name = next_segment.segment_name(directory, base)
    assert name == name_after(0)
    assert name in directory.names()
    examined = verify.find(killed)
    assert list(examined.bases) == [0, base]
    assert not list(verify.verify(examined, deep=True))
    assert [facts.path for facts in verify.segments(examined)][-1] == directory.join(name)
    assert verify.find(directory.join(name)).bases == (base,)
    assert not verify.gaps(directory)
    dumped = click.testing.CliRunner().invoke(cli, ["segment", "dump", str(killed)])
    assert dumped.exit_code == 0, dumped.output
    assert len(dumped.output.splitlines()) == end
    repair.rebuild_indexes(examined)
    assert sorted(log_names.base_offsets(directory.names())) == [0, base]
    assert not list(verify.verify(verify.find(killed), deep=True))


def test_a_deletion_of_every_record_leaves_the_new_segment_under_its_final_name(tmp_path, background):
    """Under its first name, which names the deleted segment, nothing would find it after a kill."""
    with open_log(tmp_path) as log:
        half_full(log)
        background.run()
        end = log.log_end_offset
        log.delete_before(end)
        assert sorted(log_files(log)) == [end]
        log.append([b"next"])
        copy = crashed_copy(log, tmp_path.with_name("deleted"))
    with Log.open(copy / "t-0", read_only=True) as reader:
        assert values_of(reader) == [b"next"]
    with Log.open(copy / "t-0") as again:
        assert (again.log_start_offset, values_of(again)) == (end, [b"next"])


@pytest.mark.parametrize("attempts", [3, pytest.param(1, id="planted")])
@pytest.mark.parametrize("call", ["roll", "retain"])
def test_a_roll_prepares_once_more_when_an_append_has_taken_what_was_prepared(
    tmp_path, background, monkeypatch, call, attempts
):
    monkeypatch.setattr(maintenance, "READY_ATTEMPTS", attempts)
    monkeypatch.setattr(retention, "READY_ATTEMPTS", attempts)
    under_the_lock = []
    at_once = State._roll_at_once_locked
    monkeypatch.setattr(
        State, "_roll_at_once_locked", lambda *given: (under_the_lock.append(call), at_once(*given))[1]
    )
    with open_log(tmp_path, segment_ms=DAY_MS, retention_ms=-1) as log:
        log.append([VALUE])
        state = state_of(log)
        get_ready, made = state.get_ready_to_roll, []

        def overtaken() -> None:
            get_ready()
            made.append(call)
            if len(made) == 1:
                until_rolled(log)

        monkeypatch.setattr(state, "get_ready_to_roll", overtaken)
        if call == "roll":
            log.maintenance.roll()
        else:
            assert log.maintenance.retain(state.clock.now_ms() + 3 * DAY_MS).rolled
        assert log.maintenance.segments[-1].size == 0
        assert len(under_the_lock) == (attempts == 1)


def is_free(log: Log) -> bool:
    """Whether another thread gets the log's lock now."""
    got = threading.Event()

    def take() -> None:
        with state_of(log).lock:
            got.set()

    threading.Thread(target=take, daemon=True).start()
    return got.wait(0.5)


def first_append_after_a_clean_close(monkeypatch, tmp_path) -> list[bool]:
    """Whether the lock was free at each durable write of a recovery point."""
    open_log(tmp_path).close()
    with open_log(tmp_path) as log:
        log.append([VALUE])
    honest, free = RecoveryPointFile.write_durably, []

    def write(file, point):
        free.append(is_free(log))
        honest(file, point)

    with open_log(tmp_path) as log:
        monkeypatch.setattr(RecoveryPointFile, "write_durably", write)
        log.append([VALUE])
        monkeypatch.undo()
    return free


def test_the_first_append_after_a_clean_close_removes_the_mark_without_the_lock(monkeypatch, tmp_path):
    assert first_append_after_a_clean_close(monkeypatch, tmp_path) == [True]


def test_planted_a_clean_mark_that_goes_under_the_lock_is_found(monkeypatch, tmp_path):
    monkeypatch.setattr(Durability, "unmark", lambda durability: None)
    assert first_append_after_a_clean_close(monkeypatch, tmp_path) == [False]
