"""Inner parts of a log for tests that damage, interrupt or inspect it: the one module that reaches them.

`tests/project/test_kit.py` refuses private attributes of a log elsewhere, outside of `tests/log`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from logstore._segment import Segment
from logstore.errors import StorageError
from logstore.log import Log
from logstore.log._producers import Producers
from logstore.log.read.live_reader import LogReader
from logstore.log.state import State
from logstore.records import AbortedTransaction


def state_of(log: Log) -> State:
    """Return the state of a log that is open, for tests that interrupt its steps."""
    return log._state


def on_encoded_append(monkeypatch: pytest.MonkeyPatch, before: Callable[[Log], object]) -> None:
    """Have a function called before each append of records that were encoded beforehand; it may raise."""
    honest = Log._append_encoded

    def append(log: Log, encoder: Any, *, ack: Any = None) -> Any:
        before(log)
        return honest(log, encoder, ack=ack)

    monkeypatch.setattr(Log, "_append_encoded", append)


def finish_rolls(log: Log) -> None:
    """Do now what rolls leave to the background."""
    log._state.rolls.finish()


def have_more_to_sync(log: Log) -> None:
    """Have the next round of syncs take the steps of `Flusher`: a file has a new name, as far as the log knows."""
    log._state.unsynced.names_changed()


def failure_of(log: Log) -> StorageError | None:
    """Return what has failed the log, or None while it takes writes."""
    return log._state.failed


def is_closed(log: Log) -> bool:
    return log._state.closed


def segments_of(log: Log) -> tuple[Segment, ...]:
    return log._state.segments.all


def headers_of(log: Log) -> list[tuple[Any, ...]]:
    """Return the headers of all batches in the log's files: base offset, last offset, ..."""
    return [header for segment in segments_of(log) for header in segment.index.headers()]


def producers_of(log: Log) -> Producers:
    """Return what the log knows of its producers."""
    return log._state.transactions.producers


def aborted_in(log: Log) -> list[AbortedTransaction]:
    return log._aborted_between(0, log.log_end_offset)


def published_generation(reader: Any) -> int:
    """Return the generation of the log that a reader beside its writer has seen."""
    return reader._published.generation


def published_file_of(log: Log) -> Any:
    """Return the published end of a log as its writer sees it."""
    return log._state.published


def dropped_appenders_of(log: Log) -> Iterable[Any]:
    return log._dropped_appenders


def locks_of(log: Log) -> dict[str, Any]:
    """Return the locks that a call to a log may hold, by what it does."""
    return {"append": log._state.lock, "compaction": log._state.compacting}


def spare_bytes(producer: Any) -> int:
    """Bytes of the encoders that a producer keeps for its next batches."""
    return int(producer._shared.spare_bytes)


def awaited_by(consumer: Any) -> int:
    """Return how many logs will notify a consumer of their next record."""
    return sum(registration.is_armed for registration in consumer._fetcher._listener._registrations.values())


def count_reads(monkeypatch: Any, read: list[int]) -> None:
    """Add the offset of each read of any log to a list."""
    honest = Log._read

    def counting(self: Log, offset: int, *rest: Any) -> Any:
        read.append(offset)
        return honest(self, offset, *rest)

    monkeypatch.setattr(Log, "_read", counting)


def interrupt_behind_an_append(monkeypatch: Any, log: Log) -> None:
    """Raise KeyboardInterrupt behind the next append of a batcher, which is written."""
    for name in ("_append_encoded", "_append_encoded_turn"):
        monkeypatch.setattr(log, name, _interrupted_behind(monkeypatch, getattr(log, name)), raising=False)


def _interrupted_behind(monkeypatch: Any, append: Callable[..., object]) -> Callable[..., None]:
    def interrupted(*arguments: Any, **options: Any) -> None:
        append(*arguments, **options)
        monkeypatch.undo()
        raise KeyboardInterrupt

    return interrupted


def append_together(log: Log, encoders: list[Any], producers: list[Any]) -> list[Any]:
    """Append the batches of several encoders as an accumulator does."""
    return log._append_encoded_turn(encoders, producers)


def at_the_next_look(monkeypatch: Any, reader: Any, act: Callable[[], object]) -> None:
    """Do something just behind the moment in which a reader looks where the log ends."""
    honest = type(reader)._view

    def view(self: Any) -> Any:
        found = honest(self)
        monkeypatch.undo()
        act()
        return found

    monkeypatch.setattr(type(reader), "_view", view)


def believe_published(monkeypatch: Any) -> None:
    """Plant a reader that takes the published end for true, however old the file is."""
    monkeypatch.setattr(LogReader, "_read_published", lambda self: self._published_file.read())
