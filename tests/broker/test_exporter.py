"""The page of a broker for Prometheus: its names, what it counts, its port and its end."""

from __future__ import annotations

import errno
import os
import re
import socket
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

import logstore
from logstore.broker import Broker, serve
from logstore.broker.exporter import MetricsPage, MetricsServer
from logstore.errors import BrokerUnreachableError, InvalidSettingError, MissingLibraryError
from logstore.protocol.generated.messages import ApiVersionsRequest, FetchRequest, ProduceRequest
from logstore.store import Store
from tests.broker.wire import Wire
from tests.kit.waiting import wait_for

#: The names of the dashboards of Strimzi, and of kafka_exporter, that a broker without groups can tell.
NAMES = [
    "kafka_server_brokertopicmetrics_messagesin_total",
    "kafka_server_brokertopicmetrics_bytesin_total",
    "kafka_server_brokertopicmetrics_bytesout_total",
    "kafka_server_brokertopicmetrics_totalproducerequests_total",
    "kafka_server_brokertopicmetrics_totalfetchrequests_total",
    "kafka_server_brokertopicmetrics_failedproducerequests_total",
    "kafka_server_brokertopicmetrics_failedfetchrequests_total",
    "kafka_server_replicamanager_leadercount",
    "kafka_server_replicamanager_partitioncount",
    "kafka_server_replicamanager_underreplicatedpartitions",
    "kafka_cluster_partition_atminisr",
    "kafka_cluster_partition_underminisr",
    "kafka_controller_kafkacontroller_activecontrollercount",
    "kafka_controller_kafkacontroller_offlinepartitionscount",
    "kafka_controller_controllerstats_uncleanleaderelections_total",
    "kafka_log_log_size",
    "kafka_network_socketserver_networkprocessoravgidle_percent",
    "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
    "kafka_server_kafkaserver_linux_disk_read_bytes",
    "kafka_server_kafkaserver_linux_disk_write_bytes",
    "kafka_server_socket_server_metrics_connection_count",
    "process_open_fds",
    "kafka_brokers",
    "kafka_broker_info",
    "kafka_topic_partitions",
    "kafka_topic_partition_current_offset",
    "kafka_topic_partition_oldest_offset",
    "kafka_topic_partition_replicas",
    "kafka_topic_partition_in_sync_replica",
    "kafka_topic_partition_leader",
    "kafka_topic_partition_leader_is_preferred",
    "kafka_topic_partition_under_replicated_partition",
]


@pytest.fixture
def watched(store: Store) -> Iterator[Broker]:
    with serve(store, "127.0.0.1:0", {"logstore.metrics.listener": "127.0.0.1:0"}) as broker:
        yield broker


def page(broker: Broker) -> str:
    assert broker.metrics_address is not None
    host, port = broker.metrics_address
    with urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=20) as answer:
        text: str = answer.read().decode()
    return text


def series(broker: Broker) -> dict[str, float]:
    found = {}
    for line in page(broker).splitlines():
        if not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            found[name] = float(value)
    return found


@pytest.mark.row("O6", part="the page of the broker")
def test_every_name_of_the_dashboards_is_there(store: Store, watched: Broker) -> None:
    store.create_topic("flights").append(b"AA 1141")
    names = {each.partition("{")[0] for each in series(watched)}
    assert set(NAMES) <= names


@pytest.mark.row("O6", part="the page of the broker")
def test_what_clients_do_is_counted(store: Store, watched: Broker) -> None:
    topic = store.create_topic("flights", partitions=2)
    with logstore.connect(watched.bootstrap) as cluster:
        for n in range(5):
            cluster["flights"].append(b"AA 1141", partition=n % 2)
    fetched = FetchRequest.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    asked = FetchRequest.FetchTopic(topic="flights", partitions=[fetched])
    with Wire(watched) as wire:
        wire.ask(FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, topics=[asked]), 11)
    found = series(watched)
    prefix = "kafka_server_brokertopicmetrics_"
    assert found[prefix + 'messagesin_total{topic="flights"}'] == 5
    assert found[prefix + 'totalproducerequests_total{topic="flights"}'] == 5
    assert found[prefix + 'failedproducerequests_total{topic="flights"}'] == 0
    size = sum(topic.log(n).maintenance.size for n in range(2))
    assert found[prefix + 'bytesin_total{topic="flights"}'] == size
    assert found[prefix + 'bytesout_total{topic="flights"}'] == found["logstore_broker_bytes_sendfile_total"] > 0
    assert found[prefix + 'totalfetchrequests_total{topic="flights"}'] == 1
    assert found['logstore_broker_requests_total{request="Produce"}'] == 5
    assert found['logstore_broker_request_seconds_total{request="Produce"}'] > 0
    assert found['kafka_topic_partition_current_offset{partition="0",topic="flights"}'] == 3
    assert found['kafka_log_log_size{partition="0",topic="flights"}'] == topic.log(0).maintenance.size
    assert found['kafka_topic_partitions{topic="flights"}'] == 2
    assert 0 <= found["kafka_network_socketserver_networkprocessoravgidle_percent"] <= 1
    assert found["kafka_server_replicamanager_leadercount"] == 2


