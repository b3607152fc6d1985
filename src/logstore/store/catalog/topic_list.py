"""The list of a store's topics: `logstore.topics`, one small text file in the root.

Only this module knows the file's bytes and replaces it. A change of the catalogue is one replacement: write
beside, sync, rename, sync the directory. So after a crash either the old one or the new one is there, whole.
Before a change creates or removes directories, the state of the topic announces them. The next open for writing
finishes or undoes an interrupted change (`store.catalog.topics`)::

    logstore topics 2
    {"cluster_id": "…", "next_producer_id": 0, "topics": {"flights": {"id": "…", …}}}
    crc32c 1f9a2b44

The second line is JSON. The third is the CRC-32C of the two above it, newlines included, so the file
cannot be edited by hand. An entry has the topic's ``id`` (128 bits, in Kafka's text form), ``partitions``,
``state``, ``settings`` (the topic's own, by dotted key) and ``created_ms``. It has ``target``
while partitions are being added, and ``made_with`` once some were: the number of partitions before the first of
these. It has ``kind`` (`LogKind`) unless it was never recorded: that of its logs, for a log that has lost its own
record. ``adopted`` says that Kafka's metadata name the leader epochs; where it is missing, the producer ids tell,
which begin elsewhere in such a directory.

**`logstore.newest`** holds the number of the newest catalogue, with a CRC-32C of the line before it::

    logstore newest 1
    17 5f0c81aa

A catalogue with a lower number is an earlier copy, restored without the rest. It would give producer ids
that were given already, and delete by settings that were changed. Without the file every catalogue is the newest.

May be called from any thread; the store's lock keeps writers apart.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import enum
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from logstore.batch._crc32c import crc32c
from logstore.errors import DamagedCatalogueError, LaterCatalogueError, StorageError
from logstore.log.directory.files import Directory
from logstore.log.formats.checkpoints import LogKind

if TYPE_CHECKING:
    import random

CATALOGUE = "logstore.topics"
#: The number of the newest catalogue, by which an earlier copy is recognized.
NEWEST = "logstore.newest"

#: Far above every id that a Kafka cluster has given out, or will: a producer id must mean one producer to both.
FIRST_PRODUCER_ID: Final = 1 << 40

_HEAD = b"logstore topics "
_VERSION = 2
#: Version 1 has no ``defaults``: its topics are kept for ever.
_READ = (b"1", b"2")

_NEWEST = re.compile(rb"logstore newest 1\n(\d{1,18}) ([0-9a-f]{8})\n")


class TopicState(enum.Enum):
    """The state of a topic's directories."""

    CREATING = "creating"  #: announced; some directories may be missing, no caller has been told of it
    READY = "ready"
    GROWING = "growing"  #: ready with ``partitions``; directories up to ``target`` are being made
    DELETING = "deleting"  #: deleted for every caller; some directories may still be there


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicEntry:
    """One topic as the catalogue has it."""

    id: str
    partitions: int
    state: TopicState = TopicState.READY
    settings: Mapping[str, str] = field(default_factory=dict)
    created_ms: int = -1
    target: int = 0  #: the number of partitions that a growing topic will have
    #: The settings that delete its records, as when the topic was made; None if they were not recorded then.
    defaults: Mapping[str, str] | None = None
    kind: LogKind = LogKind.UNRECORDED  #: what a gap between segments means, for a log that has lost its own record
    made_with: int = 0  #: how many partitions there were before any was added; 0 if none ever was

    #: The entry as JSON, by its topic's name, once it was encoded: a change of one topic encodes no other.
    _json: dict[str, str] = field(default_factory=dict, init=False, repr=False, compare=False)

    def replace(self, **fields: Any) -> TopicEntry:
        """Return a copy with some fields changed."""
        return dataclasses.replace(self, **fields)

    def to_json(self, name: str) -> str:
        """Return the topic's name with the entry, as a member of a JSON object."""
        found = self._json.get(name)
        if found is None:
            facts = {
                "id": self.id,
                "partitions": self.partitions,
                "state": self.state.value,
                "settings": dict(sorted(self.settings.items())),
                "created_ms": self.created_ms,
                **({} if self.defaults is None else {"defaults": dict(sorted(self.defaults.items()))}),
                **({"target": self.target} if self.target else {}),
                **({"kind": self.kind.value} if self.kind else {}),
                **({"made_with": self.made_with} if self.made_with else {}),
            }
            found = self._json[name] = f"{json.dumps(name)}: {json.dumps(facts)}"
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """Every topic of a store, and the facts of the store as a whole."""

    cluster_id: str
    next_producer_id: int = 0
    topics: Mapping[str, TopicEntry] = field(default_factory=lambda: MappingProxyType({}))
    adopted: bool = False  #: Kafka's metadata name the leader epochs
    number: int = field(default=0, compare=False)  #: rises with each replacement of the file

    def with_topic(self, name: str, entry: TopicEntry | None) -> Catalogue:
        """Return a copy in which a topic has another entry, or none."""
        return self.with_topics({name: entry})

    def with_topics(self, entries: Mapping[str, TopicEntry | None]) -> Catalogue:
        """Return a copy in which several topics have other entries, or none."""
        changed = {**self.topics, **entries}
        return dataclasses.replace(
            self, topics={name: entry for name, entry in changed.items() if entry is not None}
        )

    def with_next_producer_id(self, number: int) -> Catalogue:
        """Return a copy that gives producer ids from ``number``."""
        return dataclasses.replace(self, next_producer_id=number)

    # -- bytes

    def to_bytes(self) -> bytes:
        """Return the bytes of the file."""
        facts = {
            "cluster_id": self.cluster_id,
            "next_producer_id": self.next_producer_id,
            "adopted": self.adopted,
            **({"number": self.number} if self.number else {}),
        }
        topics = ", ".join([self.topics[name].to_json(name) for name in sorted(self.topics)])
        text = f'{json.dumps(facts)[:-1]}, "topics": {{{topics}}}}}'
        body = _HEAD + b"%d\n" % _VERSION + text.encode() + b"\n"
        return body + b"crc32c %08x\n" % crc32c(body)

    @classmethod
    def of_bytes(cls, data: bytes, path: str) -> Catalogue:
        """Return the catalogue in a file's bytes.

        Raises:
            DamagedCatalogueError: the bytes are not those that `to_bytes` gives.
            LaterCatalogueError: the bytes are of a later version.
        """
        lines = data.split(b"\n")
        if len(lines) != 4 or lines[3] or not lines[0].startswith(_HEAD):
            raise _damaged("it is cut short, or no catalogue", path)
        body = lines[0] + b"\n" + lines[1] + b"\n"
        if lines[2] != b"crc32c %08x" % crc32c(body):
            raise _damaged("its checksum disagrees", path)
        version = lines[0].removeprefix(_HEAD)
        if version not in _READ:
            raise LaterCatalogueError(
                f"the catalogue of the store was written by a later program: its version is "
                f"{version.decode(errors='replace')}, this program knows {_VERSION}; use that program",
                path=path,
            )
        try:
            return cls._of_facts(json.loads(lines[1]))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise _damaged(f"{type(error).__name__}: {error}", path) from error

    @classmethod
    def _of_facts(cls, facts: dict[str, Any]) -> Catalogue:
        next_producer_id = int(facts["next_producer_id"])
        return cls(
            cluster_id=str(facts["cluster_id"]),
            next_producer_id=next_producer_id,
            adopted=bool(facts.get("adopted", next_producer_id >= FIRST_PRODUCER_ID)),
            number=int(facts.get("number", 0)),
            topics={
                name: TopicEntry(
                    id=str(entry["id"]),
                    partitions=int(entry["partitions"]),
                    state=TopicState(entry["state"]),
                    settings=_texts(entry["settings"]),
                    created_ms=int(entry["created_ms"]),
                    target=int(entry.get("target", 0)),
                    defaults=_texts(entry["defaults"]) if "defaults" in entry else None,
                    kind=LogKind(entry.get("kind", "")),
                    made_with=int(entry.get("made_with", 0)),
                )
                for name, entry in facts["topics"].items()
            },
        )

    # -- the file

    @classmethod
    def load(cls, root: Directory) -> Catalogue | None:
        """Return the catalogue in the root's file, or None if there is none.

        Raises:
            DamagedCatalogueError: the file is not whole, or a newer one was written since.
        """
        # Its number first: a concurrent writer replaces the catalogue before the number.
        newest = _newest(root)
        data = root.read(CATALOGUE)
        if data is None:
            return None
        found = cls.of_bytes(data, root.join(CATALOGUE))
        if found.number < newest:
            raise _damaged(
                f"it is an earlier copy, number {found.number}, and {newest} was written since. What was changed "
                f"between is not in it, such as retention and producer ids (remove {NEWEST} to go by it anyway)",
                root.join(CATALOGUE),
            )
        return found

    def save(self, root: Directory) -> None:
        """Replace the root's file. Durable on return.

        Raises:
            StorageError: the old catalogue still holds, unless only the last sync has failed. Then
                either may be found after a power cut, and the new one before.
        """
        number = max(self.number, _newest(root)) + 1
        root.replace(CATALOGUE, dataclasses.replace(self, number=number).to_bytes(), durable=True)
        # A crash before this leaves a number that is too low, which refuses nothing.
        line = b"logstore newest 1\n%d" % number
        with contextlib.suppress(StorageError):
            root.replace(NEWEST, b"%s %08x\n" % (line, crc32c(line)), durable=False, whole=True)


