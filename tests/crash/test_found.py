"""What the other tests of this folder have found, each as the smallest case that shows it."""

from __future__ import annotations

import contextlib
import errno
import random

import pytest

from logstore import Log
from logstore.errors import CorruptRecordError, DamagedLogError, DiskFullError, StorageError, StorageFailedError
from logstore.log import Marker, ProducerStamp
from logstore.testing._faults import FaultyFiles
from tests.crash.histories import PARTITION, History, image_of, quick_files, restore
from tests.kit.inside import aborted_in


def test_a_batch_cut_behind_its_header_below_the_recovery_point_is_damage(ram_path):
    """The header alone looked whole, and the segments behind it were dropped as an unsynced tail."""
    log = Log.open(ram_path / PARTITION, files=quick_files(), segment_bytes=300)
    history = History(log, random.Random(1))
    for _ in range(4):
        log.append([b"v" * 60])
    log.flush()
    image = image_of(ram_path)
    history.log.close()
    last = max(name for name in image if name.endswith(".log"))
    image[last] = image[last][:-1]
    path = restore(image, ram_path / "r")
    with pytest.raises(DamagedLogError) as caught:
        Log.open(path)
    assert caught.value.path.endswith(last)
    assert image_of(ram_path / "r")[last] == image[last]


def test_a_last_synced_batch_that_claims_more_offsets_is_damage_and_not_cut(ram_path):
    """It seemed to hold the recovery point inside, where a log start may stand, and was judged as a tail."""
    with Log.open(ram_path / PARTITION, files=quick_files()) as log:
        log.append([b"first"])
        end_of_first = log.metrics().size
        log.append([b"second"])
    image = image_of(ram_path)
    (name,) = (name for name in image if name.endswith(".log"))
    data = bytearray(image[name])
    data[end_of_first + 26] ^= 0x80
    path = restore({**image, name: bytes(data)}, ram_path / "r")
    with pytest.raises(DamagedLogError, match="CRC-32C"):
        Log.open(path, files=quick_files())
    assert image_of(ram_path / "r")[name] == bytes(data)


def test_a_first_segment_that_is_gone_is_damage_and_not_a_later_log_start(ram_path):
    with Log.open(ram_path / PARTITION, segment_bytes=300) as log:
        for _ in range(9):
            log.append([b"v" * 60])
    (ram_path / PARTITION / "00000000000000000000.log").unlink()
    with pytest.raises(DamagedLogError, match="restore the missing files"):
        Log.open(ram_path / PARTITION)


