"""``logstore adopt``, ``hand-back``, ``rebuild``, ``snapshot``, ``housekeep``: commands for a whole store."""

from __future__ import annotations

import click

from logstore.cli import output
from logstore.cli.store_option import LocalPath, StoreOptions, directory_argument, json_option, store_options
from logstore.errors import DirectoryLockedError
from logstore.store import Store
from logstore.store.admin import kafka_directories
from logstore.store.admin import rebuild as rebuilding


@click.command()
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@directory_argument
@store_options
def adopt(yes: bool, as_json: bool, options: StoreOptions) -> None:
    """Take over a directory that Kafka wrote, so that it can be written. Kafka must be stopped.

    Only the list of topics and a mark are written. Settings of topics come from Kafka's own metadata in
    the directory, else from --config (the broker's server.properties) and --set. Without any of these,
    records are kept for ever. `logstore hand-back` reverses the command.

    JSON: topic, partitions, settings.
    """
    path = options.existing()
    refusal = "Kafka must not be started on the directory before it is handed back; give --yes"
    output.confirm(f"take over {path} from Kafka?", yes, refusal)
    given = options.config()
    adopted = kafka_directories.adopt_kafka_directory(path, given if given.sources else None)
    rows = [
        {"topic": name, "partitions": entry.partitions, "settings": dict(entry.settings)}
        for name, entry in sorted(adopted.topics.items())
    ]
    output.print_rows(rows, as_json=as_json)
    source = (
        "Kafka's metadata" if adopted.from_metadata else "the settings given: there is no log of Kafka's metadata"
    )
    output.say(f"{path}: {len(rows)} topic(s), by {source}")
    for topic, ignored in adopted.ignored.items():
        output.say(f"topic {topic}: settings without effect here: {', '.join(sorted(ignored))}")


@click.command("hand-back")
@click.option(
    "--leave-stray", is_flag=True, help="Release topics, too, that Kafka does not know: it moves them aside."
)
@json_option
@directory_argument
@store_options
def hand_back(leave_stray: bool, as_json: bool, options: StoreOptions) -> None:
    """Release a directory to Kafka, which may then start on it. `logstore adopt` takes it over again.

    Topics that are missing from Kafka's own metadata are refused, unless --leave-stray is given.

    JSON: topic, known.
    """
    given = kafka_directories.release_to_kafka(options.existing(), leave_stray=leave_stray)
    rows = [{"topic": name, "known": name in given.known} for name in sorted((*given.known, *given.stray))]
    output.print_rows(rows, as_json=as_json)
    if not given.was_clean:
        output.say("the store was not closed: Kafka will look at every log when it starts")
    if given.stray:
        output.say(f"Kafka does not know {', '.join(given.stray)}, and moves them aside as -stray")


@click.command()
@json_option
@directory_argument
@store_options
def rebuild(as_json: bool, options: StoreOptions) -> int:
    """Rebuild a store's lost or damaged list of topics from the directories. The store must be closed.

    Topics keep their ids and partitions. Their settings are lost: every record is kept until
    `logstore topic alter` changes them. A damaged list is kept beside the new one. Status 1 if a
    partition is missing or damaged.

    JSON: topic, partitions, id, settings, missing, damaged.
    """
    made = rebuilding.rebuild(options.existing())
    rows = []
    for name, entry in sorted(made.topics.items()):
        missing = [each.partition for each in made.missing if each.topic == name]
        damaged = [each.partition for each in made.damaged if each.topic == name]
        rows.append(
            {
                "topic": name,
                "partitions": entry.partitions,
                "id": entry.id,
                "settings": dict(entry.settings),
                "missing": missing,
                "damaged": damaged,
            }
        )
    columns = ("topic", "partitions", "missing", "damaged")
    output.print_rows(rows, as_json=as_json, columns=columns)
    output.say(f"{made.path}: {len(rows)} topic(s), kept for ever until `logstore topic alter` says otherwise")
    if made.kept_as:
        output.say(f"the damaged list is in {made.kept_as}")
    for place_of in made.missing:
        output.say(f"{place_of}: its directory is missing; restore it from a copy")
    for place_of, what in made.damaged.items():
        output.say(f"{place_of}: {what}")
    return output.FAILED if made.missing or made.damaged else output.OK


@click.command()
@click.argument("target", type=LocalPath())
@click.option("--copy", is_flag=True, help="Copy sealed segments, too, instead of hard links to them.")
@click.option("--verify", is_flag=True, help="Compare every checksum in the copy.")
@json_option
@store_options
def snapshot(target: str, copy: bool, verify: bool, as_json: bool, options: StoreOptions) -> None:
    """Copy the whole store to TARGET, which must not exist yet. Durable when the command ends.

    If a process writes the store, that process takes the snapshot, with its own rights.

    JSON: path, topics, partitions, linked_bytes, copied_bytes, verified_bytes.
    """
    try:
        with options.open(read_only=False) as store, output.counted("snapshot") as progress:
            taken = store.snapshot(target, link=not copy, verify=verify, progress=progress)
    except DirectoryLockedError:
        with options.open(read_only=True) as store:
            taken = store.snapshot(target, link=not copy, verify=verify)
    output.print_rows([taken._asdict()], as_json=as_json)


@click.command()
@directory_argument
@store_options
def housekeep(options: StoreOptions) -> None:
    """Apply retention and compaction once, now, and delete expired offsets.

    A process that has the store open does the same at intervals.
    """
    with options.open(read_only=False) as store:
        before = _size(store)
        with output.counted("housekeep") as progress:
            store.housekeep(progress=progress)
        after = _size(store)
    output.say(f"{before} bytes of segments before, {after} now")


def _size(store: Store) -> int:
    topics = map(store.describe_topic, store.topics(internal=True))
    return sum(partition.size for topic in topics for partition in topic.partitions)
