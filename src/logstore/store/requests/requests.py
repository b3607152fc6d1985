"""Requests from a process to the one that writes a store, as JSON and back.

A request executes itself with a store that is open for writing, and converts its result to JSON; `channel` is
responsible for its delivery. The sender may be an earlier or a later program, so an owner refuses a kind that it
does not know.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Protocol, Self, TypeVar

from logstore.clock import Clock
from logstore.errors import InvalidManifestError, LogstoreError
from logstore.groups.offsets import OffsetAndMetadata
from logstore.log.directory.files import Directory
from logstore.records import Ack, TopicPartition
from logstore.store.admin.snapshots import Snapshot
from logstore.store.commit.ingest import Ingested
from logstore.store.commit.staged_writer import Manifest, sweep

if TYPE_CHECKING:
    from logstore.store.committed_offsets import CommittedOffsets
    from logstore.store.maintenance.scheduler import Progress

R = TypeVar("R")

#: Count of batches of a query after which staged files that were left behind are searched beside all logs; for a
#: job, each time.
_SWEEP_BATCHES: Final = 256


class StoreWriter(Protocol):
    """A store that is open for writing, as far as requests need it."""

    @property
    def offsets(self) -> CommittedOffsets: ...
    def ingest(self, manifest: Manifest) -> Ingested: ...
    def snapshot(self, path: str, *, link: bool, verify: bool, progress: Progress | None = None) -> Snapshot: ...
    def close(self) -> None: ...


class StoreRequest(ABC, Generic[R]):
    """One request to the owner of a store; ``R`` is its result."""

    #: Name of the kind of request in its message.
    kind: ClassVar[str]
    #: Whether an owner that has accepted it may take as long as it lives.
    takes_long: ClassVar[bool] = False
    #: Alternative for messages, where the owner does not answer.
    other_way: ClassVar[str] = ""

    @property
    @abstractmethod
    def deed(self) -> str:
        """The owner's work, for messages: "take in batch 3 of query 'q'"."""

    @abstractmethod
    def payload(self) -> Any:
        """Return the request as JSON."""

    @classmethod
    @abstractmethod
    def of_payload(cls, given: Any) -> Self:
        """Return the request that `payload` made.

        Raises:
            InvalidManifestError, InvalidTopicError, ValueError, KeyError, TypeError: it is no request.
        """

    @abstractmethod
    def done_by(self, owner: StoreWriter, check: Callable[[], None]) -> R:
        """Execute it and return the result. ``check`` is called repeatedly; its error ends the request."""

    def tidy(self, root: Directory, clock: Clock) -> None:
        """Remove files that were left behind, for a store without maintenance."""
        return

    @abstractmethod
    def answer(self, found: R) -> dict[str, Any]:
        """Return the result as JSON."""

    @abstractmethod
    def result(self, told: dict[str, Any]) -> R:
        """Return the value that `answer` was given."""


@dataclass(frozen=True)
class Intake(StoreRequest[Ingested]):
    """Request to ingest staged files."""

    manifest: Manifest

    kind = "manifest"
    other_way = ", or write through a broker (option bootstrap)"

    @property
    def deed(self) -> str:
        return f"take in batch {self.manifest.batch} of query {self.manifest.query!r}"

    def payload(self) -> str:
        return self.manifest.to_json()

    @classmethod
    def of_payload(cls, given: Any) -> Self:
        return cls(Manifest.from_json(given))

    def done_by(self, owner: StoreWriter, check: Callable[[], None]) -> Ingested:
        return owner.ingest(self.manifest)

    def tidy(self, root: Directory, clock: Clock) -> None:
        if self.manifest.batch % _SWEEP_BATCHES == 0:
            sweep(root.path, self.manifest.query, self.manifest.batch, files=root.files, clock=clock)

    def answer(self, found: Ingested) -> dict[str, Any]:
        offsets = [[*place, *bounds] for place, bounds in found.offsets.items()]
        return {"duplicate": found.duplicate, "offsets": offsets, "others": found.others}

    def result(self, told: dict[str, Any]) -> Ingested:
        offsets = {TopicPartition(topic, number): (first, last) for topic, number, first, last in told["offsets"]}
        return Ingested(told["duplicate"], offsets, tuple(told.get("others", ())))


