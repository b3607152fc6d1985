"""The list of aborted transactions cannot be written, or only later: their records stay hidden."""

from __future__ import annotations

import errno
import signal

import pytest

from logstore import Log
from logstore.errors import DiskFullError
from logstore.log import Marker, ProducerStamp
from logstore.log.append import flush
from logstore.log.directory.files import Directory
from logstore.log.directory.segments import Segments
from logstore.log.formats import aborted_files
from logstore.log.rolling import worker
from logstore.testing import SimDisk
from tests.kit.inside import state_of
from tests.kit.rolling import HeldTasks

PATH = "/r/t-0"


@pytest.fixture
def tasks(monkeypatch: pytest.MonkeyPatch) -> HeldTasks:
    held = HeldTasks()
    monkeypatch.setattr(worker, "worker_of", lambda files: held)
    return held


def opened(disk: SimDisk, **settings) -> Log:
    return Log.open(PATH, files=disk, retention_ms=-1, **settings)


def abort(log: Log, sequence: int, producer_id: int = 5) -> None:
    log.append([b"aborted"], producer=ProducerStamp(producer_id, 0, sequence, True))
    log.replica.append_control(Marker.ABORT, producer_id=producer_id, producer_epoch=0)


def committed(log: Log) -> list[bytes | None]:
    return [record.value for record in log.scan(isolation="read_committed")]


def shown_elsewhere(disk: SimDisk) -> list[bytes | None]:
    with Log.open(PATH, files=disk.kill(), read_only=True) as other:
        return committed(other)


def refuse_lists(disk: SimDisk, error: int = errno.ENOSPC) -> None:
    """Have no index and no note written, for want of space or descriptors."""
    for name in (".txnindex", "logstore.aborted"):
        disk.fail("open", errno=error, times=-1, path_contains=name)


@pytest.mark.parametrize("act", ["save", "sync"])
def test_an_index_without_space_is_an_error_though_the_note_has_none_either(tasks, act):
    disk = SimDisk(1)
    with opened(disk) as log:
        state = state_of(log)
        abort(log, 0)
        refuse_lists(disk)
        if act == "save":
            with pytest.raises(DiskFullError):
                state.save_aborted()
        else:
            with pytest.raises(DiskFullError), state.lock:
                state.transactions.sync()
        assert not state.transactions.is_saved
        disk.heal()


def test_a_roll_at_once_without_space_for_the_index_changes_nothing(tasks):
    disk = SimDisk(1)
    with opened(disk, segment_bytes=1000) as log:
        abort(log, 0)
        refuse_lists(disk)
        with pytest.raises(DiskFullError), state_of(log).lock:
            state_of(log).roll_locked()
        assert len(state_of(log).segments) == 1
        disk.heal()
        log.append([b"last"])
        assert committed(log) == [b"last"]
    with opened(disk) as log:
        assert committed(log) == [b"last"]


@pytest.mark.parametrize("act", ["append", "retain"])
def test_a_list_that_the_background_could_not_write_is_tried_again(tasks, act):
    disk = SimDisk(1)
    with opened(disk) as log:
        log.append([b"first"])
        abort(log, 0)
        disk.fail("open", errno=errno.EMFILE, times=-1, path_contains=".txnindex")
        tasks.run()
        log.append([b"second"])
        tasks.run()
        assert shown_elsewhere(disk) == [b"first"]
        disk.heal()
        if act == "append":
            log.append([b"third"])
            tasks.run()
        else:
            log.maintenance.retain()
        assert shown_elsewhere(disk) == [b"first", b"second", b"third"][: 3 if act == "append" else 2]


def test_the_rest_of_the_background_goes_on_without_the_list(tasks):
    disk = SimDisk(1)
    with opened(disk, segment_bytes=1000) as log:
        abort(log, 0)
        log.append([b"x" * 600])
        disk.fail("open", errno=errno.EMFILE, times=-1, path_contains=".txnindex")
        tasks.run()
        assert state_of(log).rolls.may_switch_locked()
        disk.heal()


