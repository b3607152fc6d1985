"""The list of a store's topics: `logstore.topics`, one file in the root, and `logstore.newest` beside it.

Only this module and `catalogue_file` know the bytes. The file is a checkpoint of all topics and, behind it, a log
of the changes since (`change_blocks`)::

    logstore topics 3
    {"cluster_id": "…", "next_producer_id": 0, "number": 17, "log_bytes": 32768, "topics": {"flights": {…}}}
    crc32c 1f9a2b44
    18 1/1 {"topics": {"weather": {…}, "flights": null}} …
    19 1/1 {"next_producer_id": 1000} …
    zeros, up to the end of the file

The second line is JSON. The third is the CRC-32C of the two above it, newlines included, so the file cannot be
edited by hand. Spaces behind the JSON let the log begin at a multiple of 512 bytes. ``log_bytes`` is its length:
a file that is cut is shorter. A change is one write into the zeros, and a sync. When they are used up, the file is
replaced by a new checkpoint with an empty log: write beside, sync, rename, sync the directory. So after a crash
either the old catalogue or the new one is there, whole. Before a change removes directories, or makes some, the
state of the topic announces them. The next open for writing finishes or undoes an interrupted change
(`store.catalog.topics`).

An entry has the topic's ``id`` (128 bits, in Kafka's text form), ``partitions``,
``state``, ``settings`` (the topic's own, by dotted key) and ``created_ms``. It has ``target``
while partitions are being added, and ``made_with`` once some were: the number of partitions before the first of
these. It has ``kind`` (`LogKind`) unless it was never recorded: that of its logs, for a log that has lost its own
record. It has ``synced``, false, until the first log of the topic is opened for writing: a power cut may take its
directories before, and one that is missing is empty, not lost. ``adopted`` says that Kafka's metadata name the
leader epochs; where it is missing, the producer ids tell, which begin elsewhere in such a directory. Files of
versions 1 and 2 have no log.

**`logstore.newest`** holds the number of the newest change, with a CRC-32C of the line before it::

    logstore newest 1
    000000000000000019 5f0c81aa

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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from logstore.batch._crc32c import crc32c
from logstore.errors import DamagedCatalogueError, LaterCatalogueError, StorageError
from logstore.log.directory.files import Directory
from logstore.log.formats.checkpoints import LogKind
from logstore.store.catalog.change_blocks import BLOCK, of_blocks

if TYPE_CHECKING:
    import random

CATALOGUE = "logstore.topics"
#: The number of the newest catalogue, by which an earlier copy is recognized.
NEWEST = "logstore.newest"

#: Far above every id that a Kafka cluster has given out, or will: a producer id must mean one producer to both.
FIRST_PRODUCER_ID: Final = 1 << 40

#: The least length of the log: changes of a small store that cost no checkpoint.
LOG_BYTES: Final = 64 * BLOCK

_HEAD = b"logstore topics "
_VERSION = 3
#: Version 1 has no ``defaults``: its topics are kept for ever. Version 2 has no log.
_READ = (b"1", b"2", b"3")

#: The last line of a checkpoint, with the newline before it.
_SUM_BYTES: Final = 17

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
    #: Its directories are on disk. Until its first log is opened for writing, a power cut may take some of them.
    is_synced: bool = True

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
                **({} if self.is_synced else {"synced": False}),
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
    number: int = field(default=0, compare=False)  #: rises with each change

    def with_topic(self, name: str, entry: TopicEntry | None) -> Catalogue:
        """Return a copy in which a topic has another entry, or none."""
        return self.with_topics({name: entry})

    def with_topics(self, entries: Mapping[str, TopicEntry | None]) -> Catalogue:
        """Return a copy in which several topics have other entries, or none."""
        topics = dict(self.topics)
        for name, entry in entries.items():
            if entry is None:
                topics.pop(name, None)
            else:
                topics[name] = entry
        return dataclasses.replace(self, topics=topics)

    def with_next_producer_id(self, number: int) -> Catalogue:
        """Return a copy that gives producer ids from ``number``."""
        return dataclasses.replace(self, next_producer_id=number)

    # -- bytes

    def to_bytes(self, log_bytes: int = 0) -> bytes:
        """Return a checkpoint, with an empty log of some bytes behind it."""
        facts = {
            "cluster_id": self.cluster_id,
            "next_producer_id": self.next_producer_id,
            "adopted": self.adopted,
            **({"number": self.number} if self.number else {}),
            **({"log_bytes": log_bytes} if log_bytes else {}),
        }
        topics = ", ".join([self.topics[name].to_json(name) for name in sorted(self.topics)])
        text = f'{json.dumps(facts)[:-1]}, "topics": {{{topics}}}}}'
        body = _HEAD + b"%d\n" % _VERSION + text.encode()
        body += b" " * (-(len(body) + _SUM_BYTES) % BLOCK if log_bytes else 0) + b"\n"
        return body + b"crc32c %08x\n" % crc32c(body) + bytes(log_bytes)

    @classmethod
    def of_bytes(cls, data: bytes, path: str) -> Catalogue:
        """Return the catalogue in a file's bytes.

        Raises:
            DamagedCatalogueError: the bytes are damaged.
            LaterCatalogueError: the bytes are of a later version.
        """
        return Written.of_bytes(data, path).catalogue

    def changed_by(self, texts: Sequence[bytes]) -> Catalogue:
        """Return the catalogue after some changes in a log.

        Raises:
            ValueError, KeyError, TypeError, AttributeError: a text is no change.
        """
        entries: dict[str, TopicEntry | None] = {}
        next_producer_id = self.next_producer_id
        for text in texts:
            facts = json.loads(text)
            next_producer_id = int(facts.get("next_producer_id", next_producer_id))
            for name, entry in facts.get("topics", {}).items():
                entries[name] = None if entry is None else _entry_of(entry)
        return dataclasses.replace(
            self.with_topics(entries), next_producer_id=next_producer_id, number=self.number + len(texts)
        )

    @classmethod
    def of_facts(cls, facts: dict[str, Any]) -> Catalogue:
        """Return the catalogue in the JSON of a checkpoint."""
        next_producer_id = int(facts["next_producer_id"])
        return cls(
            cluster_id=str(facts["cluster_id"]),
            next_producer_id=next_producer_id,
            adopted=bool(facts.get("adopted", next_producer_id >= FIRST_PRODUCER_ID)),
            number=int(facts.get("number", 0)),
            topics={name: _entry_of(entry) for name, entry in facts["topics"].items()},
        )

    # -- the file

    @classmethod
    def load(cls, root: Directory) -> Catalogue | None:
        """Return the catalogue in the root's file, or None if there is none.

        Raises:
            DamagedCatalogueError: the file is not whole, or a newer one was written since.
        """
        found = Written.load(root)
        return None if found is None else found.catalogue

    def save(self, root: Directory) -> Written:
        """Replace the root's file by a checkpoint; return what is in it. Durable on return.

        Raises:
            StorageError: the old catalogue still holds, unless only the last sync has failed. Then
                either may be found after a power cut, and the new one before.
        """
        numbered = dataclasses.replace(self, number=max(self.number, _newest(root)) + 1)
        # A log as long as the checkpoint: what a change costs does not grow with the number of topics.
        data = numbered.to_bytes(LOG_BYTES)
        if len(data) > 2 * LOG_BYTES:
            data = numbered.to_bytes((len(data) - LOG_BYTES) // BLOCK * BLOCK)
        root.replace(CATALOGUE, data, durable=True)
        note_newest(root, numbered.number)
        return Written.of_checkpoint(numbered, data)


def change_text(entries: Mapping[str, TopicEntry | None], next_producer_id: int | None) -> bytes:
    """Return the text of a change, for a log."""
    topics = ", ".join(
        [f"{json.dumps(name)}: null" if entry is None else entry.to_json(name) for name, entry in entries.items()]
    )
    facts = [f'"topics": {{{topics}}}'] if topics else []
    facts += [] if next_producer_id is None else [f'"next_producer_id": {next_producer_id}']
    return f"{{{', '.join(facts)}}}".encode()


@dataclass(frozen=True, slots=True)
class Written:
    """The catalogue as a file has it, and where its log is."""

    catalogue: Catalogue
    last: bytes  #: the last block before `end`
    end: int  #: where the next change is written
    size: int  #: of the file
    #: Nothing follows the checkpoint, which is of this version.
    is_checkpoint: bool = False

    @classmethod
    def of_checkpoint(cls, catalogue: Catalogue, data: bytes) -> Written:
        """Return what is in a file that `Catalogue.save` has just written."""
        end = len(data.rstrip(b"\0"))
        return cls(catalogue, data[end - BLOCK : end], end, len(data), is_checkpoint=True)

    @classmethod
    def of_bytes(cls, data: bytes, path: str) -> Written:
        """Return what is in a file's bytes. Raises as `Catalogue.of_bytes`."""
        head = data.find(b"\n") + 1
        json_end = data.find(b"\n", head) + 1
        end = data.find(b"\n", json_end) + 1
        if not data.startswith(_HEAD) or not head or not json_end or not end:
            raise _damaged("it is cut short, or no catalogue", path)
        if data[json_end:end] != b"crc32c %08x\n" % crc32c(data[:json_end]):
            raise _damaged("its checksum disagrees", path)
        version = data[: head - 1].removeprefix(_HEAD)
        if version not in _READ:
            raise LaterCatalogueError(
                f"the catalogue of the store was written by a later program: its version is "
                f"{version.decode(errors='replace')}, this program knows {_VERSION}; use that program",
                path=path,
            )
        try:
            facts = json.loads(data[head:json_end])
            _check_size(data, end + int(facts.get("log_bytes", 0)))
            start = cls(Catalogue.of_facts(facts), data[max(end - BLOCK, 0) : end], end, len(data))
            found = start.followed_by(data[end:])
            is_bare = len(data.rstrip(b"\0")) == end
            return dataclasses.replace(found, is_checkpoint=is_bare and version == b"%d" % _VERSION)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise _damaged(f"{type(error).__name__}: {error}", path) from error

    def followed_by(self, data: bytes) -> Written:
        """Return what is there with the changes in ``data``, the bytes from `end` on.

        Raises:
            ValueError, KeyError, TypeError, AttributeError: the bytes are damaged.
        """
        found = of_blocks(data, self.catalogue.number + 1)
        if not found.texts:
            return self
        return Written(
            self.catalogue.changed_by(found.texts),
            data[found.end - BLOCK : found.end],
            self.end + found.end,
            self.size,
        )

    @classmethod
    def load(cls, root: Directory) -> Written | None:
        """Return what is in the root's file, or None if there is none. Raises as `Catalogue.load`."""
        # The number first: a concurrent writer raises it last.
        newest = _newest(root)
        found = _whole(root)
        if found is not None and found.catalogue.number < newest:
            raise _damaged(
                f"it is an earlier copy, number {found.catalogue.number}, and {newest} was written since. What was "
                f"changed between is not in it, such as retention and producer ids (remove {NEWEST} to go by it "
                "anyway)",
                root.join(CATALOGUE),
            )
        return found


