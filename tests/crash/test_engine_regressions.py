"""Regressions of the engine: syncs, rolls, interrupts and full disks, each as the smallest case that shows it."""

from __future__ import annotations

import contextlib
import errno
import random
import sys
import threading

import pytest

from logstore import Log
from logstore._segment import Segment
from logstore.errors import (
    DiskFullError,
    NotSyncedError,
    OffsetOutOfRangeError,
    RecordTooLargeError,
    StorageError,
    StorageFailedError,
)
from logstore.io._files import LIBC
from logstore.log import Marker, ProducerStamp
from logstore.log.directory import files as names
from logstore.testing._faults import FaultyFiles
from tests.crash.histories import PARTITION, History, expect, image_of, quick_files, restore
from tests.kit.files import cut
from tests.kit.inside import finish_rolls, published_generation, state_of
from tests.kit.logs import one_batch, open_log

pytestmark = [pytest.mark.crash, pytest.mark.row("S20", part="recovery, step by step")]

#: How long a thread that must not go on is given to do so. A test that holds passes however slow it is.
A_MOMENT_S = 0.3


@contextlib.contextmanager
def held_syncs(files, path_contains=""):
    """Syncs stand still until the block ends, however it ends: a thread that waits would outlive the test."""
    files.hold_syncs(path_contains)
    try:
        yield
    finally:
        files.release_syncs()


def values(log, **scan) -> list[bytes]:
    return [record.value for record in log.scan(**scan)]


def reopened(image, root, **settings):
    return Log.open(restore(image, root), files=quick_files(), **settings)


# --- syncs that meet --------------------------------------------------------------------------


def test_a_thread_that_finds_a_file_clean_waits_for_the_sync_that_made_it_so(ram_path):
    """It went on at once, and the sync under way failed after that."""
    files = FaultyFiles()
    file = files.open(str(ram_path / "f"), create=True, writable=True)
    file.write(b"v", 0)
    files.fail("fdatasync", 1)
    outcomes: list[str] = []

    def sync():
        try:
            file.sync()
        except StorageFailedError:
            outcomes.append("failed")
        else:
            outcomes.append("synced")

    with held_syncs(files):
        first = threading.Thread(target=sync)
        first.start()
        while not files.held_syncs():
            first.join(0.001)
        second = threading.Thread(target=sync)
        second.start()
        second.join(A_MOMENT_S)
        early = list(outcomes)
    first.join()
    second.join()
    assert early == []
    assert outcomes == ["failed", "failed"]
    assert files.counts()["fdatasync"] == 1


@pytest.mark.threads
def test_a_roll_beside_a_flush_whose_sync_fails_promises_nothing(ram_path):
    """The roll found the file clean, and raised the recovery point over what did not reach the disk."""
    files = FaultyFiles()
    log = Log.open(ram_path / PARTITION, files=files)
    log.append([b"safe"], ack="synced")
    log.append([b"lost"])
    files.fail("fdatasync", 1, path_contains=".log")
    errors: list[StorageFailedError] = []

    def attempt(call):
        try:
            call()
        except StorageFailedError as error:
            errors.append(error)

    with held_syncs(files, ".log"):
        flusher = threading.Thread(target=attempt, args=(log.flush,))
        flusher.start()
        while not files.held_syncs():
            flusher.join(0.001)
        log.maintenance.roll()
        log.append([b"more"])
        # Two segments are not on disk after this one.
        log.maintenance.roll()
        log.append([b"and more"])
        # This one needs the first segment on disk.
        roller = threading.Thread(target=attempt, args=(log.maintenance.roll,))
        roller.start()
        roller.join(A_MOMENT_S)
    flusher.join()
    roller.join()
    assert len(errors) == 2
    assert log.metrics().recovery_point == log.synced_end == 1
    log.close()


@pytest.mark.threads
def test_a_flush_that_was_overtaken_by_a_roll_does_not_lower_the_recovery_point(ram_path):
    files = FaultyFiles()
    with Log.open(ram_path / PARTITION, files=files) as log:
        log.append([b"a"])
        with held_syncs(files, ".log"):
            flusher = threading.Thread(target=log.flush)
            flusher.start()
            while not files.held_syncs():
                flusher.join(0.001)
            log.append([b"b"])
            log.maintenance.roll()
            log.append([b"c"])
            log.maintenance.roll()
        flusher.join()
        finish_rolls(log)
        # The flush was to sync up to 1; the rolls have synced up to 3.
        assert log.synced_end == log.metrics().recovery_point == 3


