"""One connection against brokers that do as they should, and against those that do not."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

from logstore.config.remote import WireConfig
from logstore.errors import (
    BrokerTimeoutError,
    BrokerUnreachableError,
    MalformedMessageError,
    ProtocolError,
    UnsupportedVersionError,
)
from logstore.protocol.generated.messages import (
    ApiVersionsRequest,
    FetchRequest,
    ListOffsetsRequest,
    MetadataRequest,
)
from logstore.remote.client import Client
from logstore.remote.connection import BrokerConnection
from tests.kit.waiting import is_readable
from tests.remote import fake_cluster
from tests.remote.fake_cluster import ALL, FakeCluster


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster() as made:
        yield made


def connect(cluster: FakeCluster, **settings: Any) -> BrokerConnection:
    return BrokerConnection(("127.0.0.1", cluster.brokers[1].port), WireConfig(**settings), node=1)


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


# --- versions ------------------------------------------------------------------------------------


def test_the_highest_version_that_both_know_is_spoken(cluster: FakeCluster) -> None:
    cluster.versions = ALL | {MetadataRequest.API_KEY: (0, 5), FetchRequest.API_KEY: (4, 99)}
    connection = connect(cluster)
    assert connection.version_of(MetadataRequest) == 5
    assert connection.version_of(FetchRequest) == FetchRequest.MAX_VERSION
    assert connection.version_of(FetchRequest, 12) == 12
    connection.ask(MetadataRequest(topics=None))
    assert (MetadataRequest.API_KEY, 5) in cluster.brokers[1].versions_got
    connection.close()


def test_a_version_that_is_too_old_or_too_new_is_named_with_the_broker(cluster: FakeCluster) -> None:
    cluster.versions = {18: ALL[18], FetchRequest.API_KEY: (0, 3), MetadataRequest.API_KEY: (90, 91)}
    connection = connect(cluster)
    with pytest.raises(UnsupportedVersionError, match=r"broker 1 \(127.0.0.1:\d+\) knows versions 0 to 3 of Fet"):
        connection.ask(FetchRequest())
    with pytest.raises(UnsupportedVersionError, match="knows versions 90 to 91 of MetadataRequest"):
        connection.ask(MetadataRequest(topics=None))
    with pytest.raises(UnsupportedVersionError, match="does not know ListOffsetsRequest"):
        connection.ask(ListOffsetsRequest())
    assert connection.is_usable(), "nothing was sent"
    connection.close()


@pytest.mark.parametrize("most", [0, 1, 2, 3])
def test_a_broker_that_does_not_know_our_question_for_versions_is_asked_as_it_wants(
    cluster: FakeCluster, most: int
) -> None:
    cluster.versions = ALL | {ApiVersionsRequest.API_KEY: (0, most)}
    connection = connect(cluster)
    assert connection.versions[MetadataRequest.API_KEY] == ALL[MetadataRequest.API_KEY]
    asked = [version for key, version in cluster.brokers[1].versions_got if key == ApiVersionsRequest.API_KEY]
    assert asked == [ApiVersionsRequest.MAX_VERSION, most]
    connection.close()


# --- what cannot be reached --------------------------------------------------------------------------


def test_a_refused_connection_names_host_and_port_and_what_to_look_at() -> None:
    port = closed_port()
    with pytest.raises(BrokerUnreachableError, match=rf"127.0.0.1:{port}: Connection refused; .*advertised.list"):
        BrokerConnection(("127.0.0.1", port), WireConfig())


def test_a_host_that_has_no_address_is_named() -> None:
    with pytest.raises(BrokerUnreachableError, match=r"no-such-host.invalid:9092: the host name cannot be"):
        BrokerConnection(("no-such-host.invalid", 9092), WireConfig())


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (fake_cluster.web_server, ProtocolError),
        (fake_cluster.garbage, ProtocolError),
        (fake_cluster.another_number, ProtocolError),
        (fake_cluster.disconnect, BrokerUnreachableError),
        (fake_cluster.cut, BrokerUnreachableError),
    ],
)
def test_something_that_is_no_plain_kafka_listener_is_said_to_be_none(
    cluster: FakeCluster, fault: Any, error: type[Exception]
) -> None:
    cluster.brokers[1].plan(ApiVersionsRequest, fault)
    with pytest.raises(error, match=r"broker 1 \(127.0.0.1"):
        connect(cluster)


def test_a_listener_that_never_answers_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = WireConfig(request_timeout_ms=150)
        with pytest.raises(BrokerTimeoutError, match=r"did not answer for 1\d\d ms"):
            BrokerConnection(("127.0.0.1", listening.getsockname()[1]), config)


# --- answers ------------------------------------------------------------------------------------------


def test_an_answer_in_small_pieces_is_put_together(cluster: FakeCluster) -> None:
    cluster.topic("orders", 40)
    cluster.brokers[1].plan(MetadataRequest, fake_cluster.dribble)
    connection = connect(cluster)
    answer = connection.ask(MetadataRequest(topics=None))
    assert len(answer.topics[0].partitions) == 40
    assert connection.is_usable()
    connection.close()


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (fake_cluster.cut, BrokerUnreachableError),
        (fake_cluster.disconnect, BrokerUnreachableError),
        (fake_cluster.garbage, MalformedMessageError),
        (fake_cluster.another_number, ProtocolError),
        (fake_cluster.silence, BrokerTimeoutError),
    ],
)
def test_after_a_bad_answer_the_connection_is_broken(
    cluster: FakeCluster, fault: Any, error: type[Exception]
) -> None:
    cluster.topic("orders", 3)
    cluster.brokers[1].plan(MetadataRequest, fault)
    connection = connect(cluster, request_timeout_ms=300)
    with pytest.raises(error):
        connection.ask(MetadataRequest(topics=None))
    assert not connection.is_usable()
    with pytest.raises(BrokerUnreachableError, match="the connection is closed"):
        connection.ask(MetadataRequest(topics=None))


def test_a_slow_trickle_does_not_hold_a_call_beyond_its_time(cluster: FakeCluster) -> None:
    def trickle(broker: Any, connection: socket.socket, frame: bytes) -> bool:
        for position in range(len(frame)):
            connection.sendall(frame[position : position + 1])
            with contextlib.suppress(ValueError):  # the test has ended, and closed the broker's side
                if not is_readable(connection, timeout_s=0.05):
                    continue  # the client has not closed it yet
            break
        return True

    cluster.brokers[1].plan(MetadataRequest, trickle)
    connection = connect(cluster, request_timeout_ms=300)
    with pytest.raises(BrokerTimeoutError):
        connection.ask(MetadataRequest(topics=None))


def test_answers_come_in_the_order_of_their_requests(cluster: FakeCluster) -> None:
    cluster.topic("a")
    cluster.topic("b")
    connection = connect(cluster)
    for name in "abab":
        connection.send(MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=name)]))
    assert connection.in_flight == 4
    assert not connection.is_usable(), "answers are on their way"
    assert [connection.receive().topics[0].name for _ in range(4)] == list("abab")
    assert connection.is_usable()
    connection.close()


def test_a_broker_over_its_quota_is_left_alone_for_as_long_as_it_says(cluster: FakeCluster) -> None:
    cluster.brokers[1].plan(MetadataRequest, {"throttle_time_ms": 120})
    connection = connect(cluster)
    connection.ask(MetadataRequest(topics=None))
    before = time.monotonic()
    connection.ask(MetadataRequest(topics=None))
    assert time.monotonic() - before >= 0.1
    assert connection.throttled_ms == 120
    connection.close()


# --- whose connection it is ----------------------------------------------------------------------------


def test_a_connection_that_the_broker_has_closed_is_not_used_again(cluster: FakeCluster) -> None:
    connection = connect(cluster)
    assert connection.is_usable()
    cluster.brokers[1].stop()
    deadline = time.monotonic() + 10
    while connection.is_usable():
        assert time.monotonic() < deadline
    connection.close()


def test_a_connection_that_was_idle_for_too_long_is_not_used_again(cluster: FakeCluster) -> None:
    connection = connect(cluster, connections_max_idle_ms=0)
    assert not connection.is_usable()
    connection.close()


def test_a_forked_child_makes_its_own_connections(cluster: FakeCluster) -> None:
    cluster.topic("orders", 2)
    client = Client(cluster.bootstrap)
    client.metadata(["orders"])
    accepted = cluster.brokers[1].accepted
    pid = os.fork()
    if pid == 0:
        try:
            found = client.metadata(["orders"])
            os._exit(0 if len(found.topics["orders"].partitions) == 2 else 2)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert cluster.brokers[1].accepted == accepted + 1
    # The parent's own was left alone.
    client.metadata(["orders"])
    assert cluster.brokers[1].accepted == accepted + 1
    client.close()
