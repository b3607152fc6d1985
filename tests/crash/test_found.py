"""What the other tests of this folder have found, each as the smallest case that shows it."""

from __future__ import annotations

import random

import pytest

from logstore import Log, Marker, ProducerStamp
from logstore.errors import CorruptRecordError, DamagedLogError
from tests.crash.histories import PARTITION, History, image_of, quick_files, restore


def test_a_batch_cut_behind_its_header_below_the_recovery_point_is_damage(tmp_path):
    """The header alone looked whole, and the segments behind it were dropped as an unsynced tail."""
    log = Log.open(tmp_path / PARTITION, files=quick_files(), segment_bytes=300)
    history = History(log, random.Random(1))
    for _ in range(4):
        log.append([b"v" * 60])
    log.flush()
    image = image_of(tmp_path)
    history.log.close()
    last = max(name for name in image if name.endswith(".log"))
    image[last] = image[last][:-1]
    path = restore(image, tmp_path / "r")
    with pytest.raises(DamagedLogError) as caught:
        Log.open(path)
    assert caught.value.path.endswith(last)
    assert image_of(tmp_path / "r")[last] == image[last]


def test_a_first_segment_that_is_gone_is_damage_and_not_a_later_log_start(tmp_path):
    with Log.open(tmp_path / PARTITION, segment_bytes=300) as log:
        for _ in range(9):
            log.append([b"v" * 60])
    (tmp_path / PARTITION / "00000000000000000000.log").unlink()
    with pytest.raises(DamagedLogError, match="restore the missing files"):
        Log.open(tmp_path / PARTITION)


def test_a_time_index_without_its_last_entry_hides_no_record(tmp_path):
    with Log.open(tmp_path / PARTITION, segment_bytes=2_000, index_interval_bytes=100) as log:
        for n in range(30):
            log.append([b"v" * 60], timestamp=1_000 + n)
    name = tmp_path / PARTITION / "00000000000000000000.timeindex"
    whole = name.read_bytes()
    for entries in range(len(whole) // 12):
        name.write_bytes(whole[: entries * 12])
        with Log.open(tmp_path / PARTITION, read_only=True) as log:
            for n in range(30):
                assert log.offset_for_time(1_000 + n).offset == n


def test_a_damaged_snapshot_does_not_lose_the_begin_of_an_aborted_transaction(tmp_path):
    """The .txnindex of a segment is rebuilt from the state at its base; that may have to be replayed."""
    files = quick_files()
    log = Log.open(tmp_path / PARTITION, files=files)
    log.append([b"aborted"], producer=ProducerStamp(5, 0, 0, True))
    log.append([b"other"], producer=ProducerStamp(6, 0, 0))
    log.roll()
    log.append_control(Marker.ABORT, producer_id=5, producer_epoch=0)
    image = image_of(tmp_path)
    log.close()
    image = {
        name: data for name, data in image.items() if not name.endswith((".snapshot", ".producers", ".txnindex"))
    }
    with Log.open(restore(image, tmp_path / "r"), files=files) as log:
        assert [record.value for record in log.scan(isolation="read_committed")] == [b"other"]


def test_the_age_of_a_segment_is_known_after_a_clean_open(tmp_path):
    """Else a log that is opened once a day never rolls by time."""
    with Log.open(tmp_path / PARTITION, segment_ms=1_000) as log:
        for _ in range(3):
            log.append([b"old"], timestamp=10_000)
    with Log.open(tmp_path / PARTITION, segment_ms=1_000) as log:
        log.append([b"new"], timestamp=12_000)
        assert log.metrics().segment_count == 2


def test_headers_that_do_not_rise_are_named(tmp_path):
    with Log.open(tmp_path / PARTITION) as log:
        for _ in range(3):
            log.append([b"v"])
    name = tmp_path / PARTITION / "00000000000000000000.log"
    data = bytearray(name.read_bytes())
    second = 12 + int.from_bytes(data[8:12], "big")
    data[second + 7] = 0
    name.write_bytes(data)
    with Log.open(tmp_path / PARTITION, read_only=True) as log:
        with pytest.raises(CorruptRecordError) as caught:
            list(log.scan())
        assert caught.value.position == second
