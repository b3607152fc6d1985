"""A file of finished batches that becomes a segment: what the log is then, and when it is copied instead."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import sys
import textwrap
from collections import Counter

import pytest

import logstore
from logstore import Log
from logstore.errors import CorruptRecordError, DiskFullError, StorageError, StorageFailedError, TooManyFilesError
from logstore.io._files import LIBC
from logstore.log import ProducerStamp
from logstore.log.append import ingest_file
from logstore.log.append.ingest_file import Whole
from logstore.log.directory.files import Directory
from logstore.log.directory.segments import Segments
from logstore.log.rolling.rolls import Rolls
from logstore.log.space_quota import UnlimitedSpace
from logstore.records import Marker
from logstore.testing import FaultyFiles, SimDisk
from tests.crash.planted import must_break
from tests.log.cleanup.deleting import Watched
from tests.log.logs import NOW_MS, log_files, one_batch, open_log, values_of

pytestmark = pytest.mark.row("U3")

NAME = ".staging/given"
STAMP = ProducerStamp(7, 0, 0, transactional=True)
VALUES = [b"%d" % n for n in range(10)]


@pytest.fixture(autouse=True)
def _any_size(monkeypatch):
    monkeypatch.setattr(ingest_file, "LEAST_BYTES", 1)
    monkeypatch.setattr(ingest_file, "LEAST_BATCH_BYTES", 1)


def batches_of(values=VALUES, *, each=3, stamp=NOW_MS):
    return [one_batch(values[n : n + each], timestamp_ms=stamp + n) for n in range(0, len(values), each)]


def put_file(log, batches, files=LIBC):
    """A file below the log's directory with these batches; what `LogReplica.ingest_file` is told of it."""
    data = b"".join(batches)
    with contextlib.suppress(StorageError):
        files.mkdir(f"{log.path}/.staging")
    file = files.open(f"{log.path}/{NAME}", create=True, writable=True, truncate=True)
    file.write(data, 0)
    file.close()
    counts = [int.from_bytes(batch[57:61], "big") for batch in batches]
    newest = [int.from_bytes(batch[35:43], "big") for batch in batches]
    return Whole(NAME, len(data), len(batches), sum(counts), newest[0], max(newest)), counts


def adopt(log, batches, *, producer=None, files=LIBC):
    whole, counts = put_file(log, batches, files)
    runs = [(bytearray(batch), count) for batch, count in zip(batches, counts, strict=True)]
    return log.replica.ingest_file(whole, runs, producer=producer)


def test_the_file_is_the_log_s_as_it_is(tmp_path):
    with open_log(tmp_path, segment_ms=1 << 50) as log:
        log.append([b"before"])
        whole, _ = put_file(log, batches_of())
        inode = os.stat(f"{log.path}/{NAME}").st_ino
        result = adopt(log, batches_of())
        assert (result.first_offset, result.last_offset) == (1, 10)
        assert os.stat(log_files(log)[1]).st_ino == inode
        assert not os.path.exists(f"{log.path}/{NAME}")
        assert log_files(log)[1].stat().st_size == whole.size
        log.append([b"after"])
        assert values_of(log) == [b"before", *VALUES, b"after"]
        assert [record.offset for record in log.scan()] == list(range(12))
        assert log.record_at(7).value == b"6"
        assert log.maintenance.segment_count == 2
        log.flush()
        assert log.synced_end == 12
    with open_log(tmp_path) as log:
        assert values_of(log) == [b"before", *VALUES, b"after"]
    with open_log(tmp_path, read_only=True) as log:
        assert values_of(log) == [b"before", *VALUES, b"after"]