def test_an_interrupt_while_epochs_are_saved_leaves_the_rest_of_the_follow_up_done(tasks, monkeypatch):
    with opened(SimDisk(1)) as log:
        state = state_of(log)
        monkeypatch.setattr(state.epochs, "is_saved", False)
        monkeypatch.setattr(state.durability, "save_epochs", lambda: signal.raise_signal(signal.SIGINT))
        with state.lock:
            state.ask_follow_up(rolls=True)
        with pytest.raises(KeyboardInterrupt):
            state.follow_up()
        assert tasks.tasks
        monkeypatch.undo()


def test_an_open_without_space_for_the_index_hides_the_records_from_other_processes(tasks):
    disk = SimDisk(1)
    log = opened(disk)
    log.append([b"first"])
    abort(log, 0)
    log.append([b"second"])
    killed = disk.kill()
    killed.fail("open", errno=errno.ENOSPC, times=-1, path_contains=".txnindex.tmp")
    with opened(killed) as again:
        assert committed(again) == [b"first", b"second"]
        assert shown_elsewhere(killed) == [b"first"]
        killed.heal()
        again.append([b"third"])
        tasks.run()
        assert shown_elsewhere(killed) == [b"first", b"second", b"third"]
    log.close()


def unlisted_below_sealed(disk: SimDisk, tasks: HeldTasks, error: int = errno.ENOSPC) -> Log:
    """Return a log of three segments; the second one has an aborted transaction that no file could list."""
    log = opened(disk)
    log.append([b"0"])
    abort(log, 0)
    log.maintenance.roll()
    tasks.run()
    log.append([b"3"])
    abort(log, 1)
    log.append([b"6"])
    refuse_lists(disk, error)
    log.maintenance.roll()
    tasks.run()
    return log


@pytest.mark.parametrize("offset", [3, 6])
def test_an_unlisted_abort_prevents_no_deletion_and_stays_below_the_recovery_point(tasks, offset):
    disk = SimDisk(1)
    log = unlisted_below_sealed(disk, tasks)
    assert log.metrics().recovery_point <= 3
    log.delete_before(offset)
    assert log.log_start_offset == offset
    expected = [b"3", b"6"][-1 if offset == 6 else 0 :]
    with opened(disk.crash("none")) as found:
        assert committed(found) == expected
    disk.heal()
    log.append([b"7"])
    tasks.run()
    log.flush()
    assert log.metrics().recovery_point == 8
    with opened(disk.crash("none")) as found:
        assert committed(found) == [*expected, b"7"]
    log.close()


def test_a_list_that_is_written_late_is_synced_before_the_recovery_point_rises_over_it(tasks):
    disk = SimDisk(1)
    log = unlisted_below_sealed(disk, tasks, errno.EMFILE)
    disk.heal()
    log.append([b"7"])
    tasks.run()
    # A deletion writes a recovery point, and syncs no list.
    log.delete_before(3)
    with opened(disk.crash("none")) as found:
        assert committed(found) == [b"3", b"6"]
    log.maintenance.roll()
    tasks.run()
    assert log.metrics().recovery_point == 8
    log.close()


def test_a_flush_without_space_for_the_list_leaves_the_recovery_point_though_it_is_written_meanwhile(
    tasks, monkeypatch
):
    disk = SimDisk(1)
    with opened(disk) as log:
        log.append([b"0"])
        abort(log, 0)
        refuse_lists(disk)
        honest = flush.sync_unless_dropped

        def late(segment):
            disk.heal()
            state_of(log).save_aborted()
            honest(segment)

        monkeypatch.setattr(flush, "sync_unless_dropped", late)
        log.flush()
        assert log.metrics().recovery_point == 0
        with opened(disk.crash("none")) as found:
            assert committed(found) == [b"0"]
        log.append([b"3"])
        log.flush()
        assert log.metrics().recovery_point == 4