# --- an interrupted change --------------------------------------------------------------------


class Interrupted(BaseException):
    """A Ctrl-C."""


def interrupt(*args, **kwargs):
    raise Interrupted


CHANGES = {
    "append": (lambda log: log.append([b"x"]), [("segments.active", "append"), ("durability", "save_epochs")]),
    "producer": (
        lambda log: log.append([b"x"], producer=ProducerStamp(9, 0, 0, True)),
        [("transactions", "apply"), ("", "move_marks_locked")],
    ),
    "roll": (lambda log: log.maintenance.roll(), [("segments", "begin"), ("transactions", "begin_segment")]),
    "truncate": (
        lambda log: log.replica.truncate_to(3),
        [("recovery", "write_durably"), ("segments", "trim_index_files"), ("unsynced", "names_changed")],
    ),
    "delete": (
        lambda log: log.delete_before(4),
        [
            ("durability", "promise"),
            ("", "publish_locked"),
            ("segments.detached", "add"),
            ("segments.detached", "put_aside"),
            ("segments.detached", "unlink"),
        ],
    ),
    "flush": (lambda log: log.flush(), [("", "append_locked"), ("mode", "drop_head")]),
}


class Replaced:
    """An object with one of its methods interrupted, which compiled ones cannot have replaced."""

    def __init__(self, inner, method: str) -> None:
        self.__dict__.update(inner=inner, method=method)

    def __getattr__(self, name):
        return interrupt if name == self.method else getattr(self.inner, name)

    def __setattr__(self, name, value):
        setattr(self.inner, name, value)

    def __len__(self):
        return len(self.inner)


#: What a signal may cut off: the others are made where none comes, and only an error of their own ends them.
APPENDS = ("append", "producer")


@pytest.mark.parametrize("change, place", [(change, place) for change in APPENDS for place in CHANGES[change][1]])
def test_an_append_that_is_interrupted_half_way_is_in_the_log_whole_or_not_at_all(
    ram_path, monkeypatch, change, place
):
    """It failed the log, so that a Ctrl-C in a loop of appends was its end."""
    with Log.open(ram_path / PARTITION, segment_bytes=200) as log:
        for n in range(6):
            log.append([b"%d" % n * 40])
        state = state_of(log)
        owner, method = place
        if method == "save_epochs":
            state.epochs.is_saved, state.has_work = False, True
        target = state
        for part in filter(None, owner.split(".")):
            target = getattr(target, part)
        if method in ("append", "move_marks_locked"):
            # These are steps of the append in Python; an unknown epoch makes the compiled one leave it to that.
            state.note_epoch(-1)
        with monkeypatch.context() as patched:
            if owner == "segments.active":
                patched.setattr(type(state.segments), "active", property(lambda _: Replaced(target, method)))
            else:
                once = [interrupt]
                held_back = getattr(target, method)
                patched.setattr(target, method, lambda *a, **k: (once.pop() if once else held_back)(*a, **k))
            with pytest.raises(Interrupted):
                CHANGES[change][0](log)
        known = [b"%d" % n * 40 for n in range(6)]
        assert values(log) in (known, [*known, b"x"])
        end = log.log_end_offset
        assert end == log.high_watermark == len(values(log))
        # The sequence is known if the batch is there, and free if it is not.
        assert log.append([b"x"], producer=ProducerStamp(9, 0, 0)).first_offset in (6, end)
        assert log.append([b"y"], ack="synced").first_offset == log.log_end_offset - 1


