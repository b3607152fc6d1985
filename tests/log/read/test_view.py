"""A read is of one moment: what it finds is given only if the log was not truncated or swapped meanwhile."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from logstore.errors import LogChangedError, OffsetOutOfRangeError, StorageError
from logstore.io._files import Files
from logstore.log import FixedPolicy, Log, Marker, Moves, ProducerStamp
from logstore.log.directory._segment_set import SegmentSet
from logstore.log.directory.files import LOG
from logstore.log.directory.segments import Segments
from logstore.log.durability import Durability
from logstore.log.marks.view import View
from logstore.log.read import live_reader
from logstore.log.read.live_reader import LogReader
from logstore.log.read.reader import Readable
from logstore.log.transactions import Transactions
from logstore.records import Isolation
from logstore.testing import FaultyFiles
from tests.kit.inside import at_the_next_look
from tests.kit.waiting import wait_for
from tests.log.logs import open_log

Look = Callable[[Log], object]

LOOKS: dict[str, Look] = {
    "read": lambda log: log.read(5).values(),
    "record": lambda log: (found := log.record_at(5)) and found.value,
    "region": lambda log: (found := log.replica.locate(5)) and found.size,
    "time": lambda log: log.offset_for_time(7),
    "newest": lambda log: (found := log.replica.offset_of_max_timestamp()) and found.timestamp_ms > 4,
}


def cut_and_hidden(log: Log) -> Callable[[], None]:
    """Return a truncation to offset 5, with appends that no reader may see yet."""

    def change() -> None:
        log.replica.set_policy(FixedPolicy(Moves.FROM_OUTSIDE))
        log.replica.truncate_to(5)
        for n in range(10):
            log.append([b"hidden %d" % n], timestamp=5 + n)

    return change


def looked(path: Path, monkeypatch: pytest.MonkeyPatch, look: Look, beside: bool) -> object:
    """Return what a look finds between whose view of the log and whose read of its files the end is replaced."""
    with open_log(path) as log:
        for n in range(10):
            log.append([b"seen %d" % n], timestamp=n)
        reader = open_log(path, read_only=True) if beside else log
        at_the_next_look(monkeypatch, reader, cut_and_hidden(log))
        try:
            return look(reader)
        except OffsetOutOfRangeError:
            return None
        finally:
            monkeypatch.undo()
            reader.close()


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("look", LOOKS)
def test_marks_of_before_a_truncation_show_nothing_of_after_it(ram_path, monkeypatch, look, beside):
    if look == "record" and not beside:
        pytest.skip("one compiled call: no other thread comes between")
    assert not looked(ram_path, monkeypatch, LOOKS[look], beside)


@pytest.mark.parametrize("beside", [False, True])
def test_planted_a_view_that_counts_as_current_after_a_truncation_is_found(ram_path, monkeypatch, beside):
    plant = pytest.MonkeyPatch()
    plant.setattr(LogReader if beside else Log, "_is_as_in", lambda self, view: True)
    try:
        found = looked(ram_path, monkeypatch, LOOKS["read"], beside)
        assert found
        assert found[0] == b"hidden 0"
    finally:
        plant.undo()


@pytest.mark.parametrize("beside", [False, True])
def test_planted_marks_of_one_moment_and_segments_of_another_are_found(ram_path, monkeypatch, beside):
    """A view made of the marks of before and of the rest of after the truncation."""
    kind, before = LogReader if beside else Log, []
    honest, plant = kind._view, pytest.MonkeyPatch()

    def mixed(self):
        view = honest(self)
        before.append(view)
        return view._replace(high_watermark=before[0].high_watermark)

    plant.setattr(kind, "_view", mixed)
    try:
        found = looked(ram_path, monkeypatch, LOOKS["read"], beside)
        assert found
        assert found[0] == b"hidden 0"
    finally:
        plant.undo()


def always_cut(monkeypatch: pytest.MonkeyPatch, log: Log, reader: Log | LogReader) -> list[int]:
    """Truncate and refill a log after each look at where it ends, before the files are read; return the looks."""
    honest, looks = type(reader)._view, []

    def view(self):
        """A view that is of the past already, unless changes are stopped."""
        found = honest(self)
        looks.append(found.generation)
        if not log._state.segments_mutex.locked():
            log.replica.truncate_to(9)
            log.append([b"value"], timestamp=9)
        return found

    monkeypatch.setattr(type(reader), "_view", view)
    return looks


def ten(path: Path) -> Log:
    log = open_log(path)
    for n in range(10):
        log.append([b"value"], timestamp=n)
    return log


@pytest.mark.parametrize("look", [name for name in LOOKS if name != "record"])
def test_a_read_beside_truncations_without_an_end_stops_them_in_its_own_process(ram_path, monkeypatch, look):
    with ten(ram_path) as log:
        wanted = LOOKS[look](log)
        looks = always_cut(monkeypatch, log, log)
        assert LOOKS[look](log) == wanted
        monkeypatch.undo()
        # One for the first look, perhaps one to judge its error, and one with changes stopped: no loop.
        assert len(set(looks)) in (2, 3)
        assert not log._state.segments_mutex.locked()


@pytest.mark.parametrize("look", [name for name in LOOKS if name != "record"])
def test_a_read_beside_truncations_without_an_end_is_asked_again_in_another_process(ram_path, monkeypatch, look):
    """Not out of range: a consumer would go where auto.offset.reset says."""
    with ten(ram_path) as log, open_log(ram_path, read_only=True) as reader:
        wanted = LOOKS[look](reader)
        looks = always_cut(monkeypatch, log, reader)
        with pytest.raises(LogChangedError, match="read again") as raised:
            LOOKS[look](reader)
        monkeypatch.undo()
        assert raised.value.retriable
        assert not isinstance(raised.value, OffsetOutOfRangeError)
        assert len(looks) > live_reader._LOOKS
        assert LOOKS[look](reader) == wanted


@pytest.mark.parametrize("beside", [False, True])
def test_a_lost_file_is_no_offset_out_of_range(ram_path, beside):
    """Else a consumer would go where auto.offset.reset says, and nothing would tell of the loss."""
    with open_log(ram_path, files=Files(descriptor_limit=2)) as log:
        for n in range(3):
            log.append([b"%d" % n])
            log.maintenance.roll()
        log.append([b"last"])
        reader = open_log(ram_path, read_only=True, files=Files(descriptor_limit=2)) if beside else log
        for offset in (1, 2, 3):
            assert reader.read(offset)  # the file of offset 0 is closed now
        os.remove(reader.maintenance.segments[0].path)
        with pytest.raises(StorageError, match="No such file"):
            reader.read(0)
        reader.close()


def record_of(log: Log) -> bytes | None:
    found = log._state.record_at(5, False, log.name)
    return None if found is None else found.value


def region_of(log: Log) -> bytes | None:
    found = log._state._fetch_region(5, 1 << 20, True, Isolation.READ_UNCOMMITTED, False)
    return None if found is None or found.region is None else found.region.read()


def found_around_a_cut(path: Path, look_up: Callable[[Log], bytes | None], *, is_planted: bool) -> bytes | None:
    """Return what one compiled look-up finds whose read waits until the end of the log was replaced."""
    files, found = FaultyFiles(), []
    with open_log(path, files=files) as log:
        for n in range(10):
            log.append([b"seen %d" % n], timestamp=n)

        def look() -> None:
            files.hold_reads(LOG)
            found.append(look_up(log))

        before = log._state.segments.generation
        with ThreadPoolExecutor(1) as pool:
            looking = pool.submit(look)
            try:
                wait_for(lambda: files.held_syncs() or looking.done())
                assert files.held_syncs() == 1
                cut_and_hidden(log)()
                after = log._state.segments.generation
                if is_planted:
                    log._state.segments.begin_at(before)
            finally:
                files.release_syncs()
            looking.result()
        log._state.segments.begin_at(after)
    return found[0]


@pytest.mark.parametrize("look_up", [record_of, region_of])
def test_a_compiled_look_up_shows_no_record_of_after_a_truncation(ram_path, look_up):
    assert found_around_a_cut(ram_path, look_up, is_planted=False) is None


@pytest.mark.parametrize("look_up", [record_of, region_of])
def test_planted_a_compiled_look_up_that_misses_a_truncation_is_found(ram_path, look_up):
    """Planted in the generation, for the comparison is compiled: it is that of before the truncation again."""
    assert b"hidden 0" in found_around_a_cut(ram_path, look_up, is_planted=True)


def deleted_before_its_list(path: Path, monkeypatch: pytest.MonkeyPatch, look: Look, beside: bool) -> object:
    """Return what a committed look finds of an aborted record that is deleted before the list is read."""
    with open_log(path) as log:
        log.append([b"aborted"], producer=ProducerStamp(5, 0, 0, True))
        log.replica.append_control(Marker.ABORT, producer_id=5, producer_epoch=0)
        log.maintenance.roll()
        log.append([b"last"])
        reader = open_log(path, read_only=True) if beside else log
        kind = type(reader)
        honest = kind._aborted_between

        def late(self, start, end):
            log.delete_before(2)
            if beside:
                self.refresh()
            return honest(self, start, end)

        monkeypatch.setattr(kind, "_aborted_between", late)
        try:
            return look(reader)
        finally:
            monkeypatch.undo()
            reader.close()


COMMITTED = {
    "read": lambda log: log.read(0, isolation="read_committed").values(),
    "region": lambda log: log.replica.fetch_region(0, isolation="read_committed").aborted,
}


@pytest.mark.parametrize("beside", [False, True])
def test_a_deletion_between_the_records_and_the_list_shows_no_aborted_record(ram_path, monkeypatch, beside):
    with pytest.raises(OffsetOutOfRangeError, match="offset 0 is out of range, the log holds 2 to 2"):
        deleted_before_its_list(ram_path, monkeypatch, COMMITTED["read"], beside)


@pytest.mark.parametrize("compiled", [True, False])
def test_a_region_that_is_deleted_before_its_list_is_read_is_not_given(ram_path, monkeypatch, compiled):
    """The compiled call asks for the list itself; the steps behind it do where there is anything unusual."""
    with open_log(ram_path) as log:
        log.append([b"aborted"], producer=ProducerStamp(5, 0, 0, True))
        log.replica.append_control(Marker.ABORT, producer_id=5, producer_epoch=0)
        log.maintenance.roll()
        log.append([b"last"])
        asked, honest = [], Transactions.aborted_between
        assert len(COMMITTED["region"](log)) == 1

        def late(self, start, end):
            asked.append(start)
            log.delete_before(2)
            return honest(self, start, end)

        monkeypatch.setattr(Transactions, "aborted_between", late)
        if not compiled:
            monkeypatch.setattr(type(log._state), "_fetch_region", lambda *_: None, raising=False)
        with pytest.raises(OffsetOutOfRangeError):
            COMMITTED["region"](log)
        assert asked
        assert set(asked) == {0}


def test_planted_a_list_of_after_a_deletion_is_found(ram_path, monkeypatch):
    plant = pytest.MonkeyPatch()
    plant.setattr(Readable, "_aborted_in", lambda self, view, start, end: self._aborted_between(start, end))
    try:
        assert b"aborted" in deleted_before_its_list(ram_path, monkeypatch, COMMITTED["read"], False)
    finally:
        plant.undo()


@pytest.mark.parametrize("beside", [False, True])
def test_a_closed_log_tells_what_it_had(ram_path, beside):
    with open_log(ram_path) as log:
        log.append([b"value"])
        reader = open_log(ram_path, read_only=True) if beside else log
        facts = (reader.replica.generation, reader.maintenance.size, reader.maintenance.segment_count)
        reader.close()
        assert (reader.replica.generation, reader.maintenance.size, reader.maintenance.segment_count) == facts


def test_a_roll_is_no_reason_to_doubt_damage(ram_path):
    """Segments that were added since leave the view as it was."""
    with open_log(ram_path) as log:
        log.append([b"value"])
        view = log._view()
        log.maintenance.roll()
        log.append([b"value"])
        assert log._is_latest(view)
        log.delete_before(1)
        assert not log._is_latest(view)


@pytest.mark.parametrize("step", ["before the marks are lowered", "before the files are cut"])
def test_a_read_that_begins_inside_a_truncation_finds_no_gap(tmp_path, monkeypatch, step):
    """Its view had the old end and the new generation: the records that were cut meanwhile looked like a gap."""
    found: list[object] = []
    is_cut, is_settled = threading.Event(), threading.Event()

    def view(log: Log) -> View:
        taken = whole_view(log)
        if threading.current_thread() is not main and not found:
            found.append(taken)
            has_begun.set()
            assert is_cut.wait(60)
        return taken

    def read() -> None:
        try:
            found.append(log.read(7))
        except OffsetOutOfRangeError as error:
            found.append(error)
        finally:
            is_settled.set()

    def begin() -> None:
        reader.start()
        assert has_begun.wait(60)

    def write_durably(durability: Durability, **changes: object) -> None:
        whole_write(durability, **changes)
        if step == "before the marks are lowered":
            begin()

    def drop(segments: Segments, *args: object) -> None:
        if step == "before the files are cut" and not has_begun.is_set():
            begin()
        whole_drop(segments, *args)

    def wait_for_rest(log: Log) -> None:
        is_settled.set()
        whole_wait(log)

    def end_change(segments: Segments) -> None:
        is_cut.set()
        # The reader has an answer, or waits for the end of the truncation.
        assert is_settled.wait(60)
        SegmentSet.end_change(segments)

    main, has_begun = threading.current_thread(), threading.Event()
    reader = threading.Thread(target=read, daemon=True)
    whole_view, whole_wait = Log._view, Log._wait_for_rest
    whole_write, whole_drop = Durability.write_durably_locked, Segments.drop
    # One segment is cut, of several the last ones are removed.
    settings = {} if step == "before the marks are lowered" else {"segment_bytes": 600}
    with open_log(tmp_path, **settings) as log:
        for n in range(10):
            log.append([b"%d" % n + bytes(100)])
        monkeypatch.setattr(Log, "_view", view)
        monkeypatch.setattr(Log, "_wait_for_rest", wait_for_rest)
        monkeypatch.setattr(Durability, "write_durably_locked", write_durably)
        monkeypatch.setattr(Segments, "drop", drop)
        monkeypatch.setattr(Segments, "end_change", end_change, raising=False)
        assert log.replica.truncate_to(2) == 2
        reader.join(60)
        assert not reader.is_alive()
        monkeypatch.undo()
    assert isinstance(found[-1], OffsetOutOfRangeError), found
    assert found[-1].offset == 7
