"""Parameter types of the command line: positions, times, partitions and offsets.

Each is a `click.ParamType`, so that a wrong word is refused with its option's name before the command runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

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


class ZoneParam(Param):
    """A time zone; it is parsed before the times that it applies to."""

    name = "zone"

    def convert(self, value: str | tzinfo, param: click.Parameter | None, ctx: click.Context | None) -> tzinfo:
        if isinstance(value, str):
            try:
                value = zone_of(value)
            except ValueError as error:
                self.fail(str(error), param, ctx)
        if ctx is not None:
            ctx.meta[ZONE] = value
        return value


def iso(timestamp_ms: int, zone: tzinfo) -> str:
    """Return a timestamp in ISO 8601 in a zone; the number itself if no date can be that early or late."""
    try:
        moment = _EPOCH + timedelta(milliseconds=timestamp_ms)
        return moment.astimezone(zone).isoformat(timespec="milliseconds" if timestamp_ms % 1000 else "seconds")
    except OverflowError:
        return str(timestamp_ms)


class BeginParam(Param):
    """``beginning``, ``end``, an offset, ``-N`` (the last N), or ``@TIME`` (in ``--tz`` unless it names a zone)."""

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
            return Begin(time=value[1:], zone=None if ctx is None else ctx.meta.get(ZONE))
        try:
            return Begin(offset=int(value))
        except ValueError:
            self.fail(f"expected beginning, end, an offset, -N or @TIME, found {value!r}", param, ctx)


class PartitionParam(Param):
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


class OffsetParam(Param):
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
        name, sign, where = value.partition("=")
        topic, number = PartitionParam().convert(name, param, ctx)
        if not sign or number is None:
            self.fail(f"expected TOPIC:PARTITION=OFFSET, found {value!r}", param, ctx)
        return TopicPartition(topic, number), BeginParam().convert(where, param, ctx)


class PairParam(Param):
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


WHERE = BeginParam()
_ZONE = ZoneParam()
PARTITION = PartitionParam()
OFFSET = OffsetParam()
PAIR = PairParam()


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
