"""Files of segments, as a reader in another process may have them open or mapped."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from logstore import Log
from tests.log.logs import NOW_MS, open_log

INDEXES = ("00000000000000000000.index", "00000000000000000000.timeindex")


@pytest.mark.row("S3", part="beside a writer")
@pytest.mark.parametrize("name", INDEXES)
def test_an_index_file_is_never_shortened(tmp_path: Path, name: str) -> None:
    """A reader that has not seen a truncation yet takes the active segment for a sealed one, and maps its index.

    The next truncation shortened the file, and the reader died of a bus error.
    """
    with open_log(tmp_path, index_interval_bytes=1) as log:
        for n in range(40):
            log.append([b"value"], timestamp=NOW_MS + n)
        path = Path(log.path) / name
    with open_log(tmp_path, index_interval_bytes=1) as log, path.open("rb") as mapped:
        size = os.fstat(mapped.fileno()).st_size
        assert size > 0
        log.replica.truncate_to(20)
        assert os.fstat(mapped.fileno()).st_size >= size
        assert path.stat().st_size < size
        for _ in range(3):
            log.append([b"value"])
    with open_log(tmp_path) as log:
        assert [record.offset for record in log] == list(range(23))


# --- index files of the active segment ----------------------------------------------------------


def index_files(log: Log) -> list[str]:
    return sorted(name for name in os.listdir(log.path) if name.endswith("index"))


def test_a_log_too_small_for_an_index_entry_is_closed_without_a_time_index(tmp_path: Path) -> None:
    """Kafka makes that file without a word; of a missing offset index it complains."""
    with open_log(tmp_path) as log:
        log.append([(None, b"a", NOW_MS), (None, b"b", NOW_MS + 5)])
    for count in (3, 4):
        assert index_files(log) == [INDEXES[0]]
        with open_log(tmp_path, read_only=True) as reader:
            assert reader.offset_for_time(NOW_MS + 5) == (NOW_MS + 5, 1)
        with open_log(tmp_path) as log:
            assert log.metrics().was_clean
            assert log.offset_for_time(NOW_MS + 5) == (NOW_MS + 5, 1)
            log.append([(None, b"c", NOW_MS + 10)])
            assert len(list(log.scan())) == count
            assert log.offset_for_time(NOW_MS + 10) == (NOW_MS + 10, 2)
    assert index_files(log) == [INDEXES[0]]
    assert Path(log.path, INDEXES[0]).read_bytes() == b""


def test_a_new_log_has_its_offset_index_before_its_close(tmp_path: Path) -> None:
    """A store closes all its logs together: a file that each close makes would be most of its time."""
    with open_log(tmp_path) as log:
        path = Path(log.path, INDEXES[0])
        made = path.stat()
        log.append([b"value"])
    assert path.stat().st_ino == made.st_ino


def test_a_truncation_leaves_no_entry_of_what_it_has_cut(tmp_path: Path) -> None:
    with open_log(tmp_path, index_interval_bytes=100) as log:
        for number in range(10):
            log.append([(None, b"v" * 100, NOW_MS + number)])
    assert index_files(log) == list(INDEXES)
    with open_log(tmp_path, index_interval_bytes=100) as log:
        log.replica.truncate_to(1)
        assert index_files(log) == [INDEXES[0]]
        assert Path(log.path, INDEXES[0]).read_bytes() == b""
        log.append([(None, b"w", NOW_MS)])
        assert [record.value for record in log.scan()] == [b"v" * 100, b"w"]


@pytest.mark.parametrize("is_reopened", [False, True])
def test_a_sealed_segment_has_both_index_files(tmp_path: Path, is_reopened: bool) -> None:
    with open_log(tmp_path) as log:
        log.append([(None, b"a", NOW_MS)])
        if not is_reopened:
            log.maintenance.roll()
    if is_reopened:
        with open_log(tmp_path) as log:
            log.maintenance.roll()
    assert index_files(log)[:2] == list(INDEXES)
    assert Path(log.path, INDEXES[1]).stat().st_size == 12


def test_an_open_of_a_log_without_a_time_index_writes_none_before_its_close(tmp_path: Path) -> None:
    """The time index is not missing: it has no entry. A rebuilt one would be written at the first flush."""
    with open_log(tmp_path) as log:
        log.append([(None, b"a", NOW_MS)])
    with open_log(tmp_path) as log:
        log.append([(None, b"b", NOW_MS)])
        assert not log._state.segments.active.index.stale
