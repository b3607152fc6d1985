"""Back end over the files of a store: each call goes to its host, which has the catalogue and the open logs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from logstore.accumulator._batcher import BatchResult
from logstore.client.backend.backend import Backend, OneRound
from logstore.client.backend.batch_appends import BatchAppends, BatchRules
from logstore.client.backend.batch_writer import BatchWriter
from logstore.client.backend.facts import TopicFacts
from logstore.client.backend.fetcher import PartitionFetcher
from logstore.client.backend.group_offsets import GroupOffsets
from logstore.client.backend.members import ReaderMember, WriterMember
from logstore.client.backend.membership import GroupMembership
from logstore.client.backend.partitions import Partition
from logstore.config.client import ConsumerConfig, ProducerConfig
from logstore.errors import ReadOnlyError, UnsupportedOperationError
from logstore.io._notifier import Notifier
from logstore.records import Isolation, TimestampOffset, TopicPartition
from logstore.store.fetcher import LocalFetcher
from logstore.store.host import StoreHost
from logstore.topic_names import INTERNAL

#: How often a reader in another process than the writer checks its topics, which nothing tells it of.
LOOK_AROUND_S = 1.0


class LocalBackend(Backend):
    """The topics of one open store. Keeps its host open, as everything does that a store hands out."""

    is_remote = False
    producer_config = ProducerConfig

    def __init__(self, host: StoreHost) -> None:
        self._host = host
        self.location = host.path
        self.clock = host.clock
        self.rng = host.rng
        self.look_s = LOOK_AROUND_S if host.read_only else None

    def topics(self, *, internal: bool = False) -> list[str]:
        return self._host.topics(internal=internal)

    def facts(self, topic: str, topic_id: str | None = None) -> TopicFacts:
        self._host.check_open()
        entry = self._host.table.entry_now(topic, topic_id)
        added_from = entry.made_with or entry.partitions
        return TopicFacts(topic, entry.id, entry.partitions, added_from, topic in INTERNAL)

    def look_again(self, topics: Iterable[str]) -> None:
        self._host.topics()  # a reader follows the whole catalogue

    def topics_known(self) -> object:
        return self._host._topics_known()

    def check_exists(self, name: TopicPartition, topic_id: str) -> None:
        self._host._log_of(*name, topic_id)

    def start_offsets(
        self, partitions: Iterable[TopicPartition], asked: OneRound | None = None
    ) -> dict[TopicPartition, int]:
        return {name: self._host._log_of(*name).log_start_offset for name in partitions}

    def end_offsets(
        self, partitions: Iterable[TopicPartition], isolation: Isolation, asked: OneRound | None = None
    ) -> dict[TopicPartition, int]:
        return {name: self._host._log_of(*name).end_offset(isolation) for name in partitions}

    def offsets_for_times(
        self, times: Mapping[TopicPartition, int], isolation: Isolation, asked: OneRound | None = None
    ) -> dict[TopicPartition, TimestampOffset | None]:
        return {
            name: self._host._log_of(*name).offset_for_time(when, isolation=isolation)
            for name, when in times.items()
        }

    def epoch_ends(
        self, epochs: Mapping[TopicPartition, int], asked: OneRound | None = None
    ) -> dict[TopicPartition, int | None]:
        return {name: self._host._log_of(*name)._end_of_epoch(epoch) for name, epoch in epochs.items()}

    def partition(self, name: TopicPartition, topic_id: str | None = None) -> Partition:
        return self._host.partition(*name, topic_id=topic_id)

    def fetcher(self, config: ConsumerConfig, notifier: Notifier) -> PartitionFetcher:
        return LocalFetcher(self._host._log_of, config.isolation, notifier, self.clock)

    def add_reader(self, reader: ReaderMember) -> None:
        self._host.consumers.add(reader)

    def batch_writer(self, config: ProducerConfig, failures: list[BatchResult]) -> BatchWriter:
        from logstore.store.batch_writer import LocalBatchWriter  # here: readers seldom need it

        self._check_writable("send")
        return LocalBatchWriter(self._host, config, failures)

    def batch_rules(self, topics: Iterable[str]) -> dict[str, BatchRules]:
        return {topic: BatchRules.of(self._host.topic_config(topic)) for topic in topics}

    def batch_appends(self) -> BatchAppends:
        from logstore.store.batch_writer import LocalBatchAppends  # here: as above

        self._check_writable("append")
        return LocalBatchAppends(self._host)

    def _check_writable(self, what: str) -> None:
        if self._host.read_only:
            raise ReadOnlyError(
                f"the store is open read-only; open it without read_only=True to {what}", path=self._host.path
            )

    def attach(self, member: WriterMember) -> None:
        self._host.attach(member)

    def detach(self, member: WriterMember) -> None:
        self._host.detach(member)

    def drop(self, member: WriterMember) -> None:
        self._host.drop(member)

    @property
    def offsets(self) -> GroupOffsets:
        return self._host.offsets

    def membership(self, config: ConsumerConfig, notifier: Notifier) -> GroupMembership:
        raise UnsupportedOperationError(
            f"the groups of a store assign no partitions to consumers, as subscribe() of group {config.group_id!r} "
            "asks for; call assign() or assign_topics()",
            path=self.location,
        )
