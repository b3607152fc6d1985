"""Brokers in this process that do what a test tells them: real sockets, the codec of ours, no log on disk.

`FakeCluster` holds topics and says who leads what; each `FakeBroker` listens on a port and serves them. A test
plants faults: "the next fetch is answered with error 6", "the connection is cut in the middle of the answer",
"nothing is answered". What a broker does without a fault is what Kafka does, as far as the client can see it.
"""

from __future__ import annotations

import base64
import fcntl
import os
import socket
import sys
import termios
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from logstore.batch._batch import BatchView, stamp_run
from logstore.batch._encode import encode, encode_marker
from logstore.protocol.frames import decode_request, encode_response
from logstore.protocol.generated import messages as m
from logstore.records import TopicPartition
from tests.kit.waiting import wait_for
from tests.remote.fake_groups import REQUESTS, FakeGroups

#: What a fault does with an answer: the answer's frame in, the connection, True when it has answered itself.
Act = Callable[["FakeBroker", socket.socket, bytes], bool]

MOST_BYTES = 100 << 20  #: socket.request.max.bytes

ALL = {cls.API_KEY: (cls.MIN_VERSION, cls.MAX_VERSION) for cls in m.REQUESTS.values()}


def new_id() -> str:
    return base64.urlsafe_b64encode(b"\x01" + os.urandom(15)).decode().rstrip("=")


# --- faults ------------------------------------------------------------------------------------


def disconnect(broker: FakeBroker, connection: socket.socket, frame: bytes) -> bool:
    """The request is carried out, its answer is lost with the connection."""
    raise ConnectionError


