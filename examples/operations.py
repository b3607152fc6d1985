"""An operator: what a store holds, whether groups keep up, whether it is whole, a backup, and less of what is old.

    python -m examples.operations --directory data --backup data-backup

What only looks opens the store read-only, and works beside the service that writes it; the backup is then taken by
that service.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import logstore
from logstore import Store, TopicPartition
from logstore.errors import ConfigError, DirectoryLockedError, LogstoreError, UnknownTopicError

WEEK = "7d"


class Alarm(NamedTuple):
    """A problem that an operator should look at."""

    where: str
    what: str


def sizes(store: Store) -> dict[str, int]:
    """Bytes of the segments of each topic."""
    return {name: sum(part.size for part in store.describe_topic(name).partitions) for name in store.topics()}


def late_groups(store: Store, *, most_records: int) -> Iterator[Alarm]:
    """The groups that are further behind than that, or have lost records to retention."""
    for group in store.offsets.groups():
        for lag in store.lag(group):
            if lag.lost:
                yield Alarm(f"{group} in {lag.partition}", f"{lag.lost} records were deleted unread")
            elif lag.records > most_records:
                yield Alarm(f"{group} in {lag.partition}", f"{lag.records} records, {lag.seconds:.0f} s behind")


def damaged(store: Store) -> Iterator[Alarm]:
    """What cannot be read, by a scan that passes over it and says so."""
    for name in store.topics():
        for log in store[name]:
            scan = log.scan(on_damage="skip")
            scan.count()
            for each in scan.left_out:
                yield Alarm(str(log.name), str(each))


def check(directory: Path, *, most_records: int = 1_000) -> list[Alarm]:
    """Everything that should be looked at."""
    with logstore.open(directory, read_only=True) as store:
        return [*late_groups(store, most_records=most_records), *damaged(store)]


def back_up(directory: Path, target: Path) -> int:
    """Copy the store to a path that does not exist yet, every checksum compared; how many partitions."""
    with logstore.open(directory, read_only=True) as store:
        return store.snapshot(target, verify=True).partitions


def keep_a_week(directory: Path, topic: str) -> str:
    """Have a topic delete what is older than a week; what was done, or why not."""
    try:
        # A service that writes is waited for, but not for ever.
        with logstore.open(directory, wait_s=5) as store:
            store.alter_topic(topic, {"retention.ms": WEEK, "cleanup.policy": "delete"})
            store.housekeep()
            first = {part.partition: part.log_start_offset for part in store.describe_topic(topic).partitions}
    except DirectoryLockedError as error:
        return f"not now: {error}"
    except (UnknownTopicError, ConfigError) as error:
        return f"nothing was changed: {error}"
    return f"{topic} keeps {WEEK}; its partitions begin at {first}"


def rewind(directory: Path, group: str, topic: str, offset: int) -> None:
    """Have a group read every partition of a topic again from an offset on. The group must not be reading."""
    with logstore.open(directory, read_only=True) as store:
        places = [TopicPartition(topic, number) for number in range(len(store[topic]))]
        store.commit_offsets(group, dict.fromkeys(places, offset), ack="synced")


def main() -> int:
    parser = argparse.ArgumentParser(description="Look after a store.")
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument("--backup", type=Path, help="where to copy the store to")
    given = parser.parse_args()
    directory: Path = given.directory
    try:
        with logstore.open(directory, read_only=True) as store:
            for name, size in sorted(sizes(store).items()):
                print(f"{name}: {size} bytes, {len(store[name])} partitions")
        alarms = check(directory)
        for alarm in alarms:
            print(f"ALARM {alarm.where}: {alarm.what}")
        if given.backup is not None:
            print(f"copied {back_up(directory, given.backup)} partitions to {given.backup}")
    except LogstoreError as error:
        print(f"error: {error}")
        return 2
    return 1 if alarms else 0


if __name__ == "__main__":
    raise SystemExit(main())
