"""Committed offsets of consumer groups, as a back end keeps them. Any thread may call."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping

from logstore.groups.offsets import OffsetAndMetadata
from logstore.records import Ack, TopicPartition


class GroupOffsets(ABC):
    """The committed offsets of every group."""

    @property
    @abstractmethod
    def renew_s(self) -> float | None:
        """How often a consumer stores its group's offsets again, so that they do not expire while it reads.

        None where the back end knows its consumers.
        """

    @abstractmethod
    def committed(
        self, group: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return a group's committed offsets, of these partitions or of all.

        A partition without a commit is left out, and so is a commit for an earlier topic of the same name.

        Raises:
            InvalidGroupError: the group's name cannot be used.
        """

    @abstractmethod
    def groups(self) -> list[str]:
        """Return every group that has committed an offset, ordered by name."""

    @abstractmethod
    def check_writable(self, group: str) -> None:
        """Raise if a group could never commit, before it has read anything.

        Raises:
            ReadOnlyError: nothing here may write, nor may what this process could ask to.
        """

    @abstractmethod
    def commit(
        self,
        group: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        *,
        ack: Ack | str | None = None,
    ) -> None:
        """Store the next offsets that a group has to read. The same commit may be repeated.

        A store keeps all of them, or on an error none. A cluster answers for each partition: it raises the first
        refusal, and the others are stored.

        Raises:
            InvalidGroupError, InvalidOffsetError, OffsetMetadataTooLargeError: nothing is stored.
            UnknownTopicError, UnknownPartitionError: there is no such partition.
        """

    @abstractmethod
    def delete(
        self,
        group: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        ack: Ack | str | None = None,
    ) -> int:
        """Delete a group's offsets, of these partitions or all; return how many there were."""

    @abstractmethod
    def pin(self, group: str, holder: object) -> None:
        """Keep a group's offsets from expiring as long as ``holder`` lives and has not released them."""

    @abstractmethod
    def unpin(self, holder: object) -> None:
        """End `pin`. May be called again."""
