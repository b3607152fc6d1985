"""``logstore topic``: the topics of a store or of a cluster."""

from __future__ import annotations

from datetime import tzinfo
from typing import Any

import click

from logstore.cli import completion, output
from logstore.cli.param_types import PAIR, WHERE, Begin, partitions_option, setting_keys, zone_option
from logstore.cli.positions import logs_of, offset_in
from logstore.cli.store_option import StoreOptions, json_option, reach_options, topic_options
from logstore.client.backend.facts import TopicDescription
from logstore.clock import SYSTEM_CLOCK
from logstore.store.catalog.topics import RETENTION_UNRECORDED


@click.group()
def topic() -> None:
    """Create, list, describe, alter, delete and trim topics."""


@topic.command("list")
@click.option("--internal", is_flag=True, help="List the store's internal topics, too.")
@json_option
@reach_options
def list_topics(internal: bool, as_json: bool, options: StoreOptions) -> None:
    """List the topics with their numbers of partitions.

    JSON: topic, partitions, id.
    """
    with options.reach(read_only=True) as store:
        rows = [
            {"topic": name, "partitions": len(store[name]), "id": store[name].id}
            for name in store.topics(internal=internal)
        ]
    output.print_rows(rows, as_json=as_json, columns=("topic", "partitions"))


@topic.command()
@click.argument("name")
@click.option("-p", "--partitions", type=int, help="Number of partitions; by default num.partitions.")
@click.option(
    "-c",
    "--setting",
    "settings",
    multiple=True,
    type=PAIR,
    shell_complete=setting_keys("topic", sign="="),
    help="A setting of the topic; may be repeated.",
)
@click.option("--if-not-exists", is_flag=True, help="Accept a topic that exists already.")
@topic_options
def create(
    name: str,
    partitions: int | None,
    settings: tuple[tuple[str, str], ...],
    if_not_exists: bool,
    options: StoreOptions,
) -> None:
    """Create a topic, and the store if there is none. Durable when the command ends.

    Its settings are given by -c, --set or --config, each as KEY=VALUE, such as --set retention.ms=7d.
    """
    with options.reach(read_only=False, create=True) as store:
        made = store.create_topic(
            name, partitions, {**options.of_topic, **dict(settings)}, if_not_exists=if_not_exists
        )
        output.say(f"topic {made.name} has {made.partition_count} partition(s)")


@topic.command()
@click.argument("names", nargs=-1, shell_complete=completion.topics)
@json_option
@reach_options
def describe(names: tuple[str, ...], as_json: bool, options: StoreOptions) -> None:
    """Describe a topic: its partitions' offsets and its own settings. Without a NAME, all topics.

    JSON, one object for each topic: topic, id, created_ms, internal, settings, retention_ms,
    retention_recorded, partitions (partition, log_start_offset, high_watermark, log_end_offset, size,
    segment_count).
    """
    with options.reach(read_only=True) as store:
        for number, name in enumerate(names or store.topics()):
            described = store.describe_topic(name)
            if as_json:
                output.print_json(_facts(described))
                continue
            if number:
                output.line()
            settings = ",".join(f"{key}={value}" for key, value in described.settings.items())
            output.line(f"topic {described.name}  id {described.id or '-'}  settings {settings or '-'}")
            if not described.retention_recorded:
                output.line(f"{RETENTION_UNRECORDED}; set retention.ms to choose")
            elif described.config.retention_ms >= 0 and "retention.ms" not in described.settings:
                kept_ms = described.config.retention_ms
                output.line(f"retention.ms={kept_ms}, by the store's settings or as it was made")
            output.print_rows([each._asdict() for each in described.partitions], as_json=False)


def _facts(described: TopicDescription) -> dict[str, Any]:
    return {
        "topic": described.name,
        "id": described.id,
        "created_ms": described.created_ms,
        "internal": described.internal,
        "settings": dict(described.settings),
        "retention_ms": described.config.retention_ms,
        "retention_recorded": described.retention_recorded,
        "partitions": [each._asdict() for each in described.partitions],
    }


@topic.command()
@click.argument("name", shell_complete=completion.topics)
@click.argument("settings", nargs=-1, type=PAIR, shell_complete=setting_keys("topic", sign="="))
@click.option(
    "--reset",
    multiple=True,
    metavar="KEY",
    shell_complete=setting_keys("topic"),
    help="Reset a setting to the topic's default.",
)
@click.option("--drop-keyless", is_flag=True, help="Delete records without a key when the topic becomes compacted.")
@topic_options
def alter(
    name: str,
    settings: tuple[tuple[str, str], ...],
    reset: tuple[str, ...],
    drop_keyless: bool,
    options: StoreOptions,
) -> None:
    """Change settings of a topic: KEY=VALUE ... On an error none is changed."""
    changes = {**options.of_topic, **dict(settings)}
    if not changes and not reset:
        raise click.UsageError("KEY=VALUE or --reset KEY is needed")
    if drop_keyless and options.bootstrap is not None:
        raise click.UsageError("--drop-keyless is of a store: brokers refuse no topic for records without a key")
    with options.reach(read_only=False) as store:
        more: dict[str, Any] = {"drop_keyless": True} if drop_keyless else {}
        left = store.alter_topic(name, {**changes, **dict.fromkeys(reset)}, **more)
    for key, value in left.items():
        output.line(f"{key}={value}")


@topic.command("add-partitions")
@click.argument("name", shell_complete=completion.topics)
@click.argument("total", type=int)
@reach_options
def add_partitions(name: str, total: int, options: StoreOptions) -> None:
    """Add partitions to a topic, up to TOTAL. New records of a key may then be in another partition."""
    with options.reach(read_only=False) as store:
        grown = store.add_partitions(name, total)
        output.say(f"topic {name} has {grown.partition_count} partition(s)")


@topic.command()
@click.argument("names", nargs=-1, required=True, shell_complete=completion.topics)
@click.option("--yes", is_flag=True, help="Do not ask.")
@reach_options
def delete(names: tuple[str, ...], yes: bool, options: StoreOptions) -> None:
    """Delete topics with all their records. This cannot be undone."""
    with options.reach(read_only=False) as store:
        for name in names:
            store.topic(name)  # an unknown name must be refused before any topic is deleted
        output.confirm(f"delete {', '.join(names)} with all records?", yes)
        for name in names:
            store.delete_topic(name)
            output.say(f"deleted topic {name}")


@topic.command()
@click.argument("name", shell_complete=completion.topics)
@click.option(
    "-b",
    "--before",
    type=WHERE,
    required=True,
    help="The first offset to keep: OFFSET, end, -N (the last N) or @TIME.",
)
@partitions_option
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@zone_option
@reach_options
def trim(
    name: str,
    before: Begin,
    partitions: tuple[int, ...],
    yes: bool,
    as_json: bool,
    zone: tzinfo,
    options: StoreOptions,
) -> None:
    """Delete the oldest records of a topic. This cannot be undone.

    JSON: partition, log_start_offset.
    """
    with options.reach(read_only=False) as store:
        trimmed = store.topic(name)
        logs = logs_of(trimmed, partitions)
        offsets = {number: offset_in(log, before, SYSTEM_CLOCK.now_ms()) for number, log in logs.items()}
        count = sum(max(offset - logs[number].log_start_offset, 0) for number, offset in offsets.items())
        output.confirm(f"delete {count} offsets of {name}?", yes)
        starts = trimmed.delete_records(offsets)
    rows = [{"partition": number, "log_start_offset": start} for number, start in starts.items()]
    output.print_rows(rows, as_json=as_json)
