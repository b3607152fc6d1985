"""Requests by the thread of the sockets, to brokers that do as they should and to those that do not."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from logstore.config.remote import WireConfig
from logstore.errors import (
    AuthenticationError,
    BrokerTimeoutError,
    BrokerUnreachableError,
    ClientClosedError,
    ForkedError,
    LogstoreError,
    MalformedMessageError,
    ProtocolError,
    UnsupportedVersionError,
)
from logstore.protocol.generated.messages import (
    ApiVersionsRequest,
    FetchRequest,
    ListOffsetsRequest,
    MetadataRequest,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)
from logstore.remote.network.connection import Stage
from logstore.remote.network.link import BrokerLink
from logstore.remote.network.loop import Network
from tests.kit.waiting import is_readable, wait_for
from tests.remote import fake_cluster
from tests.remote.fake_cluster import ALL, FakeCluster, Guard
from tests.remote.fake_security import Authority, SaslGuard, TlsGuard

USERS = {"alice": "open, sesame=ü"}


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster() as made:
        made.topic("orders", 3)
        yield made


@pytest.fixture
def networks() -> Iterator[list[Network]]:
    made: list[Network] = []
    yield made
    for each in made:
        each.close()


@pytest.fixture(autouse=True)
def _nothing_is_logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """No error of the thread of the sockets stays unseen."""
    yield
    assert not [each for each in caplog.records if each.levelname == "ERROR"]


class Linker:
    """Makes links to the first broker of a cluster, on one network for each set of settings."""

    def __init__(self, networks: list[Network]) -> None:
        self.networks = networks

    def __call__(self, cluster: FakeCluster, **settings: Any) -> BrokerLink:
        config = WireConfig(**{"reconnect_backoff_ms": 5, "request_timeout_ms": 3_000, **settings})
        network = Network(config)
        self.networks.append(network)
        return BrokerLink(network, config, ("127.0.0.1", cluster.brokers[1].port), node=1)


@pytest.fixture
def connect(networks: list[Network]) -> Linker:
    return Linker(networks)


def everything() -> MetadataRequest:
    return MetadataRequest(topics=None)


def long_poll(wait_ms: int) -> FetchRequest:
    """A fetch that gets no records."""
    Topic, Partition = FetchRequest.FetchTopic, FetchRequest.FetchPartition
    topic = Topic(topic="orders", partitions=[Partition(partition=0, fetch_offset=0, partition_max_bytes=100)])
    return FetchRequest(max_wait_ms=wait_ms, min_bytes=1, topics=[topic])


# --- calls -------------------------------------------------------------------------------------------


def test_a_call_gets_its_answer(cluster: FakeCluster, connect: Linker) -> None:
    link = connect(cluster)
    answer = link.ask(everything())
    assert len(answer.topics[0].partitions) == 3
    assert link.is_usable()
    assert str(link) == f"broker 1 (127.0.0.1:{cluster.brokers[1].port})"


def test_several_requests_are_in_flight_and_answered_in_their_order(cluster: FakeCluster, connect: Linker) -> None:
    cluster.topic("a")
    cluster.topic("b")
    link = connect(cluster)
    for name in "abab":
        link.send(MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=name)]))
    assert link.in_flight == 4
    assert not link.is_usable()
    assert [link.receive().topics[0].name for _ in range(4)] == list("abab")
    assert link.is_usable()


def test_many_threads_share_the_thread_of_the_sockets(cluster: FakeCluster, connect: Linker) -> None:
    first = connect(cluster)
    network, config = first._network, first._config
    wrong: list[object] = []

    def ask() -> None:
        link = BrokerLink(network, config, first.address, node=1)
        for turn in range(50):
            answer = link.ask(ListOffsetsRequest() if turn % 2 else everything())
            if (len(answer.topics) == 1) is bool(turn % 2):
                wrong.append(answer)
        link.close()

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
        assert not each.is_alive()
    assert not wrong
    assert sum(thread.name == "logstore-network" for thread in threading.enumerate()) == 1


def test_a_large_answer_and_a_large_request_go_through(cluster: FakeCluster, connect: Linker) -> None:
    names = [f"topic-{number:05}-{'x' * 200}" for number in range(5_000)]
    link = connect(cluster, send_buffer_bytes=4_096, receive_buffer_bytes=4_096)
    Topic = MetadataRequest.MetadataRequestTopic
    answer = link.ask(MetadataRequest(topics=[Topic(name=name) for name in names]))
    assert [each.name for each in answer.topics] == names


# --- versions ----------------------------------------------------------------------------------------


def test_the_highest_version_that_both_know_is_spoken(cluster: FakeCluster, connect: Linker) -> None:
    cluster.versions = ALL | {MetadataRequest.API_KEY: (0, 5), FetchRequest.API_KEY: (4, 99)}
    link = connect(cluster)
    assert link.version_of(MetadataRequest) == 5
    assert link.version_of(FetchRequest) == FetchRequest.MAX_VERSION
    assert link.version_of(FetchRequest, 12) == 12
    link.ask(everything())
    assert (MetadataRequest.API_KEY, 5) in cluster.brokers[1].versions_got


def test_a_version_that_is_too_old_or_too_new_is_named_with_the_broker(
    cluster: FakeCluster, connect: Linker
) -> None:
    cluster.versions = {18: ALL[18], FetchRequest.API_KEY: (0, 3), MetadataRequest.API_KEY: (90, 91)}
    link = connect(cluster)
    with pytest.raises(UnsupportedVersionError, match=r"broker 1 \(127.0.0.1:\d+\) knows versions 0 to 3 of Fet"):
        link.ask(FetchRequest())
    with pytest.raises(UnsupportedVersionError, match="knows versions 90 to 91 of MetadataRequest"):
        link.ask(everything())
    with pytest.raises(UnsupportedVersionError, match="does not know ListOffsetsRequest"):
        link.ask(ListOffsetsRequest())
    assert link.is_usable(), "nothing was sent"


@pytest.mark.parametrize("most", [0, 1, 2, 3])
def test_a_broker_that_does_not_know_our_question_for_versions_is_asked_as_it_wants(
    cluster: FakeCluster, connect: Linker, most: int
) -> None:
    cluster.versions = ALL | {ApiVersionsRequest.API_KEY: (0, most)}
    link = connect(cluster)
    assert link.versions[MetadataRequest.API_KEY] == ALL[MetadataRequest.API_KEY]
    asked = [version for key, version in cluster.brokers[1].versions_got if key == ApiVersionsRequest.API_KEY]
    assert asked == [ApiVersionsRequest.MAX_VERSION, most]


# --- what cannot be reached ----------------------------------------------------------------------------


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def failure(networks: list[Network], address: tuple[str, int], **settings: Any) -> LogstoreError:
    config = WireConfig(**settings)
    networks.append(Network(config))
    with pytest.raises(LogstoreError) as caught:
        BrokerLink(networks[-1], config, address, node=1)
    return caught.value


def test_a_refused_connection_names_host_and_port_and_what_to_look_at(networks: list[Network]) -> None:
    port = closed_port()
    error = failure(networks, ("127.0.0.1", port))
    assert isinstance(error, BrokerUnreachableError)
    assert f"127.0.0.1:{port}): Connection refused; " in str(error)
    assert "advertised.listeners" in str(error)


def test_a_host_that_has_no_address_is_named(networks: list[Network]) -> None:
    error = failure(networks, ("no-such-host.invalid", 9092))
    assert isinstance(error, BrokerUnreachableError)
    assert "no-such-host.invalid:9092): the host name cannot be" in str(error)


def test_a_listener_that_never_answers_is_given_up(networks: list[Network]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        error = failure(networks, ("127.0.0.1", listening.getsockname()[1]), request_timeout_ms=150)
    assert isinstance(error, BrokerTimeoutError)
    assert "did not answer for 150 ms" in str(error)


def test_a_name_that_is_slow_to_look_up_keeps_no_other_call_waiting(
    cluster: FakeCluster, connect: Linker, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = connect(cluster)
    may_go = threading.Event()
    before = socket.getaddrinfo

    def slow(host: Any, port: Any, family: int = 0, kind: int = 0, protocol: int = 0, flags: int = 0) -> Any:
        if not flags & socket.AI_NUMERICHOST:
            assert may_go.wait(30)
            return before("127.0.0.1", port, family, kind, protocol, flags)
        return before(host, port, family, kind, protocol, flags)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    made: list[BrokerLink] = []
    opening = threading.Thread(
        target=lambda: made.append(
            BrokerLink(link._network, link._config, ("broker.example", cluster.brokers[1].port))
        )
    )
    opening.start()
    for _ in range(5):
        link.ask(everything())
    assert not made
    may_go.set()
    opening.join(30)
    made[0].ask(everything())


def test_a_broker_that_refuses_is_tried_again_after_growing_pauses(networks: list[Network]) -> None:
    config = WireConfig(reconnect_backoff_ms=100, reconnect_backoff_max_ms=300)
    network = Network(config)
    networks.append(network)
    address = "127.0.0.1", closed_port()
    began = time.monotonic()
    for _ in range(4):
        with pytest.raises(BrokerUnreachableError):
            network.open(address)
    # Pauses of 100, 200 and 300 ms, each up to a fifth shorter or longer.
    assert 0.48 <= time.monotonic() - began < 3


# --- answers -------------------------------------------------------------------------------------------


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
    cluster: FakeCluster, connect: Linker, fault: Any, error: type[Exception]
) -> None:
    cluster.brokers[1].plan(ApiVersionsRequest, fault)
    with pytest.raises(error, match=r"broker 1 \(127.0.0.1"):
        connect(cluster)


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
    cluster: FakeCluster, connect: Linker, fault: Any, error: type[Exception]
) -> None:
    cluster.brokers[1].plan(MetadataRequest, fault)
    link = connect(cluster, request_timeout_ms=300)
    link.send(everything())
    with contextlib.suppress(BrokerUnreachableError):  # the first answer may have come already
        link.send(everything())
    with pytest.raises(error):
        link.receive()
    wait_for(lambda: not link.is_usable())
    with pytest.raises(BrokerUnreachableError, match="the connection is closed"):
        wait_for(lambda: link.ask(everything()) and False)


def test_all_that_wait_on_a_broken_connection_are_told(cluster: FakeCluster, connect: Linker) -> None:
    are_sent = threading.Event()

    def cut(broker: Any, connection: Any, frame: bytes) -> bool:
        assert are_sent.wait(60)
        return fake_cluster.cut(broker, connection, frame)

    cluster.brokers[1].plan(MetadataRequest, cut)
    link = connect(cluster)
    for _ in range(3):
        link.send(everything())
    are_sent.set()
    calls = list(link._asked)
    errors = []
    for each in calls:
        with pytest.raises(BrokerUnreachableError) as caught:
            each.wait(link._network.is_alive)
        errors.append(caught.value)
    assert len({id(each) for each in errors}) == 3, "each thread raises an error of its own"


@pytest.mark.parametrize("size", range(0, 60, 3))
def test_an_answer_that_is_cut_anywhere_is_an_error(cluster: FakeCluster, connect: Linker, size: int) -> None:
    def cut(broker: Any, connection: socket.socket, frame: bytes) -> bool:
        connection.sendall(frame[: len(frame) * size // 60])
        raise ConnectionError

    cluster.brokers[1].plan(MetadataRequest, cut)
    link = connect(cluster)
    with pytest.raises(BrokerUnreachableError, match="closed the connection before it had answered"):
        link.ask(everything())


def test_an_answer_in_small_pieces_is_put_together(cluster: FakeCluster, connect: Linker) -> None:
    cluster.topic("many", 40)
    cluster.brokers[1].plan(MetadataRequest, fake_cluster.dribble)
    link = connect(cluster)
    assert len(link.ask(everything()).topics[1].partitions) == 40
    assert link.is_usable()


def test_a_slow_trickle_does_not_hold_a_call_beyond_its_time(cluster: FakeCluster, connect: Linker) -> None:
    def trickle(broker: Any, connection: socket.socket, frame: bytes) -> bool:
        for position in range(len(frame)):
            connection.sendall(frame[position : position + 1])
            with contextlib.suppress(ValueError):  # the test has ended, and closed the broker's side
                if not is_readable(connection, timeout_s=0.05):
                    continue  # the client has not closed it yet
            break
        return True

    cluster.brokers[1].plan(MetadataRequest, trickle)
    link = connect(cluster, request_timeout_ms=300)
    with pytest.raises(BrokerTimeoutError):
        link.ask(everything())


def test_a_silent_broker_keeps_no_other_connection_waiting(cluster: FakeCluster, connect: Linker) -> None:
    silent = connect(cluster)
    other = BrokerLink(silent._network, silent._config, silent.address)
    cluster.brokers[1].plan(MetadataRequest, fake_cluster.silence)
    silent.send(everything())
    wait_for(lambda: cluster.requests(MetadataRequest))
    for _ in range(5):
        assert other.ask(everything()).topics


def test_a_broker_over_its_quota_is_left_alone_for_as_long_as_it_says(
    cluster: FakeCluster, connect: Linker
) -> None:
    cluster.brokers[1].plan(MetadataRequest, {"throttle_time_ms": 120})
    link = connect(cluster)
    link.ask(everything())
    before = time.monotonic()
    link.ask(everything())
    assert time.monotonic() - before >= 0.1
    assert link.throttled_ms == 120


def test_a_throttle_time_is_no_part_of_the_time_for_an_answer(cluster: FakeCluster, connect: Linker) -> None:
    cluster.brokers[1].plan(MetadataRequest, {"throttle_time_ms": 500})
    link = connect(cluster, request_timeout_ms=300)
    link.ask(everything())
    assert link.ask(everything()).topics


# --- the life of a connection ----------------------------------------------------------------------------


def test_a_connection_that_the_broker_has_closed_is_not_usable(cluster: FakeCluster, connect: Linker) -> None:
    link = connect(cluster)
    cluster.brokers[1].stop()
    wait_for(lambda: not link.is_usable())
    with pytest.raises(BrokerUnreachableError):
        link.ask(everything())


def test_an_idle_connection_is_closed(cluster: FakeCluster, connect: Linker) -> None:
    link = connect(cluster, connections_max_idle_ms=100)
    assert link.ask(everything()).topics
    wait_for(lambda: not link.is_usable())
    assert "connections.max.idle.ms" in str(link._connection.error)


def test_a_connection_whose_answer_is_awaited_is_not_idle(cluster: FakeCluster, connect: Linker) -> None:
    cluster.long_polls = True
    link = connect(cluster, connections_max_idle_ms=100)
    answer = link.ask(long_poll(400), version=12, wait_ms=400)
    assert not answer.error_code


def test_the_threads_of_closed_and_of_dropped_networks_end(cluster: FakeCluster) -> None:
    def running() -> int:
        return sum(thread.name == "logstore-network" for thread in threading.enumerate())

    before, config = running(), WireConfig()
    address = "127.0.0.1", cluster.brokers[1].port
    closed, dropped = Network(config), Network(config)
    links = [BrokerLink(each, config, address) for each in (closed, dropped)]
    assert running() == before + 2
    closed.close()
    assert running() == before + 1
    with pytest.raises(ClientClosedError):
        closed.open(address)
    with pytest.raises(BrokerUnreachableError, match="the connection is closed"):
        links[0].ask(everything())
    del dropped, links
    wait_for(lambda: running() == before)


def test_a_close_ends_the_wait_of_other_threads(cluster: FakeCluster, connect: Linker) -> None:
    link = connect(cluster, request_timeout_ms=60_000)
    cluster.brokers[1].plan(MetadataRequest, fake_cluster.silence)
    found: list[BaseException] = []

    def ask() -> None:
        try:
            link.ask(everything())
        except LogstoreError as error:
            found.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    wait_for(lambda: cluster.requests(MetadataRequest))
    link._network.close()
    thread.join(30)
    assert isinstance(found[0], ClientClosedError)


def test_an_interrupt_ends_a_wait_and_leaves_the_network_usable(cluster: FakeCluster, connect: Linker) -> None:
    link = connect(cluster, request_timeout_ms=60_000)
    cluster.brokers[1].plan(MetadataRequest, fake_cluster.silence)

    def interrupt() -> None:
        wait_for(lambda: cluster.requests(MetadataRequest))
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012  the interrupt may come early
        thread.start()
        link.ask(everything())
    thread.join()
    assert not link.is_usable(), "its answer would be taken for that of another call"
    again = BrokerLink(link._network, link._config, link.address)
    assert again.ask(everything()).topics


def test_a_forked_child_is_refused(cluster: FakeCluster, connect: Linker) -> None:
    link = connect(cluster)
    link.ask(everything())
    child = os.fork()
    if not child:
        try:
            try:
                link.ask(everything())
            except ForkedError:
                link._network.close()  # and this harms no parent
                os._exit(7)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert link.ask(everything()).topics


def test_the_interpreter_ends_while_calls_are_in_flight(cluster: FakeCluster, tmp_path: Path) -> None:
    cluster.brokers[1].plan(MetadataRequest, fake_cluster.silence)
    program = textwrap.dedent(f"""
        import contextlib, threading
        from logstore.config.remote import WireConfig
        from logstore.protocol.generated.messages import MetadataRequest
        from logstore.remote.network.link import BrokerLink
        from logstore.remote.network.loop import Network
        config = WireConfig()
        link = BrokerLink(Network(config), config, ("127.0.0.1", {cluster.brokers[1].port}))
        link.send(MetadataRequest(topics=None))
        def receive():
            with contextlib.suppress(Exception):
                link.receive()
        threading.Thread(target=receive, daemon=True).start()
        print("sent", flush=True)
    """)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout) == (0, "sent\n"), done.stderr


# --- security ------------------------------------------------------------------------------------------


def begin(guard: Guard) -> FakeCluster:
    made = FakeCluster(guard=guard)
    made.topic("orders", 3)
    return made


def login(mechanism: str, **more: Any) -> dict[str, Any]:
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_username": "alice",
        "sasl_password": USERS["alice"],
        **more,
    }


def secured(connect: Linker, cluster: FakeCluster, **settings: Any) -> BrokerLink:
    config = WireConfig.of(settings)
    network = Network(config)
    connect.networks.append(network)
    return BrokerLink(network, config, ("127.0.0.1", cluster.brokers[1].port), node=1)


def test_small_and_large_frames_go_over_tls(connect: Linker, authority: Authority, tmp_path: Path) -> None:
    with begin(TlsGuard(authority.issue("127.0.0.1"), tmp_path)) as cluster:
        link = secured(connect, cluster, security_protocol="SSL", ssl_truststore_certificates=authority.pem)
        assert link.ask(everything()).topics
        names = [f"topic-{number:05}-{'x' * 200}" for number in range(5_000)]
        Topic = MetadataRequest.MetadataRequestTopic
        for _ in range(3):
            link.send(MetadataRequest(topics=[Topic(name=name) for name in names]))
        for _ in range(3):
            assert [each.name for each in link.receive().topics] == names


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("has_tls", [False, True])
def test_a_user_logs_in(
    connect: Linker, authority: Authority, tmp_path: Path, mechanism: str, has_tls: bool
) -> None:
    tls = TlsGuard(authority.issue("127.0.0.1"), tmp_path) if has_tls else None
    guard = SaslGuard(USERS, tls=tls)
    with begin(guard) as cluster:
        more = {"security_protocol": "SASL_SSL", "ssl_truststore_certificates": authority.pem} if has_tls else {}
        link = secured(connect, cluster, **login(mechanism, **more))
        assert link.ask(everything()).topics
        assert guard.logins == [(mechanism, "alice")]


def test_wrong_certificates_hosts_ports_and_passwords_are_errors_of_their_own(
    connect: Linker, authority: Authority, tmp_path: Path
) -> None:
    trusting = {"security_protocol": "SSL", "ssl_truststore_certificates": authority.pem}
    with begin(TlsGuard(authority.issue("elsewhere"), tmp_path)) as cluster:
        with pytest.raises(AuthenticationError, match=r"is not for the host 127\.0\.0\.1"):
            secured(connect, cluster, **trusting)
        # The alert of TLS may get lost where the broker resets the connection.
        with pytest.raises(LogstoreError, match=r"this listener speaks TLS|port of a PLAINTEXT listener"):
            secured(connect, cluster)
    with begin(TlsGuard(Authority("another authority").issue("127.0.0.1"), tmp_path)) as cluster:
        with pytest.raises(AuthenticationError, match="of an authority that is not trusted"):
            secured(connect, cluster, **trusting)
    with begin(TlsGuard(authority.issue("127.0.0.1"), tmp_path, clients=authority)) as cluster:
        with pytest.raises(AuthenticationError, match="refuses this client's certificate, or wants one"):
            secured(connect, cluster, **trusting).ask(everything())
    closed = "closed in the TLS handshake or just after it; check that this is the port of an SSL or SASL_SSL"
    with begin(Guard()) as cluster, pytest.raises(BrokerUnreachableError, match=closed):
        secured(connect, cluster, **trusting)
    guard = SaslGuard(USERS)
    with begin(guard) as cluster:
        with pytest.raises(AuthenticationError, match="invalid credentials"):
            secured(connect, cluster, **login("PLAIN", sasl_password="wrong"))
        link = secured(connect, cluster)
        with pytest.raises(BrokerUnreachableError, match="a listener with SASL does so"):
            link.ask(everything())
    guard = SaslGuard(USERS, tls=TlsGuard(authority.issue("127.0.0.1"), tmp_path))
    with begin(guard) as cluster:
        link = secured(connect, cluster, **trusting)
        with pytest.raises(BrokerUnreachableError, match="a listener with SASL does so"):
            link.ask(everything())


@pytest.mark.parametrize("request_cls", [SaslHandshakeRequest, SaslAuthenticateRequest])
@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (fake_cluster.cut, BrokerUnreachableError),
        (fake_cluster.garbage, ProtocolError),
        (fake_cluster.another_number, ProtocolError),
    ],
)
def test_a_login_that_is_cut_or_garbled_is_an_error(
    connect: Linker, request_cls: Any, fault: Any, error: type[Exception]
) -> None:
    with begin(SaslGuard(USERS)) as cluster:
        cluster.brokers[1].plan(request_cls, fault)
        with pytest.raises(error, match=r"broker 1 \(127.0.0.1"):
            secured(connect, cluster, **login("PLAIN"))


def test_a_login_is_repeated_between_answers(connect: Linker) -> None:
    # The login is due at 95 % of that at the latest, and waits for two polls of 50 ms.
    guard = SaslGuard(USERS, lifetime_ms=4_000)
    with begin(guard) as cluster:
        cluster.long_polls = True
        link = secured(connect, cluster, **login("SCRAM-SHA-256"))
        began = time.monotonic()
        link.send(long_poll(50), version=12)
        while len(guard.logins) < 2:
            assert time.monotonic() - began < 30
            link.send(long_poll(50), version=12)
            assert link.in_flight == 2, "always one, so that the login has to wait for its answer"
            assert link.receive().responses
        assert link.receive().responses
        assert cluster.brokers[1].accepted == 1
        assert not guard.late


def test_a_repeated_login_that_is_refused_ends_the_connection(connect: Linker) -> None:
    guard = SaslGuard(USERS, lifetime_ms=1_500)
    with begin(guard) as cluster:
        link = secured(connect, cluster, **login("PLAIN"))
        guard.users["alice"] = "changed"
        with pytest.raises(AuthenticationError):
            wait_for(lambda: not link.ask(everything()).topics)
        assert link._connection.stage is Stage.CLOSED
