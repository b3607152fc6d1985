"""Produce: what `_produce` leaves of the requests of a turn, and the errors of what is refused.

It may have to wait for the opening of a log, a lock that an embedded writer holds, a roll or a sync, so the pool
appends it. The connection takes no further request meanwhile: its batches reach a log in the order in which they
were sent.

What waits for the acks of replicas waits in no thread. The replica notifies the loop, a timer ends the wait, and
the connection takes requests meanwhile: its answers keep their order.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from logstore.accumulator.acknowledging import AckWait, ReplicaSource
from logstore.batch._batch import BatchView
from logstore.broker._loop import Answer, ClientConnection
from logstore.broker._produce import ProduceRequestBytes, ProduceTurn, Route
from logstore.broker.access.authorizer import AclOperation, ResourceType
from logstore.broker.served import Served, id_text
from logstore.config.log import check_keys, check_timestamps
from logstore.errors import (
    CorruptRecordError,
    InvalidRecordError,
    InvalidTimestampError,
    LogstoreError,
    ProtocolError,
    RecordError,
    UnsupportedCodecError,
)
from logstore.io._notifier import Notifier
from logstore.log import Log
from logstore.protocol import codes
from logstore.protocol.frames import Request, encode_response
from logstore.protocol.generated.messages import ProduceRequest, ProduceResponse
from logstore.records import Acks, AppendResult, Codec, TopicPartition
from logstore.topic_names import check_writable_by_users

if TYPE_CHECKING:
    from typing_extensions import Buffer

_logger = logging.getLogger(__name__)


#: Kafka protocol, record batch v2: baseOffset 8, batchLength 4, …; the header's size; where the attributes are.
_LENGTH_AT = 8
_HEADER_BYTES = 61
_MAGIC_AT = 16
_ATTRIBUTES_AT = 21
_CODEC_MASK = 0x07
_TRANSACTIONAL = 0x10
_TRANSACTIONAL_OR_CONTROL = 0x30

#: Records that an answer names: hundreds of thousands fit into a compressed batch.
_MOST_WRONG = 1_000

#: The first version whose batches may have this codec (KIP-110): a client of an earlier one may not know it.
_ZSTD_SINCE = 7
#: The first version whose answers name the leader, if that is another node (KIP-951).
_LEADERS = 10

_ACKS = {-1: Acks.ALL, 0: Acks.NONE, 1: Acks.LEADER}

_Answered = ProduceResponse.PartitionProduceResponse


class _Waited(NamedTuple):
    """One batch that waits for its acks, and the answer that fails if they do not come."""

    replicas: ReplicaSource
    place: TopicPartition
    wait: AckWait
    answered: _Answered


class ProduceAcks:
    """One request, and the acks that its batches wait for. Used in the pool, then in the loop's thread."""

    __slots__ = ("answer", "left", "notifier", "request", "response", "served", "timeout_s", "timer")

    def __init__(self, served: Served, answer: Answer, request: Request) -> None:
        self.served = served
        self.answer = answer
        message = request.message
        assert isinstance(message, ProduceRequest)
        self.timeout_s = max(message.timeout_ms, 0) / 1000
        self.response = ProduceResponse()
        self.left: list[_Waited] = []
        self.notifier: Notifier | None = None
        self.timer: list[object] = []
        # Without the batches: many requests may wait.
        self.request = request.version, request.correlation_id, message.acks

    def begin(
        self, replicas: ReplicaSource, log: Log, result: AppendResult, epoch: int, acks: Acks, answered: _Answered
    ) -> None:
        """Wait for the acks of a batch that was appended in a leader epoch.

        Raises:
            NotLeaderError: the node is closed, or has lost the partition.
        """
        if self.notifier is None:
            self.notifier = Notifier(group=self.served.loop.group)
        notify = self.notifier.notify if acks is Acks.ALL else _tell_nothing
        wait = replicas.wait_for_acks(log.name, result, epoch, acks, notify)
        waited = _Waited(replicas, log.name, wait, answered)
        if wait.is_settled:
            self._settle(waited)
        else:
            self.left.append(waited)

    def is_settled(self) -> bool:
        """Return whether no batch waits any more."""
        while self.left and self.left[-1].wait.is_settled:
            self._settle(self.left.pop())
        return not self.left

    def _settle(self, waited: _Waited) -> None:
        error = waited.wait.error
        if error is not None:
            waited.answered.error_code, waited.answered.error_message = error.code, str(error)

    def time_out(self) -> None:
        """Let what still waits be answered with Kafka's error of a request that has timed out."""
        for waited in self.left:
            if waited.wait.is_settled:
                self._settle(waited)
            else:
                waited.answered.error_code = codes.REQUEST_TIMED_OUT

    def forget(self) -> None:
        """End the waits of what is left. May block on a replica's lock."""
        for waited in self.left:
            waited.replicas.forget(waited.place, waited.wait)
        self.left = []

    def complete(self) -> None:
        """Answer, unless the connection has closed."""
        version, correlation_id, acks = self.request
        for topic in self.response.responses:
            for each in topic.partition_responses:
                if each.error_code:
                    name = topic.name or self.served.name_of(topic.topic_id)
                    self.served.counts_of(name, each.error_code).failed_produces += 1
                    if version >= _LEADERS and each.error_code == codes.NOT_LEADER_OR_FOLLOWER:
                        leader = self.served.leader_told(name, each.index, each.error_code)
                        if leader is not None:
                            each.current_leader = ProduceResponse.LeaderIdAndEpoch(
                                leader_id=leader[0], leader_epoch=leader[1]
                            )
        _complete(self.answer, self.response, version, correlation_id, acks)


