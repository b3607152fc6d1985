"""Ranges read ahead by threads: every piece once, in turns, with a bounded number of pieces held."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.client.scan.read_ahead import read_ahead
from logstore.errors import ForkedError, OffsetOutOfRangeError
from tests.kit.waiting import wait_for


def threads() -> int:
    return sum(each.name == "logstore-scan" for each in threading.enumerate())


def by_turns(ranges: list[list[int]], at_once: int) -> list[int]:
    """The order that is promised, slowly."""
    waiting, row, found = [list(each) for each in ranges], [], []
    while waiting or row:
        while waiting and len(row) < at_once:
            row.append(waiting.pop(0))
        first = row.pop(0)
        if first:
            found.append(first.pop(0))
            row.append(first)
    return found


@given(st.lists(st.lists(st.integers(), max_size=4), max_size=7), st.integers(1, 5))
def test_every_piece_comes_once_and_ranges_take_turns(ranges: list[list[int]], at_once: int) -> None:
    found = list(read_ahead([lambda each=each: iter(each) for each in ranges], at_once))
    assert found == by_turns(ranges, at_once)


def test_ranges_are_read_at_once_and_no_more_than_allowed() -> None:
    """Three must be in their first read together, or none goes on; a fourth does not begin beside them."""
    met = threading.Barrier(3)
    begun: list[int] = []

    def range_of(number: int) -> Callable[[], Iterator[int]]:
        def pieces() -> Iterator[int]:
            begun.append(number)
            if number < 3:
                met.wait(60)
                assert sorted(begun) == [0, 1, 2]
            yield number

        return pieces

    assert list(read_ahead(map(range_of, range(5)), 3)) == [0, 1, 2, 3, 4]


def test_of_each_range_one_piece_is_ready_and_one_is_read() -> None:
    read: list[list[int]] = [[], []]

    def range_of(number: int) -> Iterator[int]:
        for piece in range(20):
            read[number].append(piece)
            yield piece

    pieces = read_ahead([lambda: range_of(0), lambda: range_of(1)], 2)
    for taken in range(40):
        next(pieces)
        # What was taken, what is ready and what waits for its place.
        most = [min(20, 2 + (taken + 2) // 2), min(20, 2 + (taken + 1) // 2)]
        wait_for(lambda most=most: [len(each) for each in read] == most, what=f"{read}, expected {most}")
    assert list(pieces) == []


def test_an_error_comes_in_its_turn_after_the_pieces_before_it() -> None:
    def fails() -> Iterator[int]:
        yield 1
        raise OffsetOutOfRangeError("gone", offset=2)

    pieces = read_ahead([fails, lambda: iter([10, 20, 30])], 2)
    assert [next(pieces), next(pieces)] == [1, 10]
    with pytest.raises(OffsetOutOfRangeError, match="gone"):
        next(pieces)
    assert list(pieces) == []
    wait_for(lambda: not threads())


def test_an_iterator_that_is_dropped_ends_its_threads_and_their_ranges() -> None:
    ended = threading.Semaphore(0)

    def endless() -> Iterator[int]:
        try:
            while True:
                yield 0
        finally:
            ended.release()

    pieces = read_ahead([endless, endless, endless], 2)
    assert next(pieces) == 0
    pieces.close()
    assert ended.acquire(timeout=60)
    assert ended.acquire(timeout=60)
    wait_for(lambda: not threads())


def test_nothing_is_read_before_the_first_piece_is_asked_for() -> None:
    read_ahead([lambda: pytest.fail("read")], 1)
    assert not threads()


def test_it_is_refused_after_a_fork() -> None:
    pieces = read_ahead([lambda: iter("abc")], 1)
    assert next(pieces) == "a"

    child = os.fork()
    if not child:
        try:
            next(pieces)
        except ForkedError as error:
            os._exit(0 if "call topic.scan() in the child" in str(error) else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert next(pieces) == "b"