@pytest.mark.parametrize(
    "change, place",
    [(change, place) for change, (_, at) in CHANGES.items() if change not in APPENDS for place in at],
)
def test_a_change_that_is_ended_half_way_fails_the_log(ram_path, monkeypatch, change, place):
    """It went on with an end, an index and a producer that belonged to different moments."""
    settings = {"segment_bytes": 200, **({"tail": "memory"} if change == "flush" else {})}
    settings = {("logstore.tail" if k == "tail" else k): v for k, v in settings.items()}
    files = quick_files()
    log = Log.open(ram_path / "w" / PARTITION, files=files, config=settings)
    for n in range(6):
        log.append([b"%d" % n * 40])
    if change != "flush":
        log.flush()
    state = state_of(log)
    act = CHANGES[change][0]
    owner, method = place
    target = state
    for part in filter(None, owner.split(".")):
        target = getattr(target, part)
    with monkeypatch.context() as patched:
        patched.setattr(target, method, interrupt, raising=True)
        with pytest.raises(Interrupted):
            act(log)
    for again in (lambda: log.append([b"y"]), log.maintenance.roll, log.flush, lambda: log.replica.truncate_to(1)):
        with pytest.raises(StorageFailedError):
            again()
    image = image_of(ram_path / "w")
    log.close()
    for left in (image, image_of(ram_path / "w")):
        with reopened(left, ram_path / "r", config=settings) as log:
            end = log.log_end_offset
            found = values(log)
            assert [v for v in found if v != b"x"] == [b"%d" % n * 40 for n in range(log.log_start_offset, end)][
                : len([v for v in found if v != b"x"])
            ]
            assert end >= (0 if change == "flush" else 3 if change == "truncate" else 6)
            assert log.append([b"next"], ack="synced").first_offset == end


def test_a_change_that_our_own_error_ends_leaves_the_log_usable(ram_path):
    files = FaultyFiles()
    with Log.open(ram_path / PARTITION, files=files) as log:
        log.append([b"a"])
        files.fail("pwrite", 1, errno.ENOSPC, path_contains=".log")
        with pytest.raises(DiskFullError):
            log.append([b"b"])
        with pytest.raises(RecordTooLargeError):
            log.append([b"x" * 2_000_000])
        assert log.append([b"b"]).first_offset == 1


# --- a disk that runs full --------------------------------------------------------------------


def test_a_full_disk_under_a_memory_tail_keeps_the_records_and_says_not_synced(ram_path):
    """DiskFullError said "nothing is in the log, append again", and the record was there twice."""
    files = FaultyFiles()
    log = Log.open(ram_path / PARTITION, {"logstore.tail": "memory"}, files=files)
    files.fail("pwrite", 1, errno.ENOSPC, path_contains=".log", times=2)
    with pytest.raises(NotSyncedError, match="do not append them again") as caught:
        log.append([b"a", b"b"], ack="synced")
    assert not isinstance(caught.value, DiskFullError)
    assert not caught.value.retriable
    assert (log.log_end_offset, log.high_watermark, log.synced_end) == (2, 0, 0)
    with pytest.raises(DiskFullError):
        log.flush()
    # Without a wish for the disk the append is done: the records wait with the others.
    log.append([b"c"])
    log.flush()
    assert (values(log), log.synced_end) == ([b"a", b"b", b"c"], 3)
    log.close()
    with Log.open(ram_path / PARTITION) as log:
        assert values(log) == [b"a", b"b", b"c"]


def test_a_memory_tail_that_filled_a_disk_between_two_batches_of_one_append_writes_none_twice(ram_path):
    files = FaultyFiles()
    settings = {"logstore.tail": "memory", "segment.bytes": 1_000}
    log = Log.open(ram_path / PARTITION, settings, files=files)
    sent = [b"%03d" % n * 30 for n in range(60)]
    log.append(sent)
    for _ in range(3):
        files.fail("pwrite", 2, errno.ENOSPC, path_contains=".log")
        with pytest.raises(DiskFullError):
            log.flush()
        files.heal()
    log.flush()
    assert values(log) == sent
    log.close()
    with Log.open(ram_path / PARTITION) as log:
        assert values(log) == sent