def test_a_time_index_without_its_last_entry_hides_no_record(ram_path):
    with Log.open(ram_path / PARTITION, segment_bytes=2_000, index_interval_bytes=100) as log:
        for n in range(30):
            log.append([b"v" * 60], timestamp=1_000 + n)
    name = ram_path / PARTITION / "00000000000000000000.timeindex"
    whole = name.read_bytes()
    for entries in range(len(whole) // 12):
        name.write_bytes(whole[: entries * 12])
        with Log.open(ram_path / PARTITION, read_only=True) as log:
            for n in range(30):
                assert log.offset_for_time(1_000 + n).offset == n


def test_a_damaged_snapshot_does_not_lose_the_begin_of_an_aborted_transaction(ram_path):
    """The .txnindex of a segment is rebuilt from the state at its base; that may have to be replayed."""
    files = quick_files()
    log = Log.open(ram_path / PARTITION, files=files)
    log.append([b"aborted"], producer=ProducerStamp(5, 0, 0, True))
    log.append([b"other"], producer=ProducerStamp(6, 0, 0))
    log.maintenance.roll()
    log.replica.append_control(Marker.ABORT, producer_id=5, producer_epoch=0)
    image = image_of(ram_path)
    log.close()
    hints = (".snapshot", ".producers", ".txnindex")
    image = {name: data for name, data in image.items() if not name.endswith(hints)}
    with Log.open(restore(image, ram_path / "r"), files=files) as log:
        assert [record.value for record in log.scan(isolation="read_committed")] == [b"other"]


def test_a_missing_snapshot_does_not_move_the_begin_of_an_aborted_transaction(ram_path):
    """The first of its batches in the segment of the marker was taken for its begin: the others became visible."""
    with Log.open(ram_path / PARTITION, segment_bytes=500) as log:
        for sequence in range(3):
            log.append([b"v" * 60], producer=ProducerStamp(7, 0, sequence, transactional=True))
        log.maintenance.roll()
        log.append([b"v" * 60], producer=ProducerStamp(7, 0, 3, transactional=True))
        log.replica.append_control(Marker.ABORT, producer_id=7, producer_epoch=0)
        log.append([b"plain"])
        known = aborted_in(log)
        image = image_of(ram_path)
    # Neither a snapshot nor an aborted index is synced by itself, and there was no clean end.
    lost = (".snapshot", ".txnindex", ".producers")
    path = restore({name: data for name, data in image.items() if not name.endswith(lost)}, ram_path / "r")
    with Log.open(path) as log:
        assert aborted_in(log) == known
        assert [record.value for record in log.scan(isolation="read_committed")] == [b"plain"]


def test_the_age_of_a_segment_is_known_after_a_clean_open(ram_path):
    """Else a log that is opened once a day never rolls by time."""
    with Log.open(ram_path / PARTITION, segment_ms=1_000) as log:
        for _ in range(3):
            log.append([b"old"], timestamp=10_000)
    with Log.open(ram_path / PARTITION, segment_ms=1_000) as log:
        log.append([b"new"], timestamp=12_000)
        assert log.metrics().segment_count == 2


def test_headers_that_do_not_rise_are_named(ram_path):
    with Log.open(ram_path / PARTITION) as log:
        for _ in range(3):
            log.append([b"v"])
    name = ram_path / PARTITION / "00000000000000000000.log"
    data = bytearray(name.read_bytes())
    second = 12 + int.from_bytes(data[8:12], "big")
    data[second + 7] = 0
    name.write_bytes(data)
    with Log.open(ram_path / PARTITION, read_only=True) as log:
        with pytest.raises(CorruptRecordError) as caught:
            list(log.scan())
        assert caught.value.position == second


def closed_log(root, count=40, **settings):
    """A closed log of one-record batches of 100 bytes; the bytes of its segment."""
    with Log.open(root / PARTITION, **settings) as log:
        for n in range(count):
            log.append([b"v" * 60], timestamp=1_000 + n)
    return root / PARTITION / "00000000000000000000.log"


def test_a_reader_is_told_when_the_published_end_is_not_there(ram_path):
    name = closed_log(ram_path)
    data = name.read_bytes()
    name.write_bytes(data[: -12 - int.from_bytes(data[8:12], "big")])
    with Log.open(ram_path / PARTITION, read_only=True) as log:
        with pytest.raises(CorruptRecordError, match="written up to offset 39"):
            list(log.scan())


def test_a_base_offset_that_jumps_ahead_does_not_hide_the_rest_of_its_segment(ram_path):
    """It looked like the end of what may be read, and the reader went on to the next segment."""
    name = closed_log(ram_path, segment_bytes=1_200)
    data = bytearray(name.read_bytes())
    data[3] ^= 0x10
    name.write_bytes(data)
    with Log.open(ram_path / PARTITION) as log:
        with pytest.raises(CorruptRecordError) as caught:
            list(log.scan())
        assert (caught.value.path, caught.value.position) == (str(name), 0)
        with pytest.raises(CorruptRecordError):
            log.replica.locate(0)


def test_a_batch_length_that_swallows_the_next_batch_is_found(ram_path):
    """From one batch to the next but one: a walk over headers found no fault."""
    name = closed_log(ram_path)
    data = bytearray(name.read_bytes())
    size = 12 + int.from_bytes(data[8:12], "big")
    data[size * 5 + 8 : size * 5 + 12] = (2 * size - 12).to_bytes(4, "big")
    name.write_bytes(data)
    with Log.open(ram_path / PARTITION) as log:
        with pytest.raises(CorruptRecordError) as caught:
            log.read(5, max_bytes=1)
        assert caught.value.position == size * 5
        assert caught.value.next_offset == 6
        # What it has swallowed is whole, and is found there.
        assert [record.offset for record in log.read(6, max_bytes=1)] == [6]


@pytest.mark.parametrize("read_only", [False, True])
def test_an_index_entry_that_points_into_a_batch_costs_nothing(ram_path, read_only):
    """What stands there may look like another format, which is no damage of the log either."""
    name = closed_log(ram_path, index_interval_bytes=300)
    index = name.with_suffix(".index")
    data = index.read_bytes()
    for position in range(7, len(data), 8):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[position] ^= 1 << bit
            index.write_bytes(flipped)
            with Log.open(ram_path / PARTITION, read_only=read_only) as log:
                for offset in range(0, 40, 3):
                    assert next(iter(log.read(offset, max_bytes=1))).offset == offset


def test_a_changed_digit_in_the_roots_log_starts_hides_no_record(ram_path):
    closed_log(ram_path)
    starts = ram_path / "log-start-offset-checkpoint"
    starts.write_bytes(starts.read_bytes().replace(b"t 0 0", b"t 0 8"))
    with Log.open(ram_path / PARTITION) as log:
        assert log.log_start_offset == 0


def test_a_snapshot_from_before_a_cut_does_not_speak_for_what_came_after(ram_path):
    """A kill between the cut and the removal of snapshots behind it, and then a log that grows over them."""
    files = quick_files()
    log = Log.open(ram_path / PARTITION, files=files)
    for sequence in range(0, 40, 4):
        log.append([b"old"] * 4, producer=ProducerStamp(7, 0, sequence))
        log.maintenance.roll()
    stale = {name: data for name, data in image_of(ram_path).items() if name.endswith(".snapshot")}
    log.replica.truncate_to(8)
    image = {**stale, **image_of(ram_path)}
    log.close()
    path = restore(image, ram_path / "r")
    with Log.open(path, files=files) as log:
        for sequence in range(8, 20, 4):
            log.append([b"new"] * 4, producer=ProducerStamp(7, 0, sequence))
        image = image_of(ram_path / "r")
    with Log.open(restore(image, ram_path / "s"), files=files) as log:
        again = log.append([b"new"] * 4, producer=ProducerStamp(7, 0, 16))
        assert (again.duplicate, again.first_offset) == (True, 16)


def test_a_batch_length_that_swallows_the_rest_of_its_segment_is_found(ram_path):
    """The walk ended at the end of the segment, and the reader went on to the next one as over a gap."""
    with Log.open(ram_path / PARTITION, segment_bytes=700) as log:
        for _ in range(20):
            log.append([b"v" * 60])
    name = ram_path / PARTITION / "00000000000000000000.log"
    data = bytearray(name.read_bytes())
    size = 12 + int.from_bytes(data[8:12], "big")
    data[size + 8 : size + 12] = (len(data) - size - 12).to_bytes(4, "big")
    name.write_bytes(data)
    with Log.open(ram_path / PARTITION, read_only=True) as log:
        assert log.read(0, max_bytes=1).count() == 1
        with pytest.raises(CorruptRecordError) as caught:
            log.read(1, max_bytes=1)
        assert (caught.value.offset, caught.value.next_offset) == (1, 2)
        # What it has swallowed is whole, and is found there.
        for offset in range(2, len(data) // size + 1):
            assert [record.offset for record in log.read(offset, max_bytes=1)] == [offset]


def test_a_truncation_that_cuts_a_marker_off_hides_its_transaction_again(ram_path):
    with Log.open(ram_path / PARTITION) as log:
        log.append([b"plain"])
        log.append([b"undecided"], producer=ProducerStamp(5, 0, 0, True))
        log.append([b"behind"])
        marker = log.replica.append_control(Marker.COMMIT, producer_id=5, producer_epoch=0)
        assert log.last_stable_offset == 4
        log.replica.truncate_to(marker.first_offset)
        assert log.last_stable_offset == 1
        assert [record.value for record in log.scan(isolation="read_committed")] == [b"plain"]
        with Log.open(ram_path / PARTITION, read_only=True) as reader:
            assert reader.last_stable_offset == 1


def test_a_log_whose_creation_was_cut_off_is_still_ours(ram_path):
    """A segment without any file of ours looked like Kafka's, and could never be opened again."""
    for nth in range(1, 30):
        files = FaultyFiles()
        files.fail("change", nth, times=-1)
        with contextlib.suppress(StorageError):
            Log.open(ram_path / str(nth) / PARTITION, files=files).close()
        with Log.open(ram_path / str(nth) / PARTITION) as log:
            assert log.append([b"v"]).first_offset == 0


def test_a_deletion_without_space_has_deleted_nothing_and_may_be_repeated(ram_path):
    """It had moved the start in memory, so the second call found nothing to do, and wrote nothing."""
    files = FaultyFiles()
    log = Log.open(ram_path / PARTITION, files=files)
    log.append([b"a", b"b", b"c"], ack="synced")
    files.fail("pwrite", 1, errno.ENOSPC, path_contains="logstore.recovery")
    with pytest.raises(DiskFullError):
        log.delete_before(2)
    assert log.log_start_offset == 0
    assert log.delete_before(2) == 2
    image = image_of(ram_path)
    log.close()
    with Log.open(restore(image, ram_path / "r")) as log:
        assert log.log_start_offset == 2


def test_a_clean_mark_that_cannot_be_taken_back_poisons(ram_path):
    Log.open(ram_path / PARTITION).close()
    files = FaultyFiles()
    log = Log.open(ram_path / PARTITION, files=files)
    files.fail("fdatasync", 1, path_contains="logstore.recovery")
    with pytest.raises(StorageFailedError):
        log.append([b"v"])
    with pytest.raises(StorageFailedError):
        log.append([b"v"])
    log.close()


@pytest.mark.parametrize("read_only", [False, True])
def test_a_search_by_time_survives_an_index_that_is_made_again_under_it(ram_path, read_only):
    """It went on with its place in the entries of before, which could lie outside the new ones: a crash."""
    index = closed_log(ram_path, index_interval_bytes=200).with_suffix(".index")
    whole = index.read_bytes()
    for position in range(4, len(whole), 8):
        data = bytearray(whole)
        data[position + 3] ^= 1
        index.write_bytes(data)
        with Log.open(ram_path / PARTITION, read_only=read_only, index_interval_bytes=1 << 30) as log:
            for n in range(40):
                assert log.offset_for_time(1_000 + n).offset == n
        index.write_bytes(whole)