def _newest(root: Directory) -> int:
    """Return the number of the newest catalogue, as far as known; 0 if it is not."""
    match = _NEWEST.fullmatch(root.read(NEWEST) or b"")
    if match is None or int(match[2], 16) != crc32c(match[0][: match.end(1)]):
        return 0
    return int(match[1])


def _texts(found: Mapping[str, Any]) -> dict[str, str]:
    return {str(key): str(value) for key, value in found.items()}


def new_id(rng: random.Random | None = None) -> str:
    """Return 128 random bits in the text form of Kafka's `Uuid`: base64 for URLs, without padding.

    >>> len(new_id())
    22
    """
    while True:
        data = os.urandom(16) if rng is None else rng.getrandbits(128).to_bytes(16, "big")
        text = base64.urlsafe_b64encode(data).decode().rstrip("=")
        # Kafka gives out no id that begins with a dash: it would look like an option.
        if not text.startswith("-"):
            return text


def _damaged(what: str, path: str) -> DamagedCatalogueError:
    return DamagedCatalogueError(
        f"the catalogue of the store is damaged: {what}; restore it from a copy, or make it again from the "
        f"directories with `logstore rebuild --dir {os.path.dirname(path)}` or logstore.rebuild(): the topics' own "
        "settings are lost then, and records are kept for ever",
        path=path,
    )