def test_an_empty_segment_gives_it_its_name(tmp_path):
    with open_log(tmp_path) as log:
        assert adopt(log, batches_of()).last_offset == 9
        assert log.maintenance.segment_count == 1
        assert adopt(log, batches_of()).first_offset == 10
        assert log.maintenance.segment_count == 2
        assert values_of(log) == VALUES * 2
        log.maintenance.roll()
        assert adopt(log, batches_of()).first_offset == 20
        assert log.maintenance.segment_count == 3
        assert sorted(log_files(log)) == [0, 10, 20]
        log.flush()
    with open_log(tmp_path) as log:
        assert values_of(log) == VALUES * 3
        assert log.read(25).batches()[0].base_offset <= 25


SYNCS = {"fdatasync", "fsync_dir"}


def syncs_of_adoptions(tmp_path) -> tuple[set[str], set[str]]:
    """Adopt files with a prepared segment and without one: the syncs under the log's lock, and all of them."""
    files = FaultyFiles()
    under, before = Counter(), Counter()

    def step(what: str) -> None:
        if what == "acquired":
            before.clear()
            before.update(files.counts())
        elif what == "releases":
            under.update({op: count - before[op] for op, count in files.counts().items()})

    with open_log(tmp_path, files=files) as log:
        log.append([b"before"])
        adopt(log, batches_of())
        log.append([b"after"])
        log.flush()
        began = Counter(files.counts())
        with Watched(log._state.lock, step).everywhere():
            for _ in range(4):
                assert adopt(log, batches_of()) is not None
        made = Counter(files.counts()) - began
        names = os.listdir(log.path)
        assert not [name for name in names if name.startswith("logstore.after-")], names
    with open_log(tmp_path) as log:
        assert values_of(log) == [b"before", *VALUES, b"after", *VALUES * 4]
    return SYNCS & (+under).keys(), SYNCS & (+made).keys()


def test_other_appends_wait_for_no_sync_of_it(tmp_path):
    assert syncs_of_adoptions(tmp_path) == (set(), SYNCS)


def test_planted_a_file_that_is_rolled_to_at_once_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(Rolls, "may_adopt_locked", lambda rolls: False)
    must_break("fdatasync", lambda: test_other_appends_wait_for_no_sync_of_it(tmp_path))


def test_batches_get_offsets_epoch_and_producer_and_their_crcs_hold(tmp_path):
    with open_log(tmp_path) as log:
        log.append([b"before"])
        adopt(log, batches_of(), producer=STAMP)
        found = [batch for n in (1,) for batch in log.read(n, max_bytes=1 << 20).batches()]
        for batch in found:
            batch.check()
        assert [batch.base_offset for batch in found] == [1, 4, 7, 10]
        assert [batch.base_sequence for batch in found] == [0, 3, 6, 9]
        assert {(b.producer_id, b.producer_epoch, b.is_transactional) for b in found} == {(7, 0, True)}
        assert {batch.leader_epoch for batch in found} == {log.replica.leader_epoch}
        assert log.replica.open_transaction(7) == 1
        assert log.last_stable_offset == 1
        assert values_of(log, isolation="read_committed") == [b"before"]
        log.replica.append_control(Marker.COMMIT, producer_id=7, producer_epoch=0)
        assert values_of(log, isolation="read_committed") == [b"before", *VALUES]


def test_an_aborted_one_is_not_seen_and_goes_on_after_a_restart(tmp_path):
    with open_log(tmp_path) as log:
        adopt(log, batches_of(), producer=STAMP)
        log.replica.append_control(Marker.ABORT, producer_id=7, producer_epoch=0)
        adopt(log, batches_of([b"x"] * 4), producer=STAMP._replace(producer_epoch=1))
        log.flush()
    with open_log(tmp_path) as log:
        assert log.replica.open_transaction(7) == 11
        log.replica.append_control(Marker.COMMIT, producer_id=7, producer_epoch=1)
        assert values_of(log, isolation="read_committed") == [b"x"] * 4


