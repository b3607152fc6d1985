"""``logstore offsets``: committed offsets and lag of groups."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import tzinfo

import click

from logstore.cli import completion, output
from logstore.cli.param_types import OFFSET, PARTITION, Begin, iso, isolation_option, zone_option
from logstore.cli.positions import offset_in
from logstore.cli.store_option import StoreOptions, json_option, reach_options
from logstore.client.store import AnyStore
from logstore.clock import SYSTEM_CLOCK
from logstore.errors import ConsumerError
from logstore.records import TopicPartition


@click.group()
def offsets() -> None:
    """List, set and delete committed offsets; show lag.

    A committed offset is the offset of the next record that a group will read.
    """


@offsets.command("list")
@click.argument("group", required=False, shell_complete=completion.groups)
@json_option
@zone_option
@reach_options
def list_offsets(group: str | None, as_json: bool, zone: tzinfo, options: StoreOptions) -> None:
    """List the committed offsets of a GROUP, or of all groups.

    JSON: group, topic, partition, offset, metadata, committed (ISO 8601), commit_ms.
    """
    with options.reach(read_only=True) as store:
        rows = [
            {
                "group": name,
                "topic": partition.topic,
                "partition": partition.partition,
                "offset": commit.offset,
                "committed": iso(commit.commit_ms // 1000 * 1000, zone),
                "metadata": commit.metadata,
                "commit_ms": commit.commit_ms,
            }
            for name in ([known_group(store, group)] if group else store.offsets.groups())
            for partition, commit in sorted(store.committed(name).items())
        ]
    columns = ("group", "topic", "partition", "offset", "committed", "metadata")
    output.print_rows(rows, as_json=as_json, columns=columns)


@offsets.command()
@click.argument("group", shell_complete=completion.groups)
@isolation_option()
@json_option
@reach_options
def lag(group: str, isolation: str, as_json: bool, options: StoreOptions) -> None:
    """Print the lag of a GROUP: the number of records still to be read, and the age of the first in seconds.

    JSON: topic, partition, offset, end_offset, records, seconds, lost (offsets that were deleted unread).
    """
    with options.reach(read_only=True) as store:
        rows = [
            {"topic": each.partition.topic, **each._asdict(), "partition": each.partition.partition}
            for each in store.lag(known_group(store, group), isolation=isolation)
        ]
    output.print_rows(rows, as_json=as_json)


@offsets.command("set")
@click.argument("group", shell_complete=completion.groups)
@click.argument("places", nargs=-1, required=True, type=OFFSET, shell_complete=completion.partitions)
@zone_option
@reach_options
def set_offsets(
    group: str, places: tuple[tuple[TopicPartition, Begin], ...], zone: tzinfo, options: StoreOptions
) -> None:
    """Commit offsets for a GROUP: TOPIC:PARTITION=WHERE ... On an error none is committed.

    WHERE is an offset, beginning, end, -N or @TIME. Durable when the command ends.
    """
    with options.reach(read_only=True) as store:
        wanted = {name: _offset(store, name, begin) for name, begin in places}
        store.commit_offsets(group, wanted, ack="synced")
    for name, offset in wanted.items():
        output.line(f"{name.topic}:{name.partition}={offset}")


def known_group(store: AnyStore, group: str) -> str:
    """Return a group's name if it has committed offsets: a misspelt group would seem to have no lag.

    Raises:
        ConsumerError: it has committed nothing.
    """
    known = store.offsets.groups()
    if group in known:
        return group
    shown = ", ".join(known[:10]) or "none"
    raise ConsumerError(f"group {group!r} has committed no offsets here (groups that have: {shown})")


def _offset(store: AnyStore, name: TopicPartition, begin: Begin) -> int:
    return offset_in(store[name.topic][name.partition], begin, SYSTEM_CLOCK.now_ms())


@offsets.command()
@click.argument("group", shell_complete=completion.groups)
@click.argument("places", nargs=-1, type=PARTITION, shell_complete=completion.partitions)
@click.option("--yes", is_flag=True, help="Delete all of the group's offsets, if no partitions are named.")
@reach_options
def delete(group: str, places: tuple[tuple[str, int | None], ...], yes: bool, options: StoreOptions) -> None:
    """Delete committed offsets of a GROUP: of TOPIC or TOPIC:PARTITION ..., or with --yes all."""
    if not places and not yes:
        raise click.UsageError("every offset of the group would be deleted; name topics, or give --yes")
    with options.reach(read_only=True) as store:
        wanted = list(_meant(places, store.committed(group))) if places else None
        count = store.offsets.delete(group, wanted, ack="synced")
    output.say(f"{count} offset(s) deleted")


def _meant(places: tuple[tuple[str, int | None], ...], known: Iterable[TopicPartition]) -> Iterable[TopicPartition]:
    for partition in known:
        if (partition.topic, None) in places or (partition.topic, partition.partition) in places:
            yield partition
