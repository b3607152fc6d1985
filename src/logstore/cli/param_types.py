"""Parameter types of the command line: positions, times, partitions and offsets.

Each is a `click.ParamType`, so that a wrong word is refused with its option's name before the command runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, cast

import click

from logstore.config.quantities import time_ms, zone_of
from logstore.records import Isolation, TopicPartition

if TYPE_CHECKING:
    Param = click.ParamType[Any]
else:
    Param = click.ParamType  # not generic in older releases


class Begin(NamedTuple):
    """Position to begin at in a partition: one of three is set; none means its log start."""

    offset: int | None = None  #: negative: so many before the end
    time: str | None = None
    end: bool = False
    zone: tzinfo | None = None  #: of a time without one; None is UTC


F = TypeVar("F", bound=Callable[..., Any])

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

#: Key of the command's zone in the context while its other words are parsed.
ZONE = "logstore.zone"


def iso(timestamp_ms: int, zone: tzinfo) -> str:
    """Return a timestamp in ISO 8601 in a zone; the number itself if no date can be that early or late."""
    try:
        moment = _EPOCH + timedelta(milliseconds=timestamp_ms)
        return moment.astimezone(zone).isoformat(timespec="milliseconds" if timestamp_ms % 1000 else "seconds")
    except OverflowError:
        return str(timestamp_ms)


T = TypeVar("T")


class Parsed(Param, Generic[T]):
    """A type of one word of the command line: a function parses it, or raises ValueError with what is wrong."""

    def __init__(self, name: str, parse: Callable[[str, dict[str, Any]], T]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: str | T, param: click.Parameter | None, ctx: click.Context | None) -> T:
        if not isinstance(value, str):
            return value
        try:
            return self._parse(value, {} if ctx is None else ctx.meta)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _zone(word: str, meta: dict[str, Any]) -> tzinfo:
    """Parse a time zone, and keep it for the times that it applies to."""
    meta[ZONE] = zone_of(word)
    return cast(tzinfo, meta[ZONE])


def _begin(word: str, meta: dict[str, Any]) -> Begin:
    """Parse ``beginning``, ``end``, an offset, ``-N`` or ``@TIME`` (in ``--tz`` unless it names a zone)."""
    if word in ("beginning", "earliest", "start"):
        return Begin()
    if word in ("end", "latest"):
        return Begin(end=True)
    if word.startswith("@"):
        time_ms(word[1:], 0)  # a wrong time is refused before the command runs
        return Begin(time=word[1:], zone=meta.get(ZONE))
    try:
        return Begin(offset=int(word))
    except ValueError:
        raise ValueError(f"expected beginning, end, an offset, -N or @TIME, found {word!r}") from None


def _partition(word: str, _meta: dict[str, Any]) -> tuple[str, int | None]:
    """Parse ``TOPIC:PARTITION``, or a topic alone."""
    topic, colon, number = word.rpartition(":")
    if not colon:
        return word, None
    if not number.isascii() or not number.isdigit() or not topic:
        raise ValueError(f"expected TOPIC or TOPIC:PARTITION, found {word!r}")
    return topic, int(number)


def _offset(word: str, meta: dict[str, Any]) -> tuple[TopicPartition, Begin]:
    """Parse ``TOPIC:PARTITION=WHERE``, where WHERE is an offset, beginning, end or @TIME."""
    name, sign, where = word.partition("=")
    topic, number = _partition(name, meta)
    if not sign or number is None:
        raise ValueError(f"expected TOPIC:PARTITION=OFFSET, found {word!r}")
    return TopicPartition(topic, number), _begin(where, meta)


def _pair(word: str, _meta: dict[str, Any]) -> tuple[str, str]:
    """Parse ``KEY=VALUE``."""
    key, sign, value = word.partition("=")
    if not sign or not key:
        raise ValueError(f"expected KEY=VALUE, found {word!r}")
    return key, value


_ZONE = Parsed("zone", _zone)
WHERE = Parsed("where", _begin)
PARTITION = Parsed("topic:partition", _partition)
OFFSET = Parsed("topic:partition=where", _offset)
PAIR = Parsed("key=value", _pair)


def all_of(*decorators: Callable[[F], F]) -> Callable[[F], F]:
    """Combine several options into one decorator; the help lists them in this order."""

    def decorated(command: F) -> F:
        for each in reversed(decorators):
            command = each(command)
        return command

    return decorated


partitions_option = click.option(
    "-p", "--partition", "partitions", type=int, multiple=True, help="Only this partition; may be repeated."
)

#: ``--from`` and ``--until``, passed as ``begin`` and ``end``; see `positions.offset_in`.
range_options = all_of(
    click.option(
        "-o", "--from", "begin", type=WHERE, default="beginning", show_default=True, help="OFFSET, -N or @TIME."
    ),
    click.option(
        "-u", "--until", "end", type=WHERE, default="end", show_default=True, help="End of the range (exclusive)."
    ),
)


def zone_option(command: F) -> F:
    """Add ``--tz``, passed as ``zone``; it applies to every `WHERE` of the command."""
    return click.option(
        "--tz",
        "zone",
        type=_ZONE,
        default="UTC",
        show_default=True,
        is_eager=True,  # parsed before the times that it applies to
        help="The zone of times: Europe/Berlin, +02:00, or local.",
    )(command)


def isolation_option(default: Isolation = Isolation.READ_UNCOMMITTED) -> Callable[[F], F]:
    """Add ``--isolation``."""
    return click.option(
        "--isolation",
        type=click.Choice([level.value for level in Isolation]),
        default=default.value,
        show_default=True,
        help="Whether records of open and aborted transactions are seen.",
    )


def setting_keys(*scopes: str, sign: str = "") -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Return a completer of the keys of topics, brokers, producers or consumers that have an effect here."""

    def complete(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
        from logstore.config import client as client_config
        from logstore.config import log as log_config
        from logstore.config import store as store_config

        known: dict[str, Iterable[str]] = {
            "topic": log_config.DEFAULTS,
            "broker": store_config.DEFAULTS,
            **client_config.DEFAULTS,
        }
        found = {key for scope in scopes for key in known[scope] if key.startswith(incomplete)}
        return [key + sign for key in sorted(found)]

    return complete