def _tell_nothing() -> None:
    """Settled at once: there is no waiter."""


class Produces:
    """The produce requests of all connections: those of a turn, and what they leave."""

    def __init__(self, served: Served) -> None:
        self._served = served
        #: All that have begun to wait for acks, since the pool; the others are those of the loop's thread.
        self._begun: set[ProduceAcks] = set()
        self._parked: dict[Notifier, ProduceAcks] = {}
        self._by_connection: dict[ClientConnection, set[ProduceAcks]] = {}
        allows = None if served.authorizer is None else partial(served.allows, AclOperation.WRITE)
        self.turn = ProduceTurn(self._route_to, served.table, self._finish, allows)

    def _route_to(self, topic: bytes, partition: int, is_id: bool) -> Route | None:
        """Return the way into a log that is open and takes clients' batches; None if there is none."""
        try:
            name = self._served.name_of(id_text(topic)) if is_id else topic.decode()
            if name is None:
                return None
            check_writable_by_users(name)
            log = self._served.find_open(name, partition)
        except (LogstoreError, UnicodeDecodeError):
            return None
        # With replicas, each batch is of a leader epoch, and may have to wait.
        return None if log is None or log.maintenance.config.replicated else Route(log.replica.offers())

    def notified(self, notifier: Notifier) -> None:
        """Look at a request that waits: acks have come, or cannot come any more."""
        parked = self._parked.get(notifier)
        if parked is not None and parked.is_settled():
            self._end_wait(parked)

    def closed(self, connection: ClientConnection) -> None:
        """Forget what a connection's requests wait for."""
        for each in list(self._by_connection.get(connection, ())):
            self._unpark(each)
            self._forget(each)

    def end(self) -> None:
        """Forget what waits, once loop and pool have ended."""
        while self._begun:
            self._begun.pop().forget()

    def _park(self, acks: ProduceAcks) -> None:
        """Have a request whose batches are appended wait for their acks, or answer it."""
        if acks.answer.is_done:
            self._forget(acks)  # its connection has closed
            return
        if acks.is_settled():
            self._begun.discard(acks)
            acks.complete()
            return
        assert acks.notifier is not None
        acks.answer.release_frame()
        self._parked[acks.notifier] = acks
        self._by_connection.setdefault(acks.answer.connection, set()).add(acks)
        acks.timer = self._served.loop.call_later(
            acks.timeout_s, lambda: self._end_wait(acks), acks.answer.connection
        )

    def _unpark(self, acks: ProduceAcks) -> None:
        assert acks.notifier is not None
        del self._parked[acks.notifier]
        of_connection = self._by_connection[acks.answer.connection]
        of_connection.discard(acks)
        if not of_connection:
            del self._by_connection[acks.answer.connection]
        self._served.loop.cancel(acks.timer)

    def _end_wait(self, acks: ProduceAcks) -> None:
        """Answer a request: nothing of it waits any more, or its time is over."""
        self._unpark(acks)
        try:
            acks.time_out()
            acks.complete()
        finally:
            self._forget(acks)

    def _forget(self, acks: ProduceAcks) -> None:
        if not acks.left:
            self._begun.discard(acks)
            return

        def forget() -> None:
            acks.forget()
            self._begun.discard(acks)

        # A replica's lock may be held while a new epoch is written.
        self._served.in_pool(forget)

    def _finish(self, connection: ClientConnection, undone: list[ProduceRequestBytes]) -> None:
        """Append what the turn has left of a connection's requests, and answer each unless its acks are 0."""
        try:
            requests = [each.decode() for each in undone]
        except ProtocolError as error:
            _logger.info("connection of %s closed: %s", connection.peer, error)
            connection.close()
            return

        def work() -> list[ProduceAcks]:
            # All of them before the first is appended: of what an authorizer fails on, nothing is done.
            # A request of which the turn has taken batches was asked about before it did.
            denied = [
                frozenset[str]() if each.results else _denied(self._served, request, connection)
                for request, each in zip(requests, undone, strict=True)
            ]
            found = []
            try:
                for request, each, topics in zip(requests, undone, denied, strict=True):
                    acks = ProduceAcks(self._served, each.answer, request)
                    found.append(acks)
                    self._begun.add(acks)
                    acks.response = _appended(self._served, request, each.results, topics, acks)
            except BaseException:
                for acks in found:
                    acks.forget()
                self._begun.difference_update(found)
                raise
            return found

        def then(found: list[ProduceAcks]) -> None:
            try:
                while found:
                    self._park(found.pop(0))
            finally:
                for acks in found:  # behind one whose answer has failed
                    self._forget(acks)
            connection.release()

        connection.hold()
        self._served.run(connection, work, then)