def test_a_full_disk_keeps_no_caller_from_deleting(ram_path):
    """A new name may need a block of the directory: the files stayed, and a second try found nothing to do."""
    files = FaultyFiles()
    log = Log.open(ram_path / PARTITION, files=files, segment_bytes=200)
    history = History(log, random.Random(1))
    for _ in range(6):
        history.append(2, producer_id=7)
    segments = len(list((ram_path / PARTITION).glob("*.log")))
    # In-place writes of what is there already still succeed.
    for op in ("rename", "mkdir", "fallocate"):
        files.fail(op, 1, errno.ENOSPC, times=-1)
    files.fail("pwrite", 1, errno.ENOSPC, times=-1, path_contains=".tmp")
    assert log.delete_before(8) == 8
    left = {path.name for path in (ram_path / PARTITION).iterdir()}
    assert len([name for name in left if name.endswith(".log")]) < segments
    first = min(name for name in left if name.endswith(".log"))
    assert not [name for name in left if name[:20].isdigit() and name < first[:20]]
    assert history.append(1).first == 12
    expect(log, history.sent, 8)
    files.heal()
    history.append(1, producer_id=7, ack="synced")
    log.close()
    with Log.open(ram_path / PARTITION) as log:
        expect(log, history.sent, 8)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
@pytest.mark.parametrize("act", ["flush", "roll", "truncate", "delete"])
def test_a_sync_that_fails_for_want_of_space_is_final_too(ram_path, number, act):
    """As a full disk it was answered with "free some space and try again", and the second sync lied."""
    files = FaultyFiles()
    log = Log.open(ram_path / PARTITION, files=files)
    for n in range(6):
        log.append([b"%d" % n])
    files.fail("fdatasync", 1, number, path_contains="" if act in ("truncate", "delete") else ".log")
    with pytest.raises(StorageFailedError) as caught:
        {
            "flush": log.flush,
            # The sync is the background's, and the next call says that it has failed.
            "roll": lambda: (log.maintenance.roll(), log.append([b"6"])),
            "truncate": lambda: log.replica.truncate_to(3),
            "delete": lambda: log.delete_before(3),
        }[act]()
    assert not isinstance(caught.value, DiskFullError)
    syncs = files.counts()["fdatasync"]
    for again in (log.flush, log.maintenance.roll, lambda: log.append([b"x"], ack="synced")):
        with pytest.raises(StorageFailedError):
            again()
    log.close()
    assert files.counts()["fdatasync"] == syncs
    with Log.open(ram_path / PARTITION) as log:
        assert log.synced_end == log.log_end_offset


# --- the aborted index ------------------------------------------------------------------------


def test_an_aborted_index_that_could_not_be_written_is_written_again_before_anything_is_promised(ram_path):
    """A missing entry means "not aborted": the recovery point had risen over it, so nothing rebuilt it."""
    files = FaultyFiles()
    log = Log.open(ram_path / "w" / PARTITION, files=files)
    log.append([b"aborted"], producer=ProducerStamp(5, 0, 0, True))
    files.fail("pwrite", 1, errno.ENOSPC, path_contains=".txnindex", times=-1)
    log.replica.append_control(Marker.ABORT, producer_id=5, producer_epoch=0)
    log.append([b"plain"])
    log.flush()
    assert log.metrics().recovery_point == 0, "no promise without the index"
    with reopened(image_of(ram_path / "w"), ram_path / "r") as copy:
        assert values(copy, isolation="read_committed") == [b"plain"]
    files.heal()
    files.record()
    log.append([b"more"], ack="synced")
    assert log.metrics().recovery_point == 4
    calls = [(op, path.rpartition("/")[2]) for op, path, *_ in files.recorded()]
    steps = [
        ("pwrite", f"{0:020d}.txnindex.tmp"),
        ("fdatasync", f"{0:020d}.txnindex.tmp"),
        ("rename", f"{0:020d}.txnindex"),
        ("fsync_dir", PARTITION),
        ("pwrite", "logstore.recovery"),
    ]
    places = [calls.index(step) for step in steps]
    assert places == sorted(places)
    image = image_of(ram_path / "w")
    log.close()
    with reopened(image, ram_path / "s") as log:
        assert values(log, isolation="read_committed") == [b"plain", b"more"]