def test_times_are_found_in_it(tmp_path):
    with open_log(tmp_path, index_interval_bytes=1) as log:
        adopt(log, batches_of(each=1))
        assert log.offset_for_time(NOW_MS + 4).offset == 4
        adopt(log, batches_of(each=1, stamp=NOW_MS + 100))
        assert log.offset_for_time(NOW_MS + 104).offset == 14
        assert log.offset_for_time(NOW_MS + 50).offset == 10


def test_a_log_that_gives_the_time_gives_it(tmp_path):
    with open_log(tmp_path, message_timestamp_type="LogAppendTime") as log:
        adopt(log, batches_of(stamp=17))
        times = {record.timestamp_ms for record in log.scan()}
        assert len(times) == 1
        assert times.pop() > NOW_MS


READER = """
    import sys
    from logstore import Log
    with Log.open(sys.argv[1], read_only=True) as log:
        for line in sys.stdin:
            print(len([r for r in log.scan()]), log.log_end_offset, flush=True)
"""


def test_a_reader_in_another_process_that_holds_the_empty_file_finds_it(tmp_path):
    with open_log(tmp_path) as log:
        log.flush()
        command = [sys.executable, "-c", textwrap.dedent(READER), log.path]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reader:

            def ask():
                reader.stdin.write("\n")
                reader.stdin.flush()
                return reader.stdout.readline().split()

            assert ask() == ["0", "0"]
            adopt(log, batches_of())
            assert ask() == ["10", "10"]
            adopt(log, batches_of())
            assert ask() == ["20", "20"]
            log.append([b"more"])
            assert ask() == ["21", "21"]
            reader.stdin.close()


def test_planted_a_reader_that_is_not_told_does_not_find_it(tmp_path, monkeypatch):
    """The generation is what tells it; without it the file that it holds open stays empty."""

    def quietly(state, begin):
        begin(state.segments.active.base_offset)

    monkeypatch.setattr(ingest_file, "_replace_empty_locked", quietly)
    must_break(
        r"\[\] == \['10', '10'\]",
        lambda: test_a_reader_in_another_process_that_holds_the_empty_file_finds_it(tmp_path),
    )


# -- copied instead