def test_no_index_is_made_for_a_segment_that_a_truncation_has_removed(tasks, monkeypatch):
    disk = SimDisk(1)
    with opened(disk) as log:
        log.append([b"0"])
        log.maintenance.roll()
        tasks.run()
        abort(log, 0)
        transactions, directory = state_of(log).transactions, Directory(PATH, disk)
        with state_of(log).lock:
            saving = transactions._to_save()
        honest = Segments.drop

        def drop(segments, doomed):
            honest(segments, doomed)
            # As a thread in `save`, which has looked at what is missing before the truncation began.
            if saving.version == transactions._version:
                aborted_files.write(directory, saving).close()

        monkeypatch.setattr(Segments, "drop", drop)
        log.replica.truncate_to(0)
        assert "00000000000000000001.txnindex" not in directory.names()


def test_a_deletion_removes_an_index_that_is_made_meanwhile(tasks, monkeypatch):
    disk = SimDisk(1)
    with opened(disk) as log:
        abort(log, 0)
        refuse_lists(disk, errno.EMFILE)
        log.maintenance.roll()
        tasks.run()
        log.append([b"2"])
        state = state_of(log)
        honest = state.holds.keep_leaving

        def keep_leaving(*arguments):
            disk.heal()
            state.save_aborted()
            honest(*arguments)

        monkeypatch.setattr(state.holds, "keep_leaving", keep_leaving)
        log.delete_before(2)
        assert [name for name in Directory(PATH, disk).names() if name.endswith(".txnindex")] == []


def test_a_copy_lists_what_was_in_memory_alone(tasks):
    disk = SimDisk(1)
    with opened(disk) as log:
        abort(log, 0)
        log.maintenance.roll()
        log.append([b"last"])
        taken, target = log.maintenance.checkpoint(), Directory("/copy/t-0", disk)
        target.create()
        log.maintenance.copy(taken, target)
        assert log.maintenance.verify(taken, target) > 0


def test_readers_elsewhere_go_on_once_the_unlisted_abort_is_deleted(tasks):
    disk = SimDisk(1)
    log = unlisted_below_sealed(disk, tasks)
    log.append([b"7"])
    assert shown_elsewhere(disk) == [b"0", b"3"]
    log.delete_before(7)
    assert shown_elsewhere(disk) == [b"7"]
    disk.heal()
    log.close()


def test_an_abort_that_cannot_be_listed_prevents_no_truncation_while_a_roll_is_unfinished(tasks):
    disk = SimDisk(1)
    with opened(disk, segment_bytes=1000) as log:
        log.append([b"x" * 600])
        tasks.run()  # prepares the next segment
        abort(log, 0)
        refuse_lists(disk)
        log.maintenance.roll()
        end = log.append([b"cut"]).first_offset
        log.replica.truncate_to(end)
        assert log.log_end_offset == end
        disk.heal()
        log.append([b"last"])
        tasks.run()
        log.flush()
        assert log.metrics().recovery_point == end + 1
    with opened(disk) as log:
        assert committed(log) == [b"x" * 600, b"last"]


def test_a_compaction_has_its_recovery_point_above_what_a_full_disk_has_left_unlisted(tasks):
    disk = SimDisk(1)
    with opened(disk, cleanup_policy="compact", min_cleanable_dirty_ratio=0.0) as log:
        log.append([(b"k", b"0"), (b"k", b"1")])
        log.maintenance.roll()
        tasks.run()
        log.append([(b"k", b"aborted")], producer=ProducerStamp(5, 0, 0, True))
        log.replica.append_control(Marker.ABORT, producer_id=5, producer_epoch=0)
        refuse_lists(disk)
        log.flush()
        end = log.log_end_offset
        assert log.metrics().recovery_point < end
        disk.heal()
        state_of(log).save_aborted()
        log.maintenance.compact()
        assert log.metrics().recovery_point == end


def test_the_sync_of_a_close_goes_on_without_space_for_the_list(tasks):
    """Under the log's lock: another thread has appended since the flush of the close."""
    disk = SimDisk(1)
    with opened(disk) as log:
        log.append([b"first"])
        abort(log, 0)
        refuse_lists(disk)
        with state_of(log).lock:
            log._flusher.sync_locked()
        assert log.synced_end == log.log_end_offset
        assert log.metrics().recovery_point == 0
        disk.heal()