def test_the_aborted_index_is_replaced_durably_by_a_truncation(ram_path):
    files = FaultyFiles()
    with Log.open(ram_path / PARTITION, files=files) as log:
        for sequence in range(2):
            log.append([b"aborted"], producer=ProducerStamp(5, 0, sequence, True))
            log.replica.append_control(Marker.ABORT, producer_id=5, producer_epoch=0)
        files.record()
        log.replica.truncate_to(2)
        calls = [(op, path.rpartition("/")[2]) for op, path, *_ in files.recorded()]
        renamed = calls.index(("rename", f"{0:020d}.txnindex"))
        assert ("fdatasync", f"{0:020d}.txnindex.tmp") in calls[:renamed]
        assert ("fsync_dir", PARTITION) in calls[renamed:]
        assert values(log, isolation="read_committed") == []


# --- readers beside a recovery ----------------------------------------------------------------


@pytest.mark.parametrize("why", ["a torn tail", "a failed sync"])
def test_a_reader_looks_again_when_a_recovery_has_replaced_files(ram_path, why):
    """It went on in the file of before, whose bytes are not written any more."""
    files = FaultyFiles()
    log = Log.open(ram_path / PARTITION, files=files)
    for n in range(4):
        log.append([b"old %d" % n])
    if why == "a failed sync":
        files.fail("fdatasync", 1, path_contains=".log")
        with pytest.raises(StorageFailedError):
            log.flush()
    root = ram_path / "r"
    path = restore(image_of(ram_path), root)
    log.close()
    with Log.open(path, read_only=True) as reader:
        assert len(values(reader)) == 4
        generation = published_generation(reader)
        if why == "a torn tail":
            cut(path / f"{0:020d}.log", -1)
        with Log.open(path, files=quick_files()) as log:
            kept = log.log_end_offset
            log.append([b"new"])
            assert reader.read(kept).values() == [b"new"]
            assert values(reader) == values(log)
            assert published_generation(reader) > generation


def test_a_released_region_gives_its_file_back(ram_path):
    """A pin that stayed kept the descriptor of a deleted segment open, and its bytes on the disk."""
    files = quick_files()
    with Log.open(ram_path / PARTITION, files=files) as log:
        log.append([b"a"])
        log.maintenance.roll()
        log.append([b"b"])
        before = files.open_descriptors
        held, dropped = log.replica.locate(0), log.replica.locate(0)
        log.delete_before(1)
        assert len(held.read()) == len(held)
        with pytest.raises(StorageError):
            raise StorageError("whose traceback holds on to this frame")
        held.close()
        del dropped
        assert files.open_descriptors < before


@pytest.mark.parametrize("failing", ["no room", "no disk"])
def test_an_append_that_failed_holds_no_buffer_of_its_caller(ram_path, failing):
    """The traceback of the error held on to a view, and the encoder's bytes could not be used again."""
    files = FaultyFiles()
    log = Log.open(ram_path / PARTITION, files=files, segment_bytes=300)
    number = errno.ENOSPC if failing == "no room" else errno.EIO
    files.fail("pwrite", 3, number, path_contains=".log")
    caught = []
    for _ in range(2):
        try:
            log.append([b"x" * 100] * 8)
        except StorageError as error:
            caught.append(error)
    assert isinstance(caught[0], DiskFullError if failing == "no room" else StorageFailedError)
    assert len(caught) == (1 if failing == "no room" else 2)
    log.close()


# --- names ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["99999999999999999999.log", f"{2**63:020d}.log"])
def test_twenty_digits_that_are_no_offset_name_no_segment(ram_path, name):
    """They were taken for one, whose base offset does not fit 64 bits: an OverflowError."""
    assert names.base_offsets([f"{2**63 - 1:020d}.log", name]) == [2**63 - 1]
    assert names.foreign_names([name]) == [name]
    with Log.open(ram_path / PARTITION) as log:
        log.append([b"v"])
    (ram_path / PARTITION / name).write_bytes(b"")
    with pytest.raises(names.NotALogError, match=name):
        Log.open(ram_path / PARTITION)
    with Log.open(ram_path / PARTITION, read_only=True) as reader:
        assert values(reader) == [b"v"]


