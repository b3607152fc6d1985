"""Words of the command line that mean places and times: where to begin, which partition, which offset.

Each is a `click.ParamType`, so that a wrong word is refused with its option's name before anything runs.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from logstore.records import TopicPartition

if TYPE_CHECKING:
    Word = click.ParamType[Any]
else:
    Word = click.ParamType  # no generic in older releases

_AGO = re.compile(r"-(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")
_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}


class Begin(NamedTuple):
    """Where to begin in a partition; one of the three is set, none of them: at its log start."""

    offset: int | None = None  #: below 0: so many before the end
    time: str | None = None
    end: bool = False


def time_ms(word: str, now_ms: int) -> int:
    """Milliseconds since 1970 of a time word: a number of ms, ISO 8601, or a while ago such as ``-2h``.

    A date or time without a zone is UTC.

    >>> time_ms("-2h", 10_000_000), time_ms("1970-01-02", 0), time_ms("1970-01-01T02:00:00+01:00", 0)
    (2800000, 86400000, 3600000)

    Raises:
        ValueError: it is none of them.
    """
    if word.isascii() and word.isdigit():
        return int(word)
    ago = _AGO.fullmatch(word)
    if ago is not None:
        return now_ms - int(float(ago[1]) * _UNITS_MS[ago[2]])
    try:
        found = datetime.fromisoformat(word)
    except ValueError:
        raise ValueError(
            f"expected milliseconds, a date like 2026-11-21T10:00:00Z, or -2h; found {word!r}"
        ) from None
    moment = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


class BeginWord(Word):
    """``beginning``, ``end``, an offset, ``-N`` (the last N), or ``@TIME``."""

    name = "where"

    def convert(self, value: str | Begin, param: click.Parameter | None, ctx: click.Context | None) -> Begin:
        if isinstance(value, Begin):
            return value
        if value in ("beginning", "earliest", "start"):
            return Begin()
        if value in ("end", "latest"):
            return Begin(end=True)
        if value.startswith("@"):
            try:
                time_ms(value[1:], 0)
            except ValueError as error:
                self.fail(str(error), param, ctx)
            return Begin(time=value[1:])
        try:
            return Begin(offset=int(value))
        except ValueError:
            self.fail(f"expected beginning, end, an offset, -N or @TIME, found {value!r}", param, ctx)


class PartitionWord(Word):
    """``TOPIC:PARTITION``, or a topic alone."""

    name = "topic:partition"

    def convert(
        self, value: str | tuple[str, int | None], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int | None]:
        if not isinstance(value, str):
            return value
        topic, colon, number = value.rpartition(":")
        if not colon:
            return value, None
        if not number.isascii() or not number.isdigit() or not topic:
            self.fail(f"expected TOPIC or TOPIC:PARTITION, found {value!r}", param, ctx)
        return topic, int(number)


class OffsetWord(Word):
    """``TOPIC:PARTITION=WHERE``, where WHERE is an offset, beginning, end or @TIME."""

    name = "topic:partition=where"

    def convert(
        self,
        value: str | tuple[TopicPartition, Begin],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> tuple[TopicPartition, Begin]:
        if not isinstance(value, str):
            return value
        place, sign, where = value.partition("=")
        topic, number = PartitionWord().convert(place, param, ctx)
        if not sign or number is None:
            self.fail(f"expected TOPIC:PARTITION=OFFSET, found {value!r}", param, ctx)
        return TopicPartition(topic, number), BeginWord().convert(where, param, ctx)


class PairWord(Word):
    """``KEY=VALUE``."""

    name = "key=value"

    def convert(
        self, value: str | tuple[str, str], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        if not isinstance(value, str):
            return value
        key, sign, rest = value.partition("=")
        if not sign or not key:
            self.fail(f"expected KEY=VALUE, found {value!r}", param, ctx)
        return key, rest


WHERE = BeginWord()
PARTITION = PartitionWord()
OFFSET = OffsetWord()
PAIR = PairWord()
