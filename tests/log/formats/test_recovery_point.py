"""The published end as readers in other processes follow it."""

from __future__ import annotations

import pytest

from logstore import Log
from logstore.io._files import Files
from logstore.log.directory.files import Directory
from logstore.log.directory.segments import Segments
from logstore.log.formats import checkpoints
from logstore.log.formats.checkpoints import PUBLISHED, PUBLISHED_BYTES
from logstore.log.formats.recovery_point import PublishedReader
from tests.log.logs import open_log


def test_a_reader_follows_by_one_small_read_and_opens_nothing(tmp_path):
    with open_log(tmp_path) as log:
        log.append([b"0"])
        files = Files()
        with Log.open(log.path, read_only=True, files=files) as reader:
            assert reader.log_end_offset == 1
            reader.read(0)
            before = files.call_counts()
            for number in range(1, 50):
                log.append([b"%d" % number])
                assert reader.log_end_offset == number + 1
            after = files.call_counts()
    assert after["open"] == before["open"]
    # The block, and the header of the batch that is new.
    assert after["preadv"] - before["preadv"] <= 3 * 49


def test_no_file_a_torn_file_and_a_whole_one(tmp_path):
    directory = Directory(str(tmp_path), Files())
    reader = PublishedReader(directory)
    assert reader.read() is None
    with open_log(tmp_path) as log:
        log.append([b"a", b"b"])
        whole = (tmp_path / "t-0" / PUBLISHED).read_bytes()
    assert len(whole) == PUBLISHED_BYTES
    path = tmp_path / PUBLISHED
    for torn in (b"", whole[:63], whole[:20] + bytes(44), bytes(64)):
        path.write_bytes(torn)
        assert reader.read(attempts=3) is None
    # The same descriptor sees what is written over it.
    path.write_bytes(whole)
    assert reader.read().log_end_offset == 2
    reader.close()


@pytest.mark.parametrize("tail", ["file", "memory"])
def test_while_a_log_is_cut_no_end_is_published_that_its_files_have_not_any_more(tmp_path, monkeypatch, tail):
    """A kill in the cut leaves it there, and readers took it for damage."""
    drop, published = Segments.drop, []

    def dropped(segments, doomed):
        published.append(checkpoints.decode_published((tmp_path / "t-0" / PUBLISHED).read_bytes()))
        drop(segments, doomed)

    with Log.open(tmp_path / "t-0", tail=tail) as log:
        for _ in range(3):
            log.append([b"v"])
            log.maintenance.roll()
        monkeypatch.setattr(Segments, "drop", dropped)
        log.replica.truncate_to(1)
    assert [marks.log_end_offset for marks in published] == [1, 1]