@pytest.mark.parametrize("clean", [True, False])
def test_a_snapshot_that_is_older_than_the_first_segment_is_not_gone_on_from(ram_path, clean):
    """What was written between the two is deleted: a sequence looked missing, and the producer was refused."""
    files = quick_files()
    log = Log.open(ram_path / "w" / PARTITION, files=files)
    log.append([b"0"], producer=ProducerStamp(7, 0, 0))
    log.maintenance.roll()
    keep = image_of(ram_path / "w")
    for sequence in range(1, 4):
        log.append([b"%d" % sequence], producer=ProducerStamp(7, 0, sequence))
    log.maintenance.roll()
    log.append([b"4"], producer=ProducerStamp(8, 0, 0))
    log.delete_before(4)
    if clean:
        log.close()
    image = image_of(ram_path / "w")
    log.close()
    hints = (".snapshot", "logstore.producers")
    image = {name: data for name, data in image.items() if not name.endswith(hints)}
    image |= {name: data for name, data in keep.items() if name.endswith(".snapshot")}
    with reopened(image, ram_path / "r") as log:
        assert log.log_start_offset == 4
        assert not log.append([b"5"], producer=ProducerStamp(7, 0, 4)).duplicate


@pytest.mark.parametrize("start", [0, 5])
def test_the_names_that_a_truncation_takes_away_are_gone_for_good_on_return(ram_path, start):
    """A power cut brought the segments back, behind an end that had been given again."""
    files = FaultyFiles()
    log = Log.open(ram_path / PARTITION, files=files, segment_bytes=200)
    history = History(log, random.Random(1))
    for _ in range(6):
        history.append(2)
    log.delete_before(start)
    log.flush()
    files.record()
    # At 5 the batch that holds the log start goes, and with it the last segment: another begins there.
    log.replica.truncate_to(start or 3)
    calls = [(op, path.rpartition("/")[2]) for op, path, *_ in files.recorded()]
    segments = [place for place, (op, name) in enumerate(calls) if op in ("rename", "unlink") and ".log" in name]
    assert ("fsync_dir", PARTITION) in calls[max(segments) :]
    promised = calls.index(("fdatasync", "logstore.recovery"))
    assert promised < min(place for place, (op, _) in enumerate(calls) if op in ("rename", "unlink", "ftruncate"))
    expect(log, [batch for batch in history.sent if batch.last < 3] if not start else [], start)
    log.close()


@pytest.mark.parametrize("what", ["file", "segment"])
def test_a_write_that_ends_during_a_sync_leaves_its_file_unsynced(tmp_path, what):
    """The mark was set before the write alone: a sync beside it took it away, and the bytes were not synced."""
    data = one_batch([bytes(1 << 20) for _ in range(64)])
    for attempt in range(50):
        file = LIBC.open(str(tmp_path / f"{attempt:020d}.log"), create=True, writable=True)
        segment = Segment(file, attempt)
        write = {
            "file": lambda file=file: file.write(data, 0),
            "segment": lambda segment=segment, n=attempt: segment.append(bytearray(data), n, 0),
        }[what]
        thread = threading.Thread(target=write)
        thread.start()
        while file.size() == 0:
            pass
        half_way = file.size() < len(data) // 2
        file.sync()
        thread.join()
        unsynced = file.dirty
        file.close()
        if half_way:
            assert unsynced
            return
    pytest.fail("no sync has met a write")


def test_a_record_is_found_while_segments_are_deleted(tmp_path):
    """The place of a segment was looked up in one tuple and used in another."""
    with open_log(tmp_path, segment_bytes=300) as log:
        for _ in range(400):
            log.append([b"v" * 60])
        errors = []
        stop = threading.Event()

        def read():
            rng = random.Random(1)
            while not stop.is_set():
                try:
                    record = log.record_at(rng.randrange(400))
                    assert record.value == b"v" * 60
                except OffsetOutOfRangeError:
                    pass
                except Exception as error:  # noqa: BLE001
                    errors.append(error)
                    return

        readers = [threading.Thread(target=read) for _ in range(2)]
        before = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            for thread in readers:
                thread.start()
            for offset in range(1, 400):
                log.delete_before(offset)
        finally:
            stop.set()
            sys.setswitchinterval(before)
            for thread in readers:
                thread.join()
        assert errors == []
