"""The order of a log's marks: asserted at each move, and by no more than a comparison."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from logstore import Log
from logstore.clock import SYSTEM_CLOCK
from logstore.log.marks._marks import LogMarks
from logstore.log.marks.policies import FixedPolicy, Moves
from tests.kit.inside import state_of
from tests.log.logs import open_log
from tests.test_layering import SRC

LOG = SRC / "logstore" / "log"

#: Every call that moves a mark by itself, without `LogMarks`.
_MOVES = re.compile(r"\b(last_stable|high_watermark|synced|mark)\.(?:advance|reset)\(")


def marks(start: int = 2, end: int = 10, synced: int = 4, visible: int = 8) -> LogMarks:
    return LogMarks(start, end, synced, visible, SYSTEM_CLOCK, None)


#: Moves that end in the wrong order.
WRONG: dict[str, Callable[[LogMarks], object]] = {
    "a high watermark above the end": lambda moved: moved.raise_visible(11, 8),
    "a last stable offset above the high watermark": lambda moved: moved.raise_visible(8, 9),
    "a synced end above the end": lambda moved: moved.raise_synced(11),
    "a synced end set back above the end": lambda moved: moved.lower_synced(11),
    "a log start above the high watermark": lambda moved: moved.raise_start(9),
    "an end below the synced end": lambda moved: moved.lower(3, 2),
    "an end below the log start": lambda moved: (moved.lower_synced(0), moved.lower(1, 1)),
}


@pytest.mark.parametrize("move", WRONG.values(), ids=[name.replace(" ", "-") for name in WRONG])
def test_a_move_into_a_wrong_order_is_refused(move: Callable[[LogMarks], object]) -> None:
    with pytest.raises(AssertionError, match="LogMarks"):
        move(marks())


def test_moves_in_the_right_order_are_made() -> None:
    moved = marks()
    assert moved.raise_visible(9, 7)
    assert not moved.raise_visible(9, 7)
    assert not moved.raise_visible(3, 3)
    moved.raise_synced(10)
    moved.raise_start(7)
    moved.lower_synced(8)
    moved.lower(8, 8)
    assert (moved.log_start, moved.last_stable.value, moved.high_watermark.value) == (7, 7, 8)
    moved.restart(20)
    assert {mark.value for mark in (moved.last_stable, moved.high_watermark, moved.end, moved.synced)} == {20}


CALLS: dict[str, Callable[[Log], object]] = {
    "append": lambda log: log.append([b"value"]),
    "append-synced": lambda log: log.append([b"value"], ack="synced"),
    "delete-before": lambda log: log.delete_before(4),
    "advance-high-watermark": lambda log: log.replica.advance_high_watermark(8),
    "move-marks": lambda log: state_of(log).move_marks_locked(),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_planted_a_synced_end_above_the_log_end_is_found_by_the_next_move(
    tmp_path: Path, call: Callable[[Log], object]
) -> None:
    with open_log(tmp_path, policy=FixedPolicy(Moves.FROM_OUTSIDE)) as log:
        log.append([b"%d" % n for n in range(10)])
        log.replica.advance_high_watermark(5)
        state_of(log).synced.reset(1_000)
        with pytest.raises(AssertionError, match="synced 1000"):
            call(log)
        state_of(log).synced.reset(0)


def test_no_module_moves_a_mark_but_its_owner() -> None:
    """Only so the order is asserted at each move. The log end offset rises alone: nothing is above it."""
    found = {
        (path.name, match[0])
        for path in [*LOG.rglob("*.py"), *LOG.rglob("*.pyx")]
        if path.name not in ("_marks.pyx", "_watermark.pyx")
        for match in _MOVES.finditer(path.read_text())
    }
    # `PartitionLog._move_marks`, of each append.
    assert found == {("_partition_log.pyx", "mark.advance("), ("_partition_log.pyx", "last_stable.advance(")}
