"""Produce: what `_produce` leaves of the requests of a turn, and the errors of what is refused.

It may have to wait for the opening of a log, a lock that an embedded writer holds, a roll or a sync, so the pool
appends it. The connection takes no further request meanwhile: its batches reach a log in the order in which they
were sent.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

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
)
from logstore.log import Log
from logstore.protocol import codes
from logstore.protocol.frames import Request, encode_response
from logstore.protocol.generated.messages import ProduceRequest, ProduceResponse
from logstore.topic_names import check_writable_by_users

if TYPE_CHECKING:
    from typing_extensions import Buffer

_logger = logging.getLogger(__name__)


#: Kafka protocol, record batch v2: baseOffset 8, batchLength 4, …; the header's size; where the attributes are.
_LENGTH_AT = 8
_HEADER_BYTES = 61
_MAGIC_AT = 16
_ATTRIBUTES_AT = 21
_TRANSACTIONAL = 0x10
_TRANSACTIONAL_OR_CONTROL = 0x30

#: Records that an answer names: hundreds of thousands fit into a compressed batch.
_MOST_WRONG = 1_000

_Answered = ProduceResponse.PartitionProduceResponse


class Produces:
    """The produce requests of all connections: those of a turn, and what they leave."""

    def __init__(self, served: Served) -> None:
        self._served = served
        allows = None if served.authorizer is None else self._allows
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
        return None if log is None else Route(log.replica.offers())

    def _allows(
        self, connection: ClientConnection, client_id: bytes | None, topics: set[bytes], is_id: bool
    ) -> bool:
        """Return whether a client may write to all topics, which are there; else `_finish` says what is refused."""
        try:
            name = None if client_id is None else client_id.decode()
            named = [self._served.name_of(id_text(each)) if is_id else each.decode() for each in topics]
        except UnicodeDecodeError:
            return False
        known = [each for each in named if each is not None]
        rights = self._served.rights(name, connection)
        return len(known) == len(named) and not rights.denied(AclOperation.WRITE, ResourceType.TOPIC, known)

    def _finish(self, connection: ClientConnection, undone: list[ProduceRequestBytes]) -> None:
        """Append what the turn has left of a connection's requests, and answer each unless its acks are 0."""
        try:
            requests = [each.decode() for each in undone]
        except ProtocolError as error:
            _logger.info("connection of %s closed: %s", connection.peer, error)
            connection.close()
            return

        def work() -> list[ProduceResponse]:
            # All of them before the first is appended: of what an authorizer fails on, nothing is done.
            # A request of which the turn has taken batches was asked about before it did.
            denied = [
                frozenset[str]() if each.results else _denied(self._served, request, connection)
                for request, each in zip(requests, undone, strict=True)
            ]
            return [
                _appended(self._served, request, each.results, topics)
                for request, each, topics in zip(requests, undone, denied, strict=True)
            ]

        def then(responses: list[ProduceResponse]) -> None:
            for each, request, response in zip(undone, requests, responses, strict=True):
                self._count(response)
                _complete(each.answer, request, response)
            connection.release()

        connection.hold()
        self._served.run(connection, work, then)

    def _count(self, response: ProduceResponse) -> None:
        for topic in response.responses:
            for each in topic.partition_responses:
                if each.error_code:
                    name = topic.name or self._served.name_of(topic.topic_id)
                    self._served.counts_of(name, each.error_code).failed_produces += 1


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
) -> ProduceResponse:
    asked = request.message
    assert isinstance(asked, ProduceRequest)
    if denied is None:
        code = codes.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        refused = [
            _of_topic(each, [_failed(one.index, code) for one in each.partition_data]) for each in asked.topic_data
        ]
        return ProduceResponse(responses=refused)
    return _append_all(served, asked, iter(results), denied)


def _complete(answer: Answer, request: Request, response: ProduceResponse) -> None:
    asked = request.message
    assert isinstance(asked, ProduceRequest)
    if answer.is_done:
        return  # its connection has closed
    if asked.acks:
        answer.complete([encode_response(response, request.version, request.correlation_id)])
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
                answers.append(_append(served.led(name, each.index), each, asked.acks))
            except LogstoreError as error:
                answers.append(_failed(each.index, error.code, str(error)))
        topics.append(_of_topic(topic, answers))
    return ProduceResponse(responses=topics)


def _append(log: Log, asked: ProduceRequest.PartitionProduceData, acks: int) -> _Answered:
    batch = b"" if asked.records is None else bytes(asked.records)
    _check_one_batch(log, batch)
    if acks not in (-1, 0, 1):
        return _failed(asked.index, codes.INVALID_REQUIRED_ACKS)
    if batch[_ATTRIBUTES_AT + 1] & _TRANSACTIONAL_OR_CONTROL:
        # Transactions have no coordinator yet: an open one would stop every reader with read_committed.
        return _failed(asked.index, codes.INVALID_TXN_STATE, "transactions are not served")
    try:
        result = log.replica.append_batch(batch)
    except (InvalidRecordError, InvalidTimestampError) as error:
        return _refused(log, asked.index, batch, error)
    is_log_time = log.maintenance.config.message_timestamp_type == "logappendtime" and not result.duplicate
    return _Answered(
        index=asked.index,
        base_offset=result.first_offset,
        log_append_time_ms=result.timestamp_ms if is_log_time else -1,
        log_start_offset=log.log_start_offset,
    )


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


def _check_one_batch(log: Log, batch: bytes) -> None:
    """Refuse what is not one batch of the present format; its contents are checked by the append.

    Raises:
        InvalidRecordError: there is no batch, an old format, or more than one batch.
    """
    if len(batch) < _HEADER_BYTES:
        raise InvalidRecordError(f"{log.name}: a batch needs {_HEADER_BYTES} bytes, found {len(batch)}")
    if batch[_MAGIC_AT] != 2:
        raise InvalidRecordError(f"{log.name}: expected batches of magic 2, found {batch[_MAGIC_AT]}")
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
