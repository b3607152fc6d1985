"""A conditional append: written at the offset that it names, or not at all."""

from __future__ import annotations

import threading

import pytest

from logstore.errors import ExpectedOffsetError, UnexpectedOffsetError
from logstore.records import AppendResult
from tests.log.logs import open_log, values_of


def test_an_append_that_names_the_end_is_written_there(tmp_path):
    with open_log(tmp_path) as log:
        assert log.append([b"a"], expect=0) == AppendResult(0, 0)
        assert log.append([b"b", b"c"], expect=1).last_offset == 2
        assert values_of(log) == [b"a", b"b", b"c"]


@pytest.mark.parametrize("expect", [0, 1, 3, -1, 10**30])
def test_an_append_that_names_another_offset_changes_nothing(tmp_path, expect):
    with open_log(tmp_path) as log:
        log.append([b"a", b"b"])
        before = log.metrics()
        with pytest.raises(ExpectedOffsetError, match=f"expects offset {expect}, the log ends at 2") as raised:
            log.append([b"c"], expect=expect)
        assert (raised.value.found, raised.value.expected) == (2, expect)
        assert isinstance(raised.value, UnexpectedOffsetError)
        assert raised.value.code == 1
        assert log.metrics() == before
        assert values_of(log) == [b"a", b"b"]


def test_of_threads_that_read_decide_and_append_each_decision_stands_on_what_it_has_read(tmp_path):
    """A counter without a lock: every value is one more than the one before, by any writer."""
    with open_log(tmp_path) as log:
        log.append([b"0"])
        lost = []

        def count() -> None:
            written = 0
            while written < 25:
                end = log.log_end_offset
                newest = int(log.record_at(end - 1).value)
                try:
                    log.append([b"%d" % (newest + 1)], expect=end)
                    written += 1
                except ExpectedOffsetError as error:
                    lost.append(error)
                    assert error.found > end

        threads = [threading.Thread(target=count) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert values_of(log) == [b"%d" % n for n in range(101)]