@pytest.mark.parametrize(
    "settings",
    [
        {"segment_bytes": 250},
        {"offset_mode": "bytes"},
        {"tail": "memory"},
        {"segment_ms": 5},
        {"segment_index_bytes": 40},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_what_a_setting_does_not_let_be_one_segment_is_left_as_it_was(tmp_path, settings):
    with open_log(tmp_path, **settings) as log:
        assert adopt(log, batches_of()) is None
        assert log.log_end_offset == 0
        with open(f"{log.path}/{NAME}", "rb") as file:
            assert file.read() == b"".join(batches_of())


def test_a_setting_that_changes_while_it_is_stamped_counts(tmp_path):
    with open_log(tmp_path) as log:
        whole, counts = put_file(log, batches_of())

        def runs():
            yield from zip(map(bytearray, batches_of()), counts, strict=True)
            log.maintenance.reconfigure({"segment.bytes": 250})

        assert log.replica.ingest_file(whole, runs(), producer=STAMP) is None
        assert log.log_end_offset == 0
        # It is stamped by now, and may be written like any other.
        for batch in batches_of():
            log.replica.append_run(bytearray(batch), max_timestamp_ms=NOW_MS + 9)
        assert values_of(log) == VALUES


def test_small_files_and_small_batches_are_left(tmp_path, monkeypatch):
    monkeypatch.undo()
    with open_log(tmp_path) as log:
        assert adopt(log, batches_of()) is None
        monkeypatch.setattr(ingest_file, "LEAST_BYTES", 1)
        assert adopt(log, batches_of()) is None
        monkeypatch.setattr(ingest_file, "LEAST_BATCH_BYTES", 50)
        assert adopt(log, batches_of()) is not None


@pytest.mark.parametrize("number", ["EACCES", "EPERM", "EROFS"])
def test_a_file_that_may_not_be_written_is_left(number):
    disk = SimDisk()
    with Log.open("/data/t-0", files=disk) as log:
        whole, _ = put_file(log, batches_of(), disk)
        disk.fail("open", 1, errno=getattr(errno, number), path_contains="given")
        assert log.replica.ingest_file(whole, [(bytearray(b), 3) for b in batches_of()]) is None
        assert log.log_end_offset == 0


@pytest.mark.parametrize("filled", [False, True])
@pytest.mark.parametrize("number", ["ENOENT", "EACCES", "EXDEV"])
def test_a_file_that_goes_or_may_not_be_moved_is_copied_though_it_is_stamped(number, filled):
    """The process that staged it may give it up while it is stamped: that must not fail the log."""
    disk = SimDisk()
    with Log.open("/data/t-0", files=disk) as log:
        before = [b"before"] if filled else []
        if filled:
            log.append(before)
        disk.fail("rename", 1, errno=getattr(errno, number), path_contains="given")
        assert adopt(log, batches_of(), producer=STAMP, files=disk) is None
        for batch in batches_of():
            log.replica.append_run(bytearray(batch), max_timestamp_ms=NOW_MS + 9)
        assert values_of(log) == before + VALUES
        log.flush()
    with Log.open("/data/t-0", files=disk.crash("none")) as log:
        assert values_of(log) == before + VALUES


# -- what goes wrong


def test_a_sync_that_failed_between_stamping_and_the_new_name_fails_the_log(monkeypatch):
    """Of its descriptor, which had to make room for another: a later sync would not tell of it again."""
    disk = SimDisk()
    honest = Segments.take
    given = []

    def take(self, *args, **options):
        segment = honest(self, *args, **options)
        disk.fail("fdatasync", 1, errno=errno.EIO)
        with contextlib.suppress(StorageError):
            given[0].sync()
        return segment

    class Remembering(Directory):
        def open(self, name, **options):
            file = super().open(name, **options)
            if name == NAME:
                given.append(file)
            return file

    monkeypatch.setattr(Segments, "take", take)
    with Log.open("/data/t-0", files=disk) as log:
        log._state.directory.__class__ = Remembering
        with pytest.raises(StorageFailedError):
            adopt(log, batches_of(), files=disk)
        with pytest.raises(StorageFailedError):
            log.append([b"more"])
        disk.heal()


def test_a_flipped_bit_leaves_the_log_as_it_was(tmp_path):
    with open_log(tmp_path) as log:
        log.append([b"before"])
        broken = batches_of()
        broken[2] = broken[2][:-1] + bytes([broken[2][-1] ^ 1])
        with pytest.raises(CorruptRecordError):
            adopt(log, broken)
        log.append([b"after"])
        assert values_of(log) == [b"before", b"after"]


def test_a_producer_that_does_not_fit_leaves_the_log_as_it_was(tmp_path):
    with open_log(tmp_path) as log:
        adopt(log, batches_of(), producer=STAMP._replace(producer_epoch=3))
        with pytest.raises(logstore.errors.ProducerFencedError):
            adopt(log, batches_of(), producer=STAMP)
        assert log.log_end_offset == 10
        assert log.maintenance.segment_count == 1


@pytest.mark.parametrize("filled", [False, True])
def test_a_rename_that_finds_no_space_leaves_the_log_as_it_was(filled):
    disk = SimDisk()
    with Log.open("/data/t-0", files=disk) as log:
        before = [b"before"] if filled else []
        if filled:
            log.append(before)
        disk.fail("rename", 1, errno=errno.ENOSPC, path_contains="given")
        with pytest.raises(DiskFullError):
            adopt(log, batches_of(), files=disk)
        assert values_of(log) == before
        assert adopt(log, batches_of(), files=disk).first_offset == len(before)
        log.append([b"after"])
        assert values_of(log) == [*before, *VALUES, b"after"]
        log.flush()
    with Log.open("/data/t-0", files=disk.crash("none")) as log:
        assert values_of(log) == [*before, *VALUES, b"after"]


@pytest.mark.parametrize("filled", [False, True])
def test_without_a_descriptor_the_log_and_the_file_are_as_they_were(filled):
    """Nothing has its new name before it is open: the same call works when there is a descriptor again."""
    before = [b"before"] if filled else []
    refused = 0
    for nth in range(1, 100):
        disk = SimDisk(nth)
        with Log.open("/data/t-0", files=disk) as log:
            if filled:
                log.append(before)
            whole, counts = put_file(log, batches_of(), disk)
            batches = batches_of()

            def again(log=log, whole=whole, counts=counts, batches=batches):
                return log.replica.ingest_file(
                    whole, [(bytearray(b), c) for b, c in zip(batches, counts, strict=True)]
                )

            disk.fail("open", nth, errno=errno.EMFILE, times=-1)
            was_refused = False
            try:
                again()
            except TooManyFilesError:
                was_refused = True
                refused += 1
                disk.heal()
                assert log._state.failed is None
                assert values_of(log) == before
                again()
            disk.heal()
            assert values_of(log) == [*before, *VALUES]
            log.append([b"after"], ack="synced")
        with Log.open("/data/t-0", files=disk.crash("none")) as log:
            assert values_of(log) == [*before, *VALUES, b"after"]
        if not was_refused:
            break
    assert refused >= 2


@pytest.mark.parametrize("filled", [False, True])
def test_every_change_fails_in_turn_and_the_log_keeps_what_was_there(filled):
    before = [b"before"] if filled else []
    outcomes = set()
    for nth in range(1, 100):
        disk = SimDisk(nth)
        with Log.open("/data/t-0", files=disk) as log:
            if filled:
                log.append(before, ack="synced")
            put_file(log, batches_of(), disk)
            disk.fail("change", nth, errno=errno.EIO)
            whole, counts = Whole(NAME, sum(map(len, batches_of())), 4, 10, NOW_MS, NOW_MS + 9), [3, 3, 3, 1]
            runs = [(bytearray(b), n) for b, n in zip(batches_of(), counts, strict=True)]
            result = None
            try:
                result = log.replica.ingest_file(whole, runs)
                log.flush()
            except (StorageError, StorageFailedError):
                outcomes.add("failed")
            fired = bool(disk.fired())
            disk.heal()
            left = {"killed": disk.kill(), "none": disk.crash("none"), "all": disk.crash("all")}
        for how, after in left.items():
            with Log.open("/data/t-0", files=after) as log:
                found = values_of(log)
                assert found == (before + VALUES)[: len(found)], (nth, how)
                assert len(found) >= len(before), (nth, how)
                if how == "killed":
                    assert found in (before, before + VALUES), nth
                if not fired:
                    assert found == before + VALUES, (nth, how)
        if result is not None and not fired:
            break
    assert outcomes == {"failed"}
    assert nth > 8


class Reclaiming(UnlimitedSpace):
    """A quota that has always made space."""

    def reclaim(self, needed):
        return True


def test_a_prepared_file_that_cannot_be_removed_has_the_records_appended_once(caplog):
    disk = SimDisk()
    with Log.open("/data/t-0", files=disk, quota=Reclaiming()) as log:
        log.append([b"before"])
        log._state.rolls.make_ready()
        disk.fail("unlink", errno=errno.ENOSPC, path_contains="logstore.after-")
        assert adopt(log, batches_of(), files=disk).first_offset == 1
        assert "removed later" in caplog.text
        assert values_of(log) == [b"before", *VALUES]
        log.append([b"after"])
        assert adopt(log, batches_of(), files=disk).first_offset == 12
        names = Directory("/data/t-0", disk).names()
        assert not [name for name in names if name.startswith("logstore.after-")], names
        log._state.rolls.make_ready()
