"""The page of a broker's metrics for Prometheus: the names and the HTTP port.

Answers for how counters of the loop, the topics and the logs are called, and for the threads of the page. Imports
the loop, the store as it is served, and prometheus-client, once a page is asked for. The loop never waits for a
page: the numbers are read without a lock of a log, and the interpreter is given away after a few series.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from logstore.accumulator.acknowledging import ReplicatedPartition
from logstore.broker._counts import TopicCounts
from logstore.broker.served import Served
from logstore.errors import LogstoreError, MissingLibraryError, UnknownTopicError
from logstore.log import Log
from logstore.protocol.generated.messages import REQUESTS

if TYPE_CHECKING:
    import socket

    from logstore.broker._loop import Loop
    from logstore.store.catalog.topic_list import TopicEntry

#: Series between two moments at which the loop's thread may run.
_SERIES_AT_ONCE = 50
#: Requests for the page in progress; more are closed.
_MOST_REQUESTS = 8
#: How long one receive or send of a client of the page may take.
_CLIENT_S = 5.0
#: Before the port is looked at again, when a connection cannot be accepted.
_ACCEPT_PAUSE_S = 0.1

_Sample = tuple[tuple[str, ...], float]
_State = tuple[tuple[str, str], ReplicatedPartition, int]


class MetricsPage:
    """The numbers of one broker as Prometheus reads them. Any thread may call it.

    Raises:
        MissingLibraryError: prometheus-client is not installed.
    """

    def __init__(self, served: Served, loop: Loop, address: str) -> None:
        try:
            import prometheus_client
            from prometheus_client import core
        except ImportError:
            raise MissingLibraryError(
                "a page of metrics needs prometheus-client: pip install 'logstore[metrics]'"
            ) from None
        self._served, self._loop, self._address = served, loop, address
        self._core = core
        self._written: Callable[[Any], bytes] = prometheus_client.generate_latest
        self.content_type = prometheus_client.CONTENT_TYPE_LATEST
        self._process = prometheus_client.CollectorRegistry()
        prometheus_client.ProcessCollector(registry=self._process)
        self._lock = threading.Lock()
        self._is_closed = False
        self._before_s, self._before_idle_ns = time.monotonic(), loop.idle_ns

    def close(self) -> None:
        """Make no page any more, once one in progress is whole: the store may be closed then."""
        with self._lock:
            self._is_closed = True

    def text(self) -> bytes:
        """Return the page; empty if it is closed."""
        with self._lock:
            if self._is_closed:
                return b""
            topics = dict(self._served.topics())
            logs = list(self._logs(topics))
            states = list(self._states(topics))
            families = [
                *self._of_broker(states),
                *self._of_topics(topics, logs, states),
                *self._of_partitions(logs, states),
            ]
            pages = [self._written(self._process)]
            for each in families:
                each.samples = _Yielding(each.samples)
                pages.append(self._written(_One(each)))
            return b"".join(pages)

    def _counter(self, name: str, meaning: str, samples: Iterable[_Sample], *labels: str) -> Any:
        return _filled(self._core.CounterMetricFamily(name, meaning, labels=labels), samples)

    def _gauge(self, name: str, meaning: str, samples: Iterable[_Sample], *labels: str) -> Any:
        return _filled(self._core.GaugeMetricFamily(name, meaning, labels=labels), samples)

    def _idle_share(self) -> float:
        """Return the share of time without work since the page before."""
        now_s, idle_ns = time.monotonic(), self._loop.idle_ns
        passed_ns = max((now_s - self._before_s) * 1e9, 1.0)
        share = min((idle_ns - self._before_idle_ns) / passed_ns, 1.0)
        self._before_s, self._before_idle_ns = now_s, idle_ns
        return share

    def _of_broker(self, states: Sequence[_State]) -> Iterator[Any]:
        loop, idle = self._loop, self._idle_share()
        read, written = _disk_bytes()
        leaderless = sum(state.leader < 0 for _, state, _ in states)
        for name, meaning, value in (
            ("kafka_brokers", "Brokers of the cluster", 1),
            ("kafka_server_kafkaserver_linux_disk_write_bytes", "Bytes that it has written to disks", written),
            ("kafka_server_kafkaserver_linux_disk_read_bytes", "Bytes that the process has read from disks", read),
            ("kafka_controller_kafkacontroller_activecontrollercount", "Whether this node is the controller", 1),
            ("kafka_controller_kafkacontroller_offlinepartitionscount", "Partitions without a leader", leaderless),
            ("kafka_network_socketserver_networkprocessoravgidle_percent", "Share of idle time of the loop", idle),
            (
                "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
                "The same: one thread is both",
                idle,
            ),
            (
                "kafka_server_socket_server_metrics_connection_count",
                "Connections of clients",
                loop.connection_count,
            ),
        ):
            yield self._gauge(name, meaning, [((), value)])
        yield self._gauge(
            "kafka_broker_info", "The brokers", [((str(self._served.node), self._address), 1)], "id", "address"
        )
        for name, meaning, count in (
            ("kafka_controller_controllerstats_uncleanleaderelections", "Elections that have lost records", 0.0),
            ("logstore_broker_bytes_received", "Bytes that have come from clients", loop.bytes_in),
            ("logstore_broker_bytes_sendfile", "Bytes sent from the page cache by sendfile", loop.bytes_sendfile),
            ("logstore_broker_bytes_copied", "Bytes sent that were copied", loop.bytes_copied),
            ("logstore_broker_connections_accepted", "Connections accepted", loop.accepted_connections),
            ("logstore_broker_connections_refused", "Connections beyond a limit", loop.refused_connections),
            (
                "logstore_broker_requests_failed",
                "Errors of the broker that have closed a connection",
                loop.failed_requests,
            ),
            ("logstore_broker_idle_seconds", "Time in which the loop had nothing to do", loop.idle_ns / 1e9),
        ):
            yield self._counter(name, meaning, [((), count)])
        by_key = [(_name_of(key), *each) for key, each in loop.by_key().items()]
        yield self._counter(
            "logstore_broker_requests", "Requests", [((name,), count) for name, count, _ in by_key], "request"
        )
        yield self._counter(
            "logstore_broker_request_seconds",
            "Time from requests to their answers, with the wait for records",
            [((name,), ns / 1e9) for name, _, ns in by_key],
            "request",
        )

    def _of_topics(
        self,
        topics: Mapping[str, TopicEntry],
        logs: Sequence[tuple[tuple[str, str], Log]],
        states: Sequence[_State],
    ) -> Iterator[Any]:
        served = self._served
        for name in [name for name in list(served.counts) if name and name not in topics]:
            if served.host.table.find(name) is None:  # one may have been made since
                served.counts.pop(name, None)
        names = [name for name in ("", *topics) if name or name in served.counts]
        sums: dict[str, list[float]] = {name: [0.0] * 4 for name in names}
        for (topic, _), log in logs:
            counters = log._state.counters
            appended = (counters.appended_records, counters.appended_bytes, counters.appended_batches)
            sums[topic] = [
                each + more for each, more in zip(sums[topic], (*appended, counters.sync_s), strict=True)
            ]
        counts = {name: served.counts.get(name) or TopicCounts() for name in names}
        prefix = "kafka_server_brokertopicmetrics_"
        for name, meaning, value in (
            ("messagesin", "Records appended", lambda name: sums[name][0]),
            ("bytesin", "Bytes appended", lambda name: sums[name][1]),
            ("bytesout", "Bytes of records fetched", lambda name: counts[name].bytes_out),
            (
                "totalproducerequests",
                "Batches appended or refused",
                lambda name: sums[name][2] + counts[name].failed_produces,
            ),
            ("totalfetchrequests", "Fetches, each of one partition", lambda name: counts[name].fetches),
            ("failedproducerequests", "Batches refused", lambda name: counts[name].failed_produces),
            ("failedfetchrequests", "Fetches refused", lambda name: counts[name].failed_fetches),
        ):
            yield self._counter(prefix + name, meaning, [((each,), value(each)) for each in names], "topic")
        yield self._counter(
            "logstore_log_sync_seconds",
            "Time in syncs of appended batches",
            [((each,), sums[each][3]) for each in names if each],
            "topic",
        )
        led = [state for _, state, _ in states if state.leads]
        here = sum(served.node in state.replicas for _, state, _ in states)
        for name, meaning, number in (
            ("leadercount", "Partitions that this node leads", len(led)),
            ("partitioncount", "Partitions of this node", here),
            # As Kafka, whose leaders count them.
            ("underreplicatedpartitions", "Partitions that lack a replica", sum(_lacks_one(each) for each in led)),
        ):
            yield self._gauge(f"kafka_server_replicamanager_{name}", meaning, [((), number)])
        yield self._gauge(
            "kafka_topic_partitions",
            "Partitions of a topic",
            [((name,), entry.partitions) for name, entry in topics.items()],
            "topic",
        )

    def _of_partitions(
        self, logs: Sequence[tuple[tuple[str, str], Log]], states: Sequence[_State]
    ) -> Iterator[Any]:
        labels = "topic", "partition"

        def each_one(value: Callable[[ReplicatedPartition, int], float]) -> list[_Sample]:
            return [(each, float(value(state, least))) for each, state, least in states]

        for name, meaning, samples in (
            (
                "kafka_cluster_partition_atminisr",
                "Whether one replica less refuses writes",
                each_one(lambda state, least: state.leads and len(state.isr) == least),
            ),
            (
                "kafka_cluster_partition_underminisr",
                "Whether too few replicas are in sync",
                each_one(lambda state, least: state.leads and len(state.isr) < least),
            ),
            ("kafka_topic_partition_replicas", "Replicas", each_one(lambda state, _: len(state.replicas))),
            (
                "kafka_topic_partition_in_sync_replica",
                "Replicas in sync",
                each_one(lambda state, _: len(state.isr)),
            ),
            ("kafka_topic_partition_leader", "The leader", each_one(lambda state, _: state.leader)),
            (
                "kafka_topic_partition_leader_is_preferred",
                "Whether the first replica leads",
                each_one(lambda state, _: state.replicas[:1] == (state.leader,)),
            ),
            (
                "kafka_topic_partition_under_replicated_partition",
                "Whether a replica is missing",
                each_one(lambda state, _: _lacks_one(state)),
            ),
        ):
            yield self._gauge(name, meaning, samples, *labels)
        numbers: list[tuple[str, str, Callable[[Log], int]]] = [
            ("kafka_topic_partition_current_offset", "The high watermark", lambda log: log.high_watermark),
            ("kafka_topic_partition_oldest_offset", "The log start offset", lambda log: log.log_start_offset),
            ("kafka_log_log_size", "Bytes of a log", lambda log: log.maintenance.size),
        ]
        for name, meaning, value in numbers:
            yield self._gauge(name, meaning, [(each, value(log)) for each, log in logs], *labels)

    def _states(self, topics: Mapping[str, TopicEntry]) -> Iterator[_State]:
        """Iterate over all partitions, each with the least number of replicas in sync that takes writes."""
        served = self._served
        for name, entry in topics.items():
            try:
                config = served.host.table.config_of(name)
            except UnknownTopicError:
                continue  # deleted meanwhile
            alone = ReplicatedPartition(True, served.node, -1, (served.node,), (served.node,))
            for number in range(entry.partitions):
                if number % _SERIES_AT_ONCE == 0:
                    time.sleep(0)
                state = served.state(name, number) if config.replicated else alone
                least = min(config.min_insync_replicas, len(state.replicas)) if config.replicated else 1
                yield (name, str(number)), state, least

    def _logs(self, topics: Mapping[str, TopicEntry]) -> Iterator[tuple[tuple[str, str], Log]]:
        """Iterate over the logs that are open: others are not opened to be counted."""
        partitions = self._served.host.partitions
        for name, entry in topics.items():
            for number in range(entry.partitions):
                if number % _SERIES_AT_ONCE == 0:
                    time.sleep(0)
                log = partitions.found((name, number))
                if isinstance(log, Log):
                    yield (name, str(number)), log


class _Yielding(list[Any]):
    """A list that lets other threads run between its items."""

    def __iter__(self) -> Iterator[Any]:
        for number, each in enumerate(list.__iter__(self)):
            if number % _SERIES_AT_ONCE == 0:
                time.sleep(0)
            yield each


class _One:
    """A registry of one family."""

    def __init__(self, family: object) -> None:
        self._family = family

    def collect(self) -> Iterator[object]:
        yield self._family


def _lacks_one(state: ReplicatedPartition) -> bool:
    return len(state.isr) < len(state.replicas)


def _filled(family: Any, samples: Iterable[_Sample]) -> Any:
    for labels, value in samples:
        family.add_metric(labels, value)
    return family


def _name_of(key: int) -> str:
    kind = REQUESTS.get(key)
    return str(key) if kind is None else kind.__name__.removesuffix("Request")


def _disk_bytes() -> tuple[int, int]:
    """Return what the process has read from disks and written to them (proc(5)); 0 where that is not told."""
    try:
        with open("/proc/self/io", encoding="ascii") as file:
            told = dict(line.split(": ") for line in file.read().splitlines())
    except OSError:
        return 0, 0
    return int(told["read_bytes"]), int(told["write_bytes"])


class MetricsServer:
    """The HTTP port of a page of metrics, until `close`.

    Owns: the listening socket and a thread. A client that sends nothing holds one of a few threads for seconds.
    """

    def __init__(self, listener: socket.socket, page: MetricsPage) -> None:
        self._page = page
        self._server = _Server(listener, page)
        self.address: tuple[str, int] = listener.getsockname()[:2]
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.1,), name="logstore-metrics", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Close the port, and wait for a page in progress. May be called again."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self._page.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, listener: socket.socket, page: MetricsPage) -> None:
        super().__init__(("", 0), _Answering, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self.page = page
        self._free = threading.Semaphore(_MOST_REQUESTS)

    def get_request(self) -> tuple[Any, Any]:
        try:
            return super().get_request()
        except OSError:
            # Without a descriptor the listener stays readable: the server would ask again at once.
            time.sleep(_ACCEPT_PAUSE_S)
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a client has gone."""


class _Answering(BaseHTTPRequestHandler):
    server: _Server
    timeout = _CLIENT_S

    def do_GET(self) -> None:
        if self.path.partition("?")[0] not in ("/", "/metrics"):
            self.send_error(404)
            return
        try:
            text = self.server.page.text()
        except LogstoreError:
            text = b""  # the store is being closed
        if not text:
            self.send_error(503)
            return
        self.send_response(200)
        self.send_header("Content-Type", self.server.page.content_type)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        """Log nothing: a page is asked for every few seconds."""