@dataclass(frozen=True)
class Commit(StoreRequest[None]):
    """Request to store a group's offsets; those of partitions with None are deleted."""

    group: str
    offsets: Mapping[TopicPartition, OffsetAndMetadata | None]
    ack: Ack | None
    at_ms: int  #: when it was asked for; later commits stay, however late the request is

    kind = "commit"

    @property
    def deed(self) -> str:
        return f"store the offsets of group {self.group!r}"

    def payload(self) -> dict[str, Any]:
        offsets = [[*place, None if commit is None else list(commit)] for place, commit in self.offsets.items()]
        ack = None if self.ack is None else self.ack.value
        return {"group": self.group, "ack": ack, "at_ms": self.at_ms, "offsets": offsets}

    @classmethod
    def of_payload(cls, given: Any) -> Self:
        offsets = {
            TopicPartition(topic, number): None if commit is None else OffsetAndMetadata(*commit)
            for topic, number, commit in given["offsets"]
        }
        ack = None if given["ack"] is None else Ack(given["ack"])
        return cls(given["group"], offsets, ack, int(given["at_ms"]))

    def done_by(self, owner: StoreWriter, check: Callable[[], None]) -> None:
        kept = {place: commit for place, commit in self.offsets.items() if commit is not None}
        owner.offsets.commit(self.group, kept, ack=self.ack, asked_ms=self.at_ms)
        owner.offsets.delete(self.group, self.offsets.keys() - kept.keys(), ack=self.ack, asked_ms=self.at_ms)

    def answer(self, found: None) -> dict[str, Any]:
        return {}

    def result(self, told: dict[str, Any]) -> None:
        return None


@dataclass(frozen=True)
class Copy(StoreRequest[Snapshot]):
    """Request to copy the store, by its owner and with the owner's rights."""

    path: str
    link: bool
    verify: bool

    kind = "snapshot"
    takes_long = True

    @property
    def deed(self) -> str:
        return f"take the snapshot {self.path}"

    def payload(self) -> dict[str, Any]:
        return {"path": self.path, "link": self.link, "verify": self.verify}

    @classmethod
    def of_payload(cls, given: Any) -> Self:
        return cls(given["path"], given["link"], given["verify"])

    def done_by(self, owner: StoreWriter, check: Callable[[], None]) -> Snapshot:
        return owner.snapshot(self.path, link=self.link, verify=self.verify, progress=lambda _done, _total: check())

    def answer(self, found: Snapshot) -> dict[str, Any]:
        return found._asdict()

    def result(self, told: dict[str, Any]) -> Snapshot:
        return Snapshot(**told)


KINDS: dict[str, type[StoreRequest[Any]]] = {each.kind: each for each in (Intake, Commit, Copy)}


#: Version of the messages.
VERSION: Final = 1


def accepted() -> dict[str, Any]:
    """Return the message by which an owner accepts a connection."""
    return {"accepted": VERSION, "kinds": list(KINDS)}


def message_of(request: StoreRequest[Any]) -> dict[str, Any]:
    """Return a request as a message."""
    return {"kind": request.kind, "request": request.payload()}


def request_of(message: dict[str, Any]) -> StoreRequest[Any]:
    """Return the request that `message_of` converted.

    Raises:
        InvalidManifestError, InvalidTopicError: it is no request, or one that only a later version knows.
    """
    try:
        kind = message["kind"]
        if kind not in KINDS:
            raise InvalidManifestError(
                f"a request of the kind {kind!r:.40}, which the process that writes the store does not know; "
                "upgrade logstore there and restart it"
            )
        return KINDS[kind].of_payload(message["request"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, LogstoreError):
            raise
        raise InvalidManifestError(f"the request cannot be parsed: {error!r:.200}") from None