def test_refusals_are_counted_and_made_up_names_are_no_series(store: Store, watched: Broker) -> None:
    store.create_topic("flights")
    fetched = FetchRequest.FetchPartition(partition=0, fetch_offset=99, partition_max_bytes=1)
    empty = ProduceRequest.PartitionProduceData(index=0, records=b"")
    with Wire(watched) as wire:
        for name in ("flights", "made-up", "made-up-2"):
            asked = FetchRequest.FetchTopic(topic=name, partitions=[fetched])
            wire.ask(FetchRequest(max_wait_ms=0, min_bytes=0, topics=[asked]), 11)
            topic = ProduceRequest.TopicProduceData(name=name, partition_data=[empty])
            wire.ask(ProduceRequest(acks=1, timeout_ms=1, topic_data=[topic]), 9)
    found = series(watched)
    for name in ("fetch", "produce"):
        of = f"kafka_server_brokertopicmetrics_failed{name}requests_total"
        assert found[of + '{topic="flights"}'] == 1
        assert found[of + '{topic=""}'] == 2
    assert not any("made-up" in each for each in found)
    store.delete_topic("flights")
    assert not any("flights" in each for each in series(watched))


def test_connections_and_requests_that_are_none_are_counted(watched: Broker) -> None:
    with Wire(watched) as bad, Wire(watched) as good:
        bad.socket.sendall(b"\0\0\0\x08\x7f\xff\0\0\0\0\0\1")
        assert bad.frame() == b""
        good.ask(ApiVersionsRequest(), 0)
        found = series(watched)
    assert found["logstore_broker_requests_failed_total"] == 1
    assert found["logstore_broker_connections_accepted_total"] == 2
    assert found["kafka_server_socket_server_metrics_connection_count"] == 1
    assert found['logstore_broker_requests_total{request="ApiVersions"}'] == 1
    assert watched.metrics()["failed_requests"] == 1


def test_the_port_ends_with_the_broker_and_clients_that_send_nothing_stop_neither(store: Store) -> None:
    with serve(store, "127.0.0.1:0", metrics_listener="127.0.0.1:0") as broker:
        address = broker.metrics_address
        assert address is not None
        silent = [socket.create_connection(address, 20) for _ in range(3)]
        assert "kafka_brokers" in page(broker)
        with Wire(broker) as wire:
            wire.ask(ApiVersionsRequest(), 0)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address, 20)
    for each in silent:
        each.close()
    wait_for(lambda: not any(each.name == "logstore-metrics" for each in threading.enumerate()))


def test_more_clients_of_the_page_than_it_takes_are_closed(watched: Broker) -> None:
    assert watched.metrics_address is not None
    silent = [socket.create_connection(watched.metrics_address, 20) for _ in range(8)]
    with socket.create_connection(watched.metrics_address, 20) as another:
        assert another.recv(1) == b""
    for each in silent:
        each.close()
    wait_for(lambda: _is_answered(watched))


def _is_answered(broker: Broker) -> bool:
    try:
        return "kafka_brokers" in page(broker)
    except OSError:
        return False


def test_other_paths_and_a_page_that_is_closed(watched: Broker) -> None:
    assert watched.metrics_address is not None
    host, port = watched.metrics_address
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"http://{host}:{port}/other", timeout=20)
    assert watched._metrics is not None
    watched._metrics._page.close()
    with pytest.raises(urllib.error.HTTPError, match="503"):
        page(watched)


def test_without_the_setting_there_is_no_port(broker: Broker) -> None:
    assert broker.metrics_address is None
    assert not any(each.name == "logstore-metrics" for each in threading.enumerate())


def test_a_port_in_use_a_wrong_address_and_a_missing_library(
    store: Store, watched: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert watched.metrics_address is not None
    taken = "{}:{}".format(*watched.metrics_address)
    with pytest.raises(BrokerUnreachableError, match=re.escape(f"{taken} cannot be listened on")):
        serve(store, "127.0.0.1:0", metrics_listener=taken)
    for wrong in ("127.0.0.1", "a:1,b:2", "PLAINTEXT://127.0.0.1:0"):
        with pytest.raises(InvalidSettingError, match=r"logstore\.metrics\.listener"):
            serve(store, "127.0.0.1:0", metrics_listener=wrong)
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(MissingLibraryError, match=r"pip install 'logstore\[metrics\]'"):
        serve(store, "127.0.0.1:0", metrics_listener="127.0.0.1:0")


def test_a_page_gives_the_interpreter_away(store: Store, watched: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page of many series would keep the loop's thread waiting for whole intervals of the interpreter."""
    store.create_topic("flights", partitions=500)
    given: list[float] = []
    monkeypatch.setattr("logstore.broker.exporter.time.sleep", given.append)
    MetricsPage(watched._served, watched._loop, watched.bootstrap).text()
    assert given.count(0) >= 70  # seven families of 500 series, every 50 series


class WithoutDescriptors(socket.socket):
    """A listener of a process that has none left; it stays readable."""

    asked = 0

    def accept(self) -> tuple[socket.socket, object]:
        self.asked += 1
        if self.asked <= 3:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return super().accept()


def test_without_descriptors_the_port_is_looked_at_again_after_a_pause(
    watched: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server of the standard library would ask again at once, for as long as there is none."""
    pauses: list[float] = []
    monkeypatch.setattr("logstore.broker.exporter.time.sleep", pauses.append)
    assert watched._metrics is not None
    listener = WithoutDescriptors()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    server = MetricsServer(listener, watched._metrics._page)
    try:
        with urllib.request.urlopen("http://{}:{}".format(*server.address), timeout=20) as found:
            assert b"kafka_brokers" in found.read()
    finally:
        server.close()
    assert [each for each in pauses if each] == [0.1] * 3
