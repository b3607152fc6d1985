"""Conformance suite of tables of file operations."""

from __future__ import annotations

import errno
from abc import abstractmethod

import pytest

from logstore.errors import StorageError
from logstore.io._files import Files, errno_of
from logstore.log import Log


class FilesConformance:
    """The suite for `Files`: the machine's, a simulated disk, or one of your own."""

    @abstractmethod
    def make_files(self) -> Files:
        """Return the table to test, a new one for every test."""

    @abstractmethod
    def make_directory(self, files: Files) -> str:
        """Return an absolute path of an existing, empty directory, a new one for every test."""

    @pytest.fixture
    def files(self) -> Files:
        return self.make_files()

    @pytest.fixture
    def place(self, files: Files) -> str:
        return self.make_directory(files)

    def test_what_is_written_is_read_at_its_place(self, files: Files, place: str) -> None:
        file = files.open(f"{place}/a", create=True, writable=True)
        file.write(b"hello", 3)
        assert file.size() == 8
        assert file.read(0, 100) == b"\0\0\0hello"
        assert file.read(3, 2) == b"he"
        assert file.read(8, 5) == b""
        assert file.read(100, 5) == b""
        file.write(memoryview(b"J"), 3)
        file.sync()
        file.close()
        again = files.open(f"{place}/a")
        assert again.read(0, 100) == b"\0\0\0Jello"
        again.close()

    def test_a_file_is_cut_and_extended_by_zeros(self, files: Files, place: str) -> None:
        file = files.open(f"{place}/a", create=True, writable=True)
        file.write(b"abcdef", 0)
        file.truncate(2)
        assert file.read(0, 100) == b"ab"
        file.truncate(5)
        assert file.read(0, 100) == b"ab\0\0\0"
        file.close()

    def test_names_are_made_listed_moved_and_removed(self, files: Files, place: str) -> None:
        for name in ("a", "b"):
            file = files.open(f"{place}/{name}", create=True, writable=True)
            file.write(name.encode(), 0)
            file.close()
        files.mkdir(f"{place}/sub")
        assert sorted(files.listdir(place)) == ["a", "b", "sub"]
        files.rename(f"{place}/a", f"{place}/b")  # replaces the existing file
        files.link(f"{place}/b", f"{place}/sub/c")
        assert sorted(files.listdir(place)) == ["b", "sub"]
        files.unlink(f"{place}/b")
        file = files.open(f"{place}/sub/c")
        assert file.read(0, 10) == b"a"
        file.close()
        files.unlink(f"{place}/sub/c")
        files.rmdir(f"{place}/sub")
        files.sync_directory(place)
        assert files.listdir(place) == []

    def test_a_file_that_was_removed_is_read_on_by_its_open_readers(self, files: Files, place: str) -> None:
        file = files.open(f"{place}/a", create=True, writable=True)
        file.write(b"still there", 0)
        files.unlink(f"{place}/a")
        assert file.read(0, 100) == b"still there"
        file.close()

    def test_what_cannot_be_says_why(self, files: Files, place: str) -> None:
        files.mkdir(f"{place}/sub")
        file = files.open(f"{place}/a", create=True, writable=True)
        file.close()
        for number, attempt in (
            (errno.ENOENT, lambda: files.open(f"{place}/none")),
            (errno.ENOENT, lambda: files.unlink(f"{place}/none")),
            (errno.ENOENT, lambda: files.rename(f"{place}/none", f"{place}/other")),
            (errno.ENOENT, lambda: files.listdir(f"{place}/none")),
            (errno.EEXIST, lambda: files.open(f"{place}/a", create=True, exclusive=True, writable=True)),
            (errno.EEXIST, lambda: files.mkdir(f"{place}/sub")),
            (errno.EEXIST, lambda: files.link(f"{place}/a", f"{place}/sub")),
            (errno.ENOTDIR, lambda: files.listdir(f"{place}/a")),
        ):
            with pytest.raises(StorageError) as refused:
                attempt()
            assert errno_of(refused.value) == number, refused.value
        file = files.open(f"{place}/sub/b", create=True, writable=True)
        file.close()
        with pytest.raises(StorageError) as refused:
            files.rmdir(f"{place}/sub")
        assert errno_of(refused.value) in (errno.ENOTEMPTY, errno.EEXIST)

    def test_free_space_is_told(self, files: Files, place: str) -> None:
        total, free = files.space(place)
        assert 0 <= free <= total

    def test_a_log_lives_on_it(self, files: Files, place: str) -> None:
        with Log.open(f"{place}/t-0", files=files, segment_bytes=2_000) as log:
            for number in range(100):
                log.append([b"value %d" % number] * 3, ack="synced" if number % 10 == 0 else "written")
            log.delete_before(100)
        with Log.open(f"{place}/t-0", files=files) as log:
            assert (log.log_start_offset, log.log_end_offset) == (100, 300)
            assert [record.value for record in log] == [b"value %d" % (n // 3) for n in range(100, 300)]
