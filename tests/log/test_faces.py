"""The public names of a log: few for users, those of brokers and of maintenance on faces of their own."""

from __future__ import annotations

import gc
import weakref

import pytest

from logstore._segment import Segment
from logstore.errors import ReadOnlyError
from logstore.log.read.reader import _MOVED
from tests.log.logs import open_log


def public(thing) -> set[str]:
    return {name for name in dir(type(thing)) if not name.startswith("_")}


def test_a_name_that_moved_to_a_face_works_with_a_warning(tmp_path):
    with open_log(tmp_path) as log:
        log.append([b"a"])
        for name, moved in _MOVED.items():
            face, inner = moved.split(".")
            assert inner in public(getattr(log, face)), moved
            with pytest.warns(DeprecationWarning, match=rf"Log.{name} is Log.{moved} now") as caught:
                getattr(log, name)
            assert caught[0].filename == __file__
        with pytest.warns(DeprecationWarning, match="leader_epoch"):
            assert log.leader_epoch == 0
        with pytest.raises(AttributeError, match="'Log' object has no attribute 'nothing'"):
            log.nothing  # noqa: B018


def test_the_faces_of_a_reader_refuse_to_write(tmp_path):
    with open_log(tmp_path) as log:
        log.append([b"a"])
        with open_log(tmp_path, read_only=True) as reader:
            assert reader.maintenance.segment_count == 1
            assert reader.replica.epochs.latest == log.replica.epochs.latest
            for refused in (reader.replica.truncate_to, reader.maintenance.roll, reader.append):
                with pytest.raises(ReadOnlyError, match="open it without read_only=True"):
                    refused(0)


def test_a_face_makes_no_cycle(tmp_path):
    """A closed log that was asked for its faces is freed at once, without the collector of cycles."""
    gc.collect()
    gc.disable()
    try:
        log = open_log(tmp_path)
        assert log.replica.leader_epoch == 0
        assert log.maintenance.segment_count == 1
        log.close()
        dead = weakref.ref(log)
        del log
        assert dead() is None
    finally:
        gc.enable()


def test_a_segment_has_few_methods():
    methods = [name for name in dir(Segment) if not name.startswith("_") and callable(getattr(Segment, name))]
    assert len(methods) <= 25, methods
