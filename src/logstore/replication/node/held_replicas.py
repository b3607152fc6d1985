"""The file ``logstore.replicas`` in a store's root: the replicas that the node has taken part with.

JSON, with the CRC-32C of the first line in the second one, replaced as a whole::

    {"version": 1, "replicas": {"orders-0": {"topic_id": "...", "state": 12, "is_clearing": false}}}
    crc32c 1f9a2b44

``state`` is the version that the partition's state had in the registry when the node's newest life found itself
among its replicas. Only a newer state without this node says that the replica has moved away. A registry that was
restored from yesterday's copy says so too, by an older one. ``is_clearing`` is written before anything of the
replica is removed, and its entry goes when nothing is left: a process that dies half way leaves the rest to the
next one.

Without the file, or with a damaged one, nothing is known to have moved away, and nothing is removed.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from logstore.errors import NotALogError
from logstore.log.directory.files import Directory, parse_partition
from logstore.log.formats.checkpoints import with_crc_line, without_crc_line
from logstore.records import TopicPartition

REPLICAS_FILE = "logstore.replicas"


class HeldReplica(NamedTuple):
    """A replica of this node."""

    topic_id: str
    state_version: int  #: of the partition's state when the node's newest life began
    is_clearing: bool = False  #: it has moved away, and is being removed


class HeldReplicas:
    """The contents of the file. One caller at a time."""

    def __init__(self, root: Directory) -> None:
        self._root = root
        self._held: dict[TopicPartition, HeldReplica] = {}
        self.damage = ""  #: what is wrong with the file that was found; it is replaced by the next change

    @classmethod
    def load(cls, root: Directory) -> HeldReplicas:
        """Load the file of a root; a damaged one is none, and `damage` says so.

        Raises:
            StorageError: it cannot be read.
        """
        made = cls(root)
        data = root.read(REPLICAS_FILE)
        if data is not None:
            try:
                made._held = _decoded(data)
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError, NotALogError) as error:
                made.damage = f"{root.join(REPLICAS_FILE)} is damaged ({error}): replicas that have moved away stay"
        return made

    def items(self) -> list[tuple[TopicPartition, HeldReplica]]:
        return list(self._held.items())

    def get(self, place: TopicPartition) -> HeldReplica | None:
        return self._held.get(place)

    def change(self, changes: dict[TopicPartition, HeldReplica | None]) -> None:
        """Set some entries, and remove those that are None. Durable on return; after an error nothing has changed.

        Raises:
            StorageError: the file is the old one or the new one.
        """
        held = {place: each for place, each in {**self._held, **changes}.items() if each is not None}
        if held == self._held:
            return
        contents = {
            "version": 1,
            "replicas": {
                str(place): {
                    "topic_id": each.topic_id,
                    "state": each.state_version,
                    "is_clearing": each.is_clearing,
                }
                for place, each in sorted(held.items())
            },
        }
        self._root.replace(REPLICAS_FILE, with_crc_line(json.dumps(contents).encode() + b"\n"), durable=True)
        self._held, self.damage = held, ""


def _decoded(data: bytes) -> dict[TopicPartition, HeldReplica]:
    body = without_crc_line(data)
    if body is None:
        raise ValueError("the checksum disagrees")
    found = json.loads(body)
    if found["version"] != 1:
        raise ValueError(f"the file has version {found['version']!r}")
    held = {}
    for name, each in found["replicas"].items():
        loaded = HeldReplica(each["topic_id"], each["state"], each["is_clearing"])
        if [type(field) for field in loaded] != [str, int, bool]:
            raise ValueError("values of other kinds")
        held[parse_partition(name)] = loaded
    return held