def _denied(served: Served, request: Request, connection: ClientConnection) -> frozenset[str] | None:
    """Return the topics of a request to which its client may not write; None if all of the request is refused."""
    if served.authorizer is None:
        return frozenset()
    asked = request.message
    assert isinstance(asked, ProduceRequest)
    rights = served.rights(request.client_id, connection)
    if any(_is_transactional(each.records) for topic in asked.topic_data for each in topic.partition_data):
        user = asked.transactional_id
        if user is None or not rights.allows(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, user):
            return None
    names = (topic.name or served.name_of(topic.topic_id) for topic in asked.topic_data)
    return rights.denied(AclOperation.WRITE, ResourceType.TOPIC, (name for name in names if name is not None))


def _is_transactional(records: Buffer | None) -> bool:
    head = b"" if records is None else bytes(memoryview(records)[:_HEADER_BYTES])
    return len(head) == _HEADER_BYTES and head[_MAGIC_AT] == 2 and bool(head[_ATTRIBUTES_AT + 1] & _TRANSACTIONAL)


def _appended(
    served: Served,
    request: Request,
    results: list[tuple[int, int, int] | None],
    denied: frozenset[str] | None,
    acks: ProduceAcks,
) -> ProduceResponse:
    asked = request.message
    assert isinstance(asked, ProduceRequest)
    if denied is None:
        code = codes.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        refused = [
            _of_topic(each, [_failed(one.index, code) for one in each.partition_data]) for each in asked.topic_data
        ]
        return ProduceResponse(responses=refused)
    return _append_all(served, asked, iter(results), denied, acks)


def _complete(answer: Answer, response: ProduceResponse, version: int, correlation_id: int, acks: int) -> None:
    if answer.is_done:
        return  # its connection has closed
    if acks:
        answer.complete([encode_response(response, version, correlation_id)])
        return
    if any(each.error_code for topic in response.responses for each in topic.partition_responses):
        # As Kafka: it is all that a producer without acks can be told.
        _logger.info("connection of %s closed: a batch with acks=0 was refused", answer.connection.peer)
        answer.connection.close()
        return
    answer.complete([])


def _append_all(
    served: Served,
    asked: ProduceRequest,
    results: Iterator[tuple[int, int, int] | None],
    denied: frozenset[str],
    acks: ProduceAcks,
) -> ProduceResponse:
    """Append the batches of a request that have no result yet."""
    topics = []
    for topic in asked.topic_data:
        name = topic.name or served.name_of(topic.topic_id)
        answers = []
        for each in topic.partition_data:
            known = next(results, None)
            if known is not None:
                code, first, log_start = known
                answers.append(
                    _Answered(index=each.index, error_code=code, base_offset=first, log_start_offset=log_start)
                )
                continue
            if each.records is not None and bytes(memoryview(each.records)[_MAGIC_AT : _MAGIC_AT + 1]) > b"\2":
                # As Kafka, which looks at it before it looks for the topic.
                answers.append(_failed(each.index, CorruptRecordError.code))
                continue
            if name is None:
                answers.append(_failed(each.index, codes.UNKNOWN_TOPIC_ID))
                continue
            if name in denied:
                answers.append(_failed(each.index, codes.TOPIC_AUTHORIZATION_FAILED))
                continue
            try:
                check_writable_by_users(name)
                answers.append(_append(served, served.led(name, each.index), each, acks))
            except LogstoreError as error:
                answers.append(_failed(each.index, error.code, str(error)))
        topics.append(_of_topic(topic, answers))
    return ProduceResponse(responses=topics)