def _check_size(data: bytes, size: int) -> None:
    """Refuse a file that was cut, or has grown: a log that is cut between two changes is a whole, shorter one."""
    if size != len(data):
        raise ValueError(f"the file has {len(data)} bytes, and was written with {size}")


def _whole(root: Directory) -> Written | None:
    """Return what is in the root's file, or None if there is none."""
    # What a concurrent writer is writing at this moment may look damaged: then the next look differs.
    before: bytes | None = None
    while True:
        data = root.read(CATALOGUE)
        if data is None:
            return None
        try:
            return Written.of_bytes(data, root.join(CATALOGUE))
        except DamagedCatalogueError:
            if data == before:
                raise
            before = data


def note_newest(root: Directory, number: int) -> None:
    """Note the number of the newest change. A crash before it leaves a lower number, which refuses nothing."""
    line = b"logstore newest 1\n%018d" % number
    line += b" %08x\n" % crc32c(line)
    with contextlib.suppress(StorageError):
        if len(root.read(NEWEST) or b"") == len(line):
            # In place, and not synced: the sector has the old line or the new one.
            with root.open(NEWEST, writable=True, hint=True) as file:
                file.write(line, 0)
        else:
            root.replace(NEWEST, line, durable=False, whole=True)


def _newest(root: Directory) -> int:
    """Return the number of the newest change, as far as known; 0 if it is not."""
    match = _NEWEST.fullmatch(root.read(NEWEST) or b"")
    if match is None or int(match[2], 16) != crc32c(match[0][: match.end(1)]):
        return 0
    return int(match[1])


def _entry_of(facts: Mapping[str, Any]) -> TopicEntry:
    return TopicEntry(
        id=str(facts["id"]),
        partitions=int(facts["partitions"]),
        state=TopicState(facts["state"]),
        settings=_texts(facts["settings"]),
        created_ms=int(facts["created_ms"]),
        target=int(facts.get("target", 0)),
        defaults=_texts(facts["defaults"]) if "defaults" in facts else None,
        kind=LogKind(facts.get("kind", "")),
        made_with=int(facts.get("made_with", 0)),
        is_synced=bool(facts.get("synced", True)),
    )


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