def cut(broker: FakeBroker, connection: socket.socket, frame: bytes) -> bool:
    """Half of the answer, then the end."""
    connection.sendall(frame[: len(frame) // 2])
    raise ConnectionError


def silence(broker: FakeBroker, connection: socket.socket, frame: bytes) -> bool:
    """No answer, now or later, and the connection stays until the client closes it."""
    while connection.recv(1 << 16):
        pass
    raise ConnectionError


def unread(connection: socket.socket) -> int:
    """Return how many bytes the other end's system has not taken yet."""
    return int.from_bytes(fcntl.ioctl(connection, termios.TIOCOUTQ, bytes(4)), sys.byteorder)


def dribble(broker: FakeBroker, connection: socket.socket, frame: bytes) -> bool:
    """The answer in pieces of a byte, and then larger ones."""
    for position in range(20):
        connection.sendall(frame[position : position + 1])
        wait_for(lambda: not unread(connection), every_s=0.001)
    for position in range(20, len(frame), 997):
        connection.sendall(frame[position : position + 997])
    return True


def garbage(broker: FakeBroker, connection: socket.socket, frame: bytes) -> bool:
    """An answer of the right size and number that is none."""
    connection.sendall(frame[:8] + b"\xff" * (len(frame) - 8))
    return True


def web_server(broker: FakeBroker, connection: socket.socket, frame: bytes) -> bool:
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
    raise ConnectionError


def another_number(broker: FakeBroker, connection: socket.socket, frame: bytes) -> bool:
    """The answer to a request that no client has made."""
    connection.sendall(frame[:4] + b"\x7f\xff\xff\xff" + frame[8:])
    return True


# --- topics ------------------------------------------------------------------------------------


@dataclass
class FakePartition:
    """One partition's batches, with what brokers keep of producers."""

    leader: int = 1
    epoch: int = 0
    batches: list[bytes] = field(default_factory=list)
    ends: dict[int, int] = field(default_factory=dict)  #: leader epoch -> its end, if that is not the end of all
    near: dict[str, int] = field(default_factory=dict)  #: rack -> the follower that its readers are sent to
    start: int = 0
    end: int = 0
    stable: int | None = None  #: the last stable offset; None: the end
    aborted: list[tuple[int, int, int]] = field(default_factory=list)  #: producer id, first offset, marker
    refuses: int = 0  #: the error code of every batch that is produced, and not written
    #: producer id -> (epoch, next sequence, the last five (sequence, base offset))
    producers: dict[int, tuple[int, int, deque[tuple[int, int]]]] = field(default_factory=dict)

    def put(self, batches: bytes) -> int:
        """Append batches with base offset 0; the first offset."""
        first = self.end
        data = bytearray(batches)
        stamp_run(data, first, self.epoch)
        while data:
            view = BatchView(bytes(data))
            self.batches.append(bytes(data[: view.size]))
            self.end = view.next_offset
            del data[: view.size]
        return first

    def add(self, values: Iterable[bytes], **settings: Any) -> int:
        return self.put(encode(list(values), **settings))

    def cut(self, end: int) -> None:
        """Another leader's log is shorter: batches from an offset on are gone, and the next epoch begins."""
        self.batches = [each for each in self.batches if BatchView(each).last_offset < end]
        self.end = end
        self.epoch += 1

    def mark(self, producer_id: int, *, commit: bool, first: int = -1) -> None:
        """The end of a transaction; ``first`` is its first offset, for the list of aborted ones."""
        marker = self.put(encode_marker(int(commit), 0, producer_id, 0, 1))
        if not commit:
            self.aborted.append((producer_id, first, marker))

    def readable(self, committed: bool) -> int:
        return self.end if self.stable is None or not committed else self.stable

    def read(self, offset: int, max_bytes: int, committed: bool) -> bytes:
        out = bytearray()
        for batch in self.batches:
            view = BatchView(batch)
            if view.last_offset < offset or view.base_offset >= self.readable(committed):
                continue
            out += batch
            if len(out) >= max_bytes:
                # As a file is cut: the first batch comes whole, the last may not.
                first = BatchView(bytes(out)).size
                del out[max(max_bytes, first) :]
                break
        return bytes(out)

    def produce(self, batch: bytes) -> tuple[int, int]:
        """(error code, base offset) of a produced batch."""
        if self.refuses:
            return self.refuses, -1
        view = BatchView(batch).check()
        if view.producer_id < 0:
            return 0, self.put(batch)
        known = self.producers.get(view.producer_id)
        if known is None or known[0] != view.producer_epoch:
            recent: deque[tuple[int, int]] = deque(maxlen=5)
        else:
            _, expected, recent = known
            for sequence, base in recent:
                if sequence == view.base_sequence:
                    return 0, base
            if view.base_sequence != expected:
                return 45, -1
        base = self.put(batch)
        recent.append((view.base_sequence, base))
        self.producers[view.producer_id] = view.producer_epoch, (view.last_sequence + 1) & 0x7FFFFFFF, recent
        return 0, base

    def values(self) -> list[bytes]:
        return [record.value for batch in self.batches for record in BatchView(batch)]


@dataclass
class FakeTopic:
    id: str
    partitions: list[FakePartition]
    settings: dict[str, str] = field(default_factory=dict)


class Guard:
    """How the brokers' listener is secured; this one is plain."""

    def secured(self, connection: socket.socket) -> socket.socket:
        """The connection after its TLS handshake, if the listener has one."""
        return connection

    def session(self) -> Session:
        """What a new connection has proved: nothing."""
        return Session()


class Session:
    """What one connection has proved; this one need not."""

    def answer(self, request: Any) -> Any | None:
        """The answer to a message of the login, None for any other; ConnectionError refuses it."""
        return None


class FakeCluster:
    """Brokers with numbers from 1 on, and topics.

    Owns: the brokers, which end with the ``with`` block.
    """

    def __init__(
        self,
        brokers: int = 1,
        versions: dict[int, tuple[int, int]] | None = None,
        *,
        guard: Guard | None = None,
        long_polls: bool = False,
        session_ms: int = 45_000,
        interval_ms: int = 5_000,
    ) -> None:
        self.long_polls = long_polls  #: whether a fetch waits for records, as long as it says
        self.tells_leaders = False  #: whether a broker that does not lead a partition says which one does
        #: group -> partition -> (offset, metadata, leader epoch)
        self.offsets: dict[str, dict[TopicPartition, tuple[int, str, int]]] = defaultdict(dict)
        #: members of groups; the session and the heartbeats are those of the KIP-848 protocol
        self.groups = FakeGroups(session_ms=session_ms, interval_ms=interval_ms)
        self.guard = Guard() if guard is None else guard
        self.lock = threading.RLock()
        self.topics: dict[str, FakeTopic] = {}
        self.versions = ALL if versions is None else versions
        self.next_producer_id = 1000
        self.got: list[Any] = []  #: every request of every broker, in the order in which they came
        self.brokers = {number: FakeBroker(self, number) for number in range(1, brokers + 1)}

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{each.advertised}" for each in self.brokers.values())

    def topic(self, name: str, partitions: int = 1, *, leaders: Iterable[int] = (1,)) -> list[FakePartition]:
        """A new topic; its leaders in turn."""
        turn = list(leaders)
        made = [FakePartition(leader=turn[number % len(turn)]) for number in range(partitions)]
        self.topics[name] = FakeTopic(new_id(), made)
        return made

    def partition(self, tp: TopicPartition) -> FakePartition:
        return self.topics[tp.topic].partitions[tp.partition]

    def lead(self, tp: TopicPartition, broker: int) -> None:
        """Another broker leads a partition from now on."""
        with self.lock:
            found = self.partition(tp)
            found.leader = broker
            found.epoch += 1

    def by_id(self, topic_id: str) -> str | None:
        return next((name for name, topic in self.topics.items() if topic.id == topic_id), None)

    def requests(self, cls: type[Any]) -> list[Any]:
        """Every request of a kind that any broker got, in order."""
        return [each for each in list(self.got) if isinstance(each, cls)]

    def __enter__(self) -> FakeCluster:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.groups.has_ended = True
        for each in self.brokers.values():
            each.stop()


class FakeBroker:
    """One broker: a port, a thread that accepts and one for each connection."""

    def __init__(self, cluster: FakeCluster, number: int) -> None:
        self.cluster = cluster
        self.number = number
        self.got: list[Any] = []
        self.versions_got: list[tuple[int, int]] = []
        self.accepted = 0
        #: Number of a fetch session -> its next epoch, and what it holds.
        self.sessions: dict[int, tuple[int, dict[tuple[str, str, int], Any]]] = {}
        self.next_session = 1_000 * number
        self._faults: dict[int, deque[Any]] = defaultdict(deque)
        self._open: set[socket.socket] = set()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.advertised = self.port  #: what the cluster's answers say; a proxy's, if there is one before it
        self._listen()

    def _listen(self) -> None:
        self._thread = threading.Thread(target=self._accept, args=(self._socket,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End, with every connection."""
        # A listening socket that is closed does not wake its thread by itself.
        for each in [self._socket, *self._open]:
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            each.close()
        self._thread.join(300)

    def restart(self) -> None:
        """Listen on the same port again."""
        self._socket = socket.create_server(("127.0.0.1", self.port))
        self._listen()

    def plan(self, cls: type[Any], *faults: Any) -> None:
        """What becomes of the next requests of a kind, one each: an error code, an `Act`, or None for nothing."""
        self._faults[cls.API_KEY].extend(faults)

    def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            self.accepted += 1
            self._open.add(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        session = self.cluster.guard.session()
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            plain, connection = connection, self.cluster.guard.secured(connection)
            self._open.discard(plain)
            self._open.add(connection)
            while True:
                size = int.from_bytes(_read(connection, 4), "big")
                if size > MOST_BYTES:
                    raise ConnectionError  # as Kafka does with a request that is too large
                self._answer(connection, session, _read(connection, size))
        except (OSError, ValueError):  # also of a fault that looks at a socket which the test has closed
            pass
        finally:
            self._open.discard(connection)
            connection.close()

    def _answer(self, connection: socket.socket, session: Session, frame: bytes) -> None:
        api_key, version = int.from_bytes(frame[:2], "big"), int.from_bytes(frame[2:4], "big")
        correlation_id = int.from_bytes(frame[4:8], "big")
        self.versions_got.append((api_key, version))
        low, high = self.cluster.versions[18]
        if api_key == 18 and not low <= version <= high:
            answer = m.ApiVersionsResponse(
                error_code=35,
                api_keys=[m.ApiVersionsResponse.ApiVersion(api_key=18, min_version=low, max_version=high)],
            )
            connection.sendall(encode_response(answer, 0, correlation_id))
            return
        request = decode_request(frame)
        asked = request.message
        if isinstance(asked, m.FetchRequest):
            with self.cluster.lock:
                asked = self._in_session(asked, version)
            if self.cluster.long_polls:
                self._await_records(asked, version)
        with self.cluster.lock:
            self.got.append(request.message)
            self.cluster.got.append(request.message)
            fault = self._faults[api_key].popleft() if self._faults[api_key] else None
            code = fault if isinstance(fault, int) else 0
            answer = session.answer(request.message)
            waits = answer is None and isinstance(request.message, REQUESTS) and not code
            if waits:
                topics = {name: (each.id, len(each.partitions)) for name, each in self.cluster.topics.items()}
            elif answer is None and isinstance(request.message, REQUESTS):
                answer = m.RESPONSES[api_key](error_code=code)
            elif answer is None:
                answer = _HANDLERS[api_key](self, asked, code, version)
        if waits:
            answer = self.cluster.groups.ask(self.number, request.message, topics)
        with self.cluster.lock:
            if isinstance(fault, dict):
                for name, value in fault.items():
                    setattr(answer, name, value)
        out = encode_response(answer, version, correlation_id)
        if callable(fault) and fault(self, connection, out):
            return
        connection.sendall(out)

    def _await_records(self, request: Any, version: int) -> None:
        """Wait until a fetch would be answered with records or an error, as long as it says."""

        def is_due() -> bool:
            with self.cluster.lock:
                answer = self.fetch(request, 0, version)
            if answer.error_code:
                return True
            parts = [part for topic in answer.responses for part in topic.partitions]
            return any(part.records or part.error_code or part.preferred_read_replica >= 0 for part in parts)

        until = time.monotonic() + request.max_wait_ms / 1000
        wait_for(lambda: is_due() or time.monotonic() >= until, every_s=0.005)

    # -- what it answers ---------------------------------------------------------------------------

    def api_versions(self, request: Any, code: int, version: int) -> Any:
        keys = [
            m.ApiVersionsResponse.ApiVersion(api_key=key, min_version=low, max_version=high)
            for key, (low, high) in self.cluster.versions.items()
        ]
        return m.ApiVersionsResponse(error_code=code, api_keys=keys)

    def metadata(self, request: Any, code: int, version: int) -> Any:
        cluster = self.cluster
        if request.topics is None:
            wanted = list(cluster.topics)
        else:
            wanted = [each.name or cluster.by_id(each.topic_id) or "" for each in request.topics]
        if version == 0 and not wanted:
            wanted = list(cluster.topics)
        R = m.MetadataResponse
        topics = []
        for name in wanted:
            topic = cluster.topics.get(name)
            if topic is None or code:
                topics.append(R.MetadataResponseTopic(name=name, error_code=code or 3))
                continue
            topics.append(
                R.MetadataResponseTopic(
                    name=name,
                    topic_id=topic.id,
                    is_internal=name.startswith("__"),
                    partitions=[
                        R.MetadataResponsePartition(
                            partition_index=number,
                            leader_id=each.leader,
                            leader_epoch=each.epoch,
                            replica_nodes=[each.leader],
                            isr_nodes=[each.leader],
                        )
                        for number, each in enumerate(topic.partitions)
                    ],
                )
            )
        return R(
            brokers=[
                R.MetadataResponseBroker(node_id=number, host="127.0.0.1", port=each.advertised)
                for number, each in cluster.brokers.items()
            ],
            cluster_id="fake",
            controller_id=1,
            topics=topics,
        )

    def _led(
        self, topic: str | None, number: int, epoch: int, code: int, rack: str = ""
    ) -> tuple[int, FakePartition | None]:
        """An error, or the partition that this broker leads, or follows for the readers of a rack."""
        if code:
            return code, None
        if topic is None or topic not in self.cluster.topics:
            return 3, None
        partitions = self.cluster.topics[topic].partitions
        if number >= len(partitions):
            return 3, None
        found = partitions[number]
        if self.number not in (found.leader, found.near.get(rack)):
            return 6, None
        if epoch >= 0 and epoch != found.epoch:
            return (74 if epoch < found.epoch else 75), None
        return 0, found

    def list_offsets(self, request: Any, code: int, version: int) -> Any:
        R = m.ListOffsetsResponse
        topics = []
        for topic in request.topics:
            found = []
            for each in topic.partitions:
                error, partition = self._led(topic.name, each.partition_index, each.current_leader_epoch, code)
                offset, timestamp = -1, -1
                if partition is not None:
                    if each.timestamp == -2:
                        offset = partition.start
                    elif each.timestamp == -1:
                        offset = partition.readable(bool(request.isolation_level))
                    else:
                        end = partition.readable(bool(request.isolation_level))
                        for batch in partition.batches:
                            for record in BatchView(batch):
                                if offset < 0 and record.timestamp_ms >= each.timestamp and record.offset < end:
                                    offset, timestamp = record.offset, record.timestamp_ms
                found.append(
                    R.ListOffsetsPartitionResponse(
                        partition_index=each.partition_index,
                        error_code=error,
                        offset=offset,
                        timestamp=timestamp,
                        leader_epoch=partition.epoch if partition and version >= 4 else -1,
                    )
                )
            topics.append(R.ListOffsetsTopicResponse(name=topic.name, partitions=found))
        return R(topics=topics)

    def leader_epoch(self, request: Any, code: int, version: int) -> Any:
        R = m.OffsetForLeaderEpochResponse
        topics = []
        for topic in request.topics:
            found = []
            for each in topic.partitions:
                error, partition = self._led(topic.topic, each.partition, each.current_leader_epoch, code)
                known = partition is not None and each.leader_epoch <= partition.epoch
                found.append(
                    R.EpochEndOffset(
                        error_code=error,
                        partition=each.partition,
                        leader_epoch=each.leader_epoch if known else -1,
                        end_offset=(
                            partition.ends.get(each.leader_epoch, partition.end)
                            if partition is not None and known
                            else -1
                        ),
                    )
                )
            topics.append(R.OffsetForLeaderTopicResult(topic=topic.topic, partitions=found))
        return R(topics=topics)

    def _in_session(self, request: Any, version: int) -> Any:
        """The request with every partition of its session; its epoch is the error if the session is none."""
        if version < 7 or (request.session_epoch < 0 and not request.session_id):
            return request
        Topic = m.FetchRequest.FetchTopic
        epoch, held = self.sessions.pop(request.session_id, (-1, {}))
        error, number = 0, request.session_id
        if request.session_epoch == 0:
            self.next_session += 1
            number, held = self.next_session, {}
        elif request.session_epoch > 0 and epoch < 0:
            error = 70
        elif request.session_epoch > 0 and epoch != request.session_epoch:
            error = 71
        for topic in request.forgotten_topics_data:
            for each in topic.partitions:
                held.pop((topic.topic, topic.topic_id, each), None)
        for topic in request.topics:
            for each in topic.partitions:
                held[topic.topic, topic.topic_id, each.partition] = each
        if request.session_epoch >= 0 and not error:
            self.sessions[number] = request.session_epoch + 1, held
        return m.FetchRequest(
            max_wait_ms=request.max_wait_ms,
            min_bytes=request.min_bytes,
            max_bytes=request.max_bytes,
            isolation_level=request.isolation_level,
            session_id=number if request.session_epoch >= 0 else 0,
            session_epoch=-error or min(request.session_epoch, 1),
            topics=[
                Topic(topic=name, topic_id=topic_id, partitions=[each])
                for (name, topic_id, _), each in held.items()
            ],
            rack_id=request.rack_id,
        )

    def fetch(self, request: Any, code: int, version: int) -> Any:
        R = m.FetchResponse
        if request.session_epoch < -1:
            return R(error_code=-request.session_epoch)
        is_incremental = request.session_epoch == 1
        left = request.max_bytes
        committed = bool(request.isolation_level)
        topics = []
        for topic in request.topics:
            name = self.cluster.by_id(topic.topic_id) if version >= 13 else topic.topic
            found = []
            for each in topic.partitions:
                error, partition = self._led(name, each.partition, each.current_leader_epoch, code, request.rack_id)
                if name is None:
                    error = code or 100
                nearer = -1 if partition is None else partition.near.get(request.rack_id, -1)
                records, aborted, marks = b"", None, (-1, -1, -1)
                if partition is not None:
                    if not partition.start <= each.fetch_offset <= partition.end:
                        error = 1
                    else:
                        if nearer in (-1, self.number) and left > 0:
                            most = min(each.partition_max_bytes, left)
                            records = partition.read(each.fetch_offset, most, committed)
                            left -= len(records)
                        marks = (partition.end, partition.readable(True), partition.start)
                        if committed:
                            aborted = [
                                R.AbortedTransaction(producer_id=pid, first_offset=first)
                                for pid, first, marker in partition.aborted
                                if marker >= each.fetch_offset
                            ]
                if is_incremental and not (records or error or nearer not in (-1, self.number)):
                    continue
                told = R.LeaderIdAndEpoch()
                if error in (6, 74) and self.cluster.tells_leaders and name in self.cluster.topics:
                    led = self.cluster.topics[name].partitions[each.partition]
                    told = R.LeaderIdAndEpoch(leader_id=led.leader, leader_epoch=led.epoch)
                found.append(
                    R.PartitionData(
                        partition_index=each.partition,
                        current_leader=told,
                        error_code=error,
                        high_watermark=marks[0],
                        last_stable_offset=marks[1],
                        log_start_offset=marks[2],
                        aborted_transactions=aborted,
                        preferred_read_replica=-1 if nearer == self.number else nearer,
                        records=records,
                    )
                )
            answer = R.FetchableTopicResponse(partitions=found)
            answer.topic, answer.topic_id = ("", topic.topic_id) if version >= 13 else (name or "", "")
            if found or not is_incremental:
                topics.append(answer)
        nodes = [
            R.NodeEndpoint(node_id=number, host="127.0.0.1", port=each.advertised)
            for number, each in self.cluster.brokers.items()
            if self.cluster.tells_leaders
        ]
        return R(responses=topics, session_id=request.session_id if version >= 7 else 0, node_endpoints=nodes)

    def init_producer(self, request: Any, code: int, version: int) -> Any:
        self.cluster.next_producer_id += 1
        return m.InitProducerIdResponse(
            error_code=code, producer_id=-1 if code else self.cluster.next_producer_id, producer_epoch=0
        )

    def produce(self, request: Any, code: int, version: int) -> Any:
        R = m.ProduceResponse
        topics = []
        for topic in request.topic_data:
            name = self.cluster.by_id(topic.topic_id) if version >= 13 else topic.name
            found = []
            for each in topic.partition_data:
                # A broker that was slow to copy a batch has it all the same.
                error, partition = self._led(name, each.index, -1, 0 if code == 7 else code)
                if name is None:
                    error = code or 100
                base = -1
                if partition is not None:
                    error, base = partition.produce(bytes(each.records))
                    if code == 7:
                        error, base = 7, -1
                found.append(R.PartitionProduceResponse(index=each.index, error_code=error, base_offset=base))
            answer = R.TopicProduceResponse(partition_responses=found)
            answer.name, answer.topic_id = ("", topic.topic_id) if version >= 13 else (name or "", "")
            topics.append(answer)
        return R(responses=topics)

    def create_topics(self, request: Any, code: int, version: int) -> Any:
        R = m.CreateTopicsResponse
        topics = []
        for each in request.topics:
            error = code or (36 if each.name in self.cluster.topics else 0)
            if not error:
                self.cluster.topic(each.name, max(each.num_partitions, 1))
                self.cluster.topics[each.name].settings = {c.name: c.value for c in each.configs}
            topic_id = self.cluster.topics[each.name].id if not error and version >= 7 else ""
            topics.append(R.CreatableTopicResult(name=each.name, topic_id=topic_id, error_code=error))
        return R(topics=topics)

    def delete_topics(self, request: Any, code: int, version: int) -> Any:
        R = m.DeleteTopicsResponse
        names = [each.name for each in request.topics] if version >= 6 else request.topic_names
        found = []
        for name in names:
            gone = None if code else self.cluster.topics.pop(name, None)
            found.append(R.DeletableTopicResult(name=name, error_code=code or (0 if gone else 3)))
        return R(responses=found)

    def describe_configs(self, request: Any, code: int, version: int) -> Any:
        R = m.DescribeConfigsResponse
        results = []
        for each in request.resources:
            topic = self.cluster.topics.get(each.resource_name)
            results.append(
                R.DescribeConfigsResult(
                    error_code=code or (0 if topic else 3),
                    error_message=None,
                    resource_type=each.resource_type,
                    resource_name=each.resource_name,
                    configs=[
                        R.DescribeConfigsResourceResult(name=key, value=value, config_source=1)
                        for key, value in (topic.settings if topic else {}).items()
                    ],
                )
            )
        return R(results=results)

    def alter_configs(self, request: Any, code: int, version: int) -> Any:
        R = m.IncrementalAlterConfigsResponse
        found = []
        for each in request.resources:
            topic = self.cluster.topics.get(each.resource_name)
            error = code or (0 if topic else 3)
            unknown = [change.name for change in each.configs if change.name.startswith("logstore.")]
            said = None
            if topic and unknown:
                error, said = 40, f"Unknown topic config name: {unknown[0]}"
            if topic and not error:
                for change in each.configs:
                    topic.settings.pop(change.name, None)
                    if change.config_operation == 0:
                        topic.settings[change.name] = change.value
            found.append(
                R.AlterConfigsResourceResponse(
                    error_code=error, error_message=said, resource_type=2, resource_name=each.resource_name
                )
            )
        return R(responses=found)

    def create_partitions(self, request: Any, code: int, version: int) -> Any:
        R = m.CreatePartitionsResponse
        found = []
        for each in request.topics:
            topic = self.cluster.topics.get(each.name)
            error = code or (0 if topic else 3)
            if topic and not error and each.count <= len(topic.partitions):
                error = 37
            if topic and not error:
                topic.partitions += [FakePartition() for _ in range(each.count - len(topic.partitions))]
            found.append(R.CreatePartitionsTopicResult(name=each.name, error_code=error, error_message=None))
        return R(results=found)

    def delete_records(self, request: Any, code: int, version: int) -> Any:
        R = m.DeleteRecordsResponse
        topics = []
        for topic in request.topics:
            found = []
            for each in topic.partitions:
                error, partition = self._led(topic.name, each.partition_index, -1, code)
                if partition is not None:
                    offset = partition.end if each.offset == -1 else each.offset
                    if offset > partition.end:
                        error = 1
                    else:
                        partition.start = max(partition.start, offset)
                start = -1 if partition is None else partition.start
                found.append(
                    R.DeleteRecordsPartitionResult(
                        partition_index=each.partition_index, low_watermark=start, error_code=error
                    )
                )
            topics.append(R.DeleteRecordsTopicResult(name=topic.name, partitions=found))
        return R(topics=topics)

    def log_dirs(self, request: Any, code: int, version: int) -> Any:
        R = m.DescribeLogDirsResponse
        topics = []
        for topic in request.topics:
            partitions = self.cluster.topics[topic.topic].partitions
            topics.append(
                R.DescribeLogDirsTopic(
                    name=topic.topic,
                    partitions=[
                        R.DescribeLogDirsPartition(
                            partition_index=number, partition_size=sum(map(len, partitions[number].batches))
                        )
                        for number in topic.partitions
                    ],
                )
            )
        return R(error_code=code, results=[R.DescribeLogDirsResult(error_code=0, log_dir="/data", topics=topics)])

    def find_coordinator(self, request: Any, code: int, version: int) -> Any:
        R = m.FindCoordinatorResponse
        if version < 4:
            node = self.cluster.groups.nodes.get(request.key, self.number)
            port = self.cluster.brokers[node].advertised
            return R(error_code=code, node_id=node, host="127.0.0.1", port=port)
        found = []
        for key in request.coordinator_keys:
            node = self.cluster.groups.nodes.get(key, self.number)
            port = self.cluster.brokers[node].advertised
            found.append(R.Coordinator(key=key, node_id=node, host="127.0.0.1", port=port, error_code=code))
        return R(coordinators=found)

    def _group_code(self, group: str, code: int) -> int:
        return code or (16 if self.cluster.groups.is_elsewhere(group, self.number) else 0)

    def offset_commit(self, request: Any, code: int, version: int) -> Any:
        R = m.OffsetCommitResponse
        topics = []
        code = self._group_code(request.group_id, code) or self.cluster.groups.refusal(request)
        for topic in request.topics:
            found = []
            for each in topic.partitions:
                known = self.cluster.topics.get(topic.name)
                error = code or (0 if known and each.partition_index < len(known.partitions) else 3)
                if not error:
                    kept = each.committed_offset, each.committed_metadata or "", each.committed_leader_epoch
                    self.cluster.offsets[request.group_id][TopicPartition(topic.name, each.partition_index)] = kept
                found.append(
                    R.OffsetCommitResponsePartition(partition_index=each.partition_index, error_code=error)
                )
            topics.append(R.OffsetCommitResponseTopic(name=topic.name, partitions=found))
        return R(topics=topics)

    def offset_fetch(self, request: Any, code: int, version: int) -> Any:
        R = m.OffsetFetchResponse
        asked = request.groups[0] if version >= 8 else request
        code = self._group_code(asked.group_id, code)
        topic_cls, part_cls = (
            (R.OffsetFetchResponseTopics, R.OffsetFetchResponsePartitions)
            if version >= 8
            else (R.OffsetFetchResponseTopic, R.OffsetFetchResponsePartition)
        )
        kept = self.cluster.offsets.get(asked.group_id, {})
        wanted = list(kept)
        if asked.topics is not None:
            wanted = [TopicPartition(each.name, n) for each in asked.topics for n in each.partition_indexes]
        topics: dict[str, Any] = {}
        for name in wanted:
            offset, metadata, epoch = kept.get(name, (-1, "", -1))
            topics.setdefault(name.topic, []).append(
                part_cls(
                    partition_index=name.partition,
                    committed_offset=offset,
                    metadata=metadata,
                    committed_leader_epoch=epoch if version >= 5 else -1,
                    error_code=0,
                )
            )
        listed = [topic_cls(name=name, partitions=found) for name, found in topics.items()]
        if version < 8:
            return R(topics=listed, error_code=code)
        return R(groups=[R.OffsetFetchResponseGroup(group_id=asked.group_id, topics=listed, error_code=code)])

    def offset_delete(self, request: Any, code: int, version: int) -> Any:
        R = m.OffsetDeleteResponse
        kept = self.cluster.offsets.get(request.group_id, {})
        topics = []
        for topic in request.topics:
            for each in topic.partitions:
                kept.pop(TopicPartition(topic.name, each.partition_index), None)
            found = [
                R.OffsetDeleteResponsePartition(partition_index=each.partition_index, error_code=0)
                for each in topic.partitions
            ]
            topics.append(R.OffsetDeleteResponseTopic(name=topic.name, partitions=found))
        return R(error_code=code, topics=topics)

    def list_groups(self, request: Any, code: int, version: int) -> Any:
        R = m.ListGroupsResponse
        groups = [R.ListedGroup(group_id=name, protocol_type="") for name in sorted(self.cluster.offsets)]
        return R(error_code=code, groups=groups)


_HANDLERS: dict[int, Callable[[FakeBroker, Any, int, int], Any]] = {
    m.ApiVersionsRequest.API_KEY: FakeBroker.api_versions,
    m.MetadataRequest.API_KEY: FakeBroker.metadata,
    m.ListOffsetsRequest.API_KEY: FakeBroker.list_offsets,
    m.OffsetForLeaderEpochRequest.API_KEY: FakeBroker.leader_epoch,
    m.FetchRequest.API_KEY: FakeBroker.fetch,
    m.InitProducerIdRequest.API_KEY: FakeBroker.init_producer,
    m.ProduceRequest.API_KEY: FakeBroker.produce,
    m.CreateTopicsRequest.API_KEY: FakeBroker.create_topics,
    m.DeleteTopicsRequest.API_KEY: FakeBroker.delete_topics,
    m.DescribeConfigsRequest.API_KEY: FakeBroker.describe_configs,
    m.IncrementalAlterConfigsRequest.API_KEY: FakeBroker.alter_configs,
    m.CreatePartitionsRequest.API_KEY: FakeBroker.create_partitions,
    m.DeleteRecordsRequest.API_KEY: FakeBroker.delete_records,
    m.DescribeLogDirsRequest.API_KEY: FakeBroker.log_dirs,
    m.FindCoordinatorRequest.API_KEY: FakeBroker.find_coordinator,
    m.OffsetCommitRequest.API_KEY: FakeBroker.offset_commit,
    m.OffsetFetchRequest.API_KEY: FakeBroker.offset_fetch,
    m.OffsetDeleteRequest.API_KEY: FakeBroker.offset_delete,
    m.ListGroupsRequest.API_KEY: FakeBroker.list_groups,
    # A listener without SASL refuses a login; one with it has a guard that answers before.
    m.SaslHandshakeRequest.API_KEY: lambda *_: m.SaslHandshakeResponse(error_code=34),
}


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise ConnectionError
        data += piece
    return data
