"""Filters that Spark pushes down, turned into narrower ranges.

Spark's filters are matched by the names of their classes, so that nothing of Spark is imported. Filters on topic
and partition, and most on offset, are applied exactly, and Spark need not repeat them. A filter on timestamp
narrows what is read, and Spark applies it again. All other filters are left to Spark. Pure values, no I/O.
"""

from __future__ import annotations

import datetime
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from logstore.client.backend.ranges import Range, RangeBackend
from logstore.records import INT64_MAX

_ALWAYS_THERE = ("topic", "partition", "offset", "timestamp", "timestampType")

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)

#: Filters of one column and one value, each with its test of a column's value.
_TESTS: dict[str, Callable[[Any, Any], bool]] = {
    "EqualTo": operator.eq,
    "EqualNullSafe": operator.eq,
    "GreaterThan": operator.gt,
    "GreaterThanOrEqual": operator.ge,
    "LessThan": operator.lt,
    "LessThanOrEqual": operator.le,
    "In": lambda found, values: found in values,
    "StringStartsWith": str.startswith,
    "StringEndsWith": str.endswith,
    "StringContains": operator.contains,
}


class PartitionFilter(NamedTuple):
    """PartitionFilter on a topic's name or a partition's number."""

    column: str
    test: str  #: of `_TESTS`
    value: Any
    negated: bool = False

    def holds(self, range: Range) -> bool:
        return _TESTS[self.test](getattr(range, self.column), self.value) is not self.negated


class Wanted(NamedTuple):
    """The part of its subscription that a query wants; can be pickled."""

    conditions: tuple[PartitionFilter, ...] = ()
    start: int = 0  #: offsets from here on
    end: int = INT64_MAX  #: exclusive
    since_ms: int | None = None
    until_ms: int | None = None  #: exclusive
    nothing: bool = False

    def narrowed(self, ranges: Iterable[Range], backend: RangeBackend) -> list[Range]:
        """Narrow ranges to this part; empty ones are left out."""
        found = []
        for range in ranges if not self.nothing else ():
            if not all(condition.holds(range) for condition in self.conditions):
                continue
            narrow = range._replace(start=max(range.start, self.start), end=min(range.end, self.end))
            if narrow.start < narrow.end and (self.since_ms is not None or self.until_ms is not None):
                narrow = backend.prune_by_time(narrow, self.since_ms, self.until_ms)
            if narrow.start < narrow.end:
                found.append(narrow)
        return found


EVERYTHING = Wanted()


def understand(filters: Sequence[Any]) -> tuple[Wanted, list[Any]]:
    """Return what filters want, and the filters that Spark has to apply itself."""
    wanted, left = EVERYTHING, []
    for filter in filters:
        wanted, exact = _taken(wanted, filter) or (wanted, False)
        if not exact:
            left.append(filter)
    return wanted, left


def _taken(wanted: Wanted, filter: Any) -> tuple[Wanted, bool] | None:
    """Add one filter to ``wanted``; return the result and whether it is exact, None if it cannot be used."""
    name, negated = type(filter).__name__, False
    if name == "Not":
        filter, negated = filter.child, True
        name = type(filter).__name__
    column = filter.attribute[0] if len(getattr(filter, "attribute", ())) == 1 else ""
    if column not in _ALWAYS_THERE:
        return None
    if name in ("IsNull", "IsNotNull"):
        return wanted._replace(nothing=wanted.nothing or (name == "IsNull") is not negated), True
    if name not in _TESTS:
        return None
    value = filter.value
    if name == "In":
        # In SQL a null in IN matches nothing, and NOT IN a list with a null is true for no row.
        if negated and any(one is None for one in value):
            return wanted._replace(nothing=True), True
        value = tuple(one for one in value if one is not None)
    elif value is None:
        unequal = name == "EqualNullSafe" and negated
        return wanted._replace(nothing=wanted.nothing or not unequal), True
    values = value if name == "In" else (value,)
    if column in ("topic", "partition"):
        kind: type = str if column == "topic" else int
        if not all(isinstance(one, kind) for one in values):
            return None
        condition = PartitionFilter(column, name, value, negated)
        return wanted._replace(conditions=(*wanted.conditions, condition)), True
    if negated:
        return None
    if column == "offset":
        return _with_offsets(wanted, name, values)
    return _with_times(wanted, name, values) if column == "timestamp" else None


def _with_offsets(wanted: Wanted, name: str, values: Sequence[Any]) -> tuple[Wanted, bool] | None:
    if not all(isinstance(one, int) for one in values):
        return None
    if not values:
        return wanted._replace(nothing=True), True
    interval = _interval(name, values)
    if interval is None:
        return None
    start, end = interval
    start = wanted.start if start is None else max(start, wanted.start)
    end = wanted.end if end is None else min(end, wanted.end)
    return wanted._replace(start=start, end=end), len(values) == 1


def _with_times(wanted: Wanted, name: str, values: Sequence[Any]) -> tuple[Wanted, bool] | None:
    if not values or not all(isinstance(one, datetime.datetime) and one.tzinfo is not None for one in values):
        return None
    interval = _interval(name, [(one - _EPOCH) // _MICROSECOND for one in values])
    if interval is None:
        return None
    # Spark's times are microseconds, records' milliseconds: both ends round up, or records would be lost.
    since, until = (None if micros is None else -(-micros // 1000) for micros in interval)
    if since is not None and (wanted.since_ms is None or since > wanted.since_ms):
        wanted = wanted._replace(since_ms=since)
    if until is not None and (wanted.until_ms is None or until < wanted.until_ms):
        wanted = wanted._replace(until_ms=until)
    return wanted, False


def _interval(name: str, values: Sequence[int]) -> tuple[int | None, int | None] | None:
    """Return the smallest interval of whole numbers that passes a filter, its end exclusive; None if unknown.

    An end that the filter leaves open is None.
    """
    if name in ("EqualTo", "EqualNullSafe", "In"):
        return min(values), max(values) + 1
    if name.startswith("GreaterThan"):
        return values[0] + (name == "GreaterThan"), None
    if name.startswith("LessThan"):
        return None, values[0] + (name == "LessThanOrEqual")
    return None