def _append(served: Served, log: Log, asked: ProduceRequest.PartitionProduceData, acks: ProduceAcks) -> _Answered:
    version, _, wanted = acks.request
    batch = b"" if asked.records is None else bytes(asked.records)
    _check_one_batch(log, batch, version)
    if wanted not in _ACKS:
        return _failed(asked.index, codes.INVALID_REQUIRED_ACKS)
    if batch[_ATTRIBUTES_AT + 1] & _TRANSACTIONAL_OR_CONTROL:
        # Transactions have no coordinator yet: an open one would stop every reader with read_committed.
        return _failed(asked.index, codes.INVALID_TXN_STATE, "transactions are not served")
    replicas = served.replicas(*log.name) if log.maintenance.config.replicated else None
    # In this epoch the batch is acknowledged, or not at all.
    epoch = -1 if replicas is None else replicas.check_append(log.name, _ACKS[wanted])
    try:
        result = log.replica.append_batch(batch)
    except (InvalidRecordError, InvalidTimestampError) as error:
        return _refused(log, asked.index, batch, error)
    is_log_time = log.maintenance.config.message_timestamp_type == "logappendtime" and not result.duplicate
    answered = _Answered(
        index=asked.index,
        base_offset=result.first_offset,
        log_append_time_ms=result.timestamp_ms if is_log_time else -1,
        log_start_offset=log.log_start_offset,
    )
    if replicas is not None:
        acks.begin(replicas, log, result, epoch, _ACKS[wanted], answered)
    return answered


def _refused(log: Log, index: int, batch: bytes, error: LogstoreError) -> _Answered:
    """Return the answer for a batch that a log refuses; it names the records that are the reason, as Kafka does."""
    answered = _failed(index, error.code, str(error))
    wrong = list(islice(_wrong_records(log, batch), _MOST_WRONG))
    if wrong:
        answered.record_errors = [
            ProduceResponse.BatchIndexAndErrorMessage(batch_index=number, batch_index_error_message=why)
            for number, why in wrong
        ]
        answered.log_start_offset = log.log_start_offset
    return answered


def _wrong_records(log: Log, batch: bytes) -> Iterator[tuple[int, str]]:
    """Yield the number of each record that makes a log refuse its batch, and why."""
    config, now_ms = log.maintenance.config, log._clock.now_ms()
    try:
        for number, record in enumerate(BatchView(batch)):
            try:
                check_keys(int(record.key is None), config)
                check_timestamps(record.timestamp_ms, record.timestamp_ms, config, now_ms)
            except (InvalidRecordError, InvalidTimestampError) as error:
                yield number, str(error)
    except RecordError:
        return  # the batch itself is damaged: its error says so


def _check_one_batch(log: Log, batch: bytes, version: int) -> None:
    """Refuse what is not one batch of the present format; its contents are checked by the append.

    Raises:
        InvalidRecordError: there is no batch, an old format, or more than one batch.
        UnsupportedCodecError: the request's version does not know the codec.
    """
    if len(batch) < _HEADER_BYTES:
        raise InvalidRecordError(f"{log.name}: a batch needs {_HEADER_BYTES} bytes, found {len(batch)}")
    if batch[_MAGIC_AT] != 2:
        raise InvalidRecordError(f"{log.name}: expected batches of magic 2, found {batch[_MAGIC_AT]}")
    if version < _ZSTD_SINCE and batch[_ATTRIBUTES_AT + 1] & _CODEC_MASK == Codec.ZSTD:
        raise UnsupportedCodecError(
            f"{log.name}: Produce {version} has no zstd; it came with version {_ZSTD_SINCE}"
        )
    size = _LENGTH_AT + 4 + int.from_bytes(batch[_LENGTH_AT : _LENGTH_AT + 4], "big", signed=True)
    if _HEADER_BYTES <= size < len(batch):
        raise InvalidRecordError(f"{log.name}: expected one batch of {size} bytes, found {len(batch)}")


def _of_topic(
    topic: ProduceRequest.TopicProduceData, answers: list[_Answered]
) -> ProduceResponse.TopicProduceResponse:
    return ProduceResponse.TopicProduceResponse(
        name=topic.name, topic_id=topic.topic_id, partition_responses=answers
    )


def _failed(index: int, code: int, message: str | None = None) -> _Answered:
    return _Answered(index=index, error_code=code, base_offset=-1, error_message=message)
