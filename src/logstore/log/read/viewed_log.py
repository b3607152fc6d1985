"""Viewed log: what the modules that look up something in one view ask of a log. `Readable` has all of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from logstore._segment import Segment
from logstore.batch._batch import Batches
from logstore.config.log import LogConfig
from logstore.log.formats.leader_epochs import Epochs
from logstore.log.marks.view import View
from logstore.log.read.range import Bounds, Hint
from logstore.log.read.segment_holds import Hold
from logstore.records import Isolation, TopicPartition

_Answer = TypeVar("_Answer")


class ViewedLog(Protocol):
    """A log, as look-ups see it; the methods are described at `Readable`."""

    name: TopicPartition
    path: str
    _config: LogConfig

    def _view(self) -> View: ...
    def _of_one_moment(
        self, look: Callable[..., _Answer], view: View, hold: Hold | None = None, *arguments: object
    ) -> _Answer: ...
    def _at_segment(
        self, view: View, offset: int, look: Callable[[Segment], tuple[Any, ...] | None], end: int
    ) -> tuple[Any, ...] | None: ...
    def _read_at(
        self,
        view: View,
        hold: Hold | None,
        offset: int,
        max_bytes: int,
        isolation: Isolation,
        hint: Hint = None,
        bounds: Bounds = ...,
    ) -> tuple[Batches, Hint]: ...
    def _read_whole(
        self,
        view: View,
        hold: Hold | None,
        offset: int,
        max_bytes: int,
        isolation: Isolation,
        hint: Hint,
        bounds: Bounds,
    ) -> tuple[Batches, Hint]: ...
    def _run_of(
        self,
        view: View,
        end: int,
        found: tuple[Any, ...],
        offset: int,
        isolation: Isolation,
        bounds: Bounds,
        hold: Hold | None = None,
    ) -> Batches: ...
    def _check_range(self, offset: int, start: int, end: int) -> None: ...
    def _check_joined(self, segment: Segment) -> None: ...
    def _check_whole(self, view: View) -> None: ...
    def _is_contiguous(self) -> bool: ...
    def _segments_now(self) -> tuple[Segment, ...]: ...
    def _generation(self) -> int: ...
    def _epochs(self) -> Epochs: ...
