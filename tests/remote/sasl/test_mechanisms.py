"""Logins by each mechanism, what a refused one says, and logins that are repeated in time."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from logstore.batch._encode import encode
from logstore.config.remote import WireConfig
from logstore.config.secrets import Secret
from logstore.config.security import Login
from logstore.errors import (
    AuthenticationError,
    BrokerUnreachableError,
    InvalidSettingError,
    LogstoreError,
    MissingLibraryError,
)
from logstore.protocol.generated.messages import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from logstore.records import TopicPartition
from logstore.remote.client import Client
from logstore.remote.network.link import BrokerLink
from logstore.remote.network.loop import Network
from logstore.remote.producer import IdempotentProducer
from logstore.remote.sasl.mechanisms import login_requests, mechanism_of
from tests.kit.waiting import wait_for
from tests.remote import fake_cluster
from tests.remote.fake_cluster import FakeCluster
from tests.remote.fake_security import Authority, SaslGuard, TlsGuard

TP = TopicPartition("t", 0)


def linked(cluster: FakeCluster, config: WireConfig) -> None:
    """Open one connection, and close it."""
    network = Network(config)
    try:
        BrokerLink(network, config, ("127.0.0.1", cluster.brokers[1].port))
    finally:
        network.close()


USERS = {"alice": "open, sesame=ü"}
BY_PASSWORD = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


def settings(mechanism: str, **more: Any) -> dict[str, Any]:
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_username": "alice",
        "sasl_password": USERS["alice"],
        "socket_connection_setup_timeout_ms": 3_000,
        **more,
    }


def begin(guard: SaslGuard) -> FakeCluster:
    made = FakeCluster(guard=guard)
    made.topic("t")
    return made


@pytest.fixture
def guard() -> SaslGuard:
    return SaslGuard(USERS)


@pytest.fixture
def cluster(guard: SaslGuard) -> Iterator[FakeCluster]:
    with begin(guard) as made:
        yield made


def refusal(cluster: FakeCluster, **wanted: Any) -> LogstoreError:
    with Client(cluster.bootstrap, **wanted) as client, pytest.raises(LogstoreError) as caught:
        client.metadata()
    assert "\n" not in str(caught.value)
    return caught.value


# --- logins --------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", BY_PASSWORD)
def test_a_user_logs_in_once_a_connection(cluster: FakeCluster, guard: SaslGuard, mechanism: str) -> None:
    with Client(cluster.bootstrap, **settings(mechanism)) as client:
        for _ in range(5):
            assert set(client.metadata().topics) == {"t"}
        with IdempotentProducer(client) as producer:
            producer.submit(TP, encode([b"a"], timestamp_ms=1))
            producer.flush()
        assert client.fetch(TP, 0).next_offset == 1
    assert guard.logins == [(mechanism, "alice")] * cluster.brokers[1].accepted
    assert cluster.brokers[1].accepted <= 2


@pytest.mark.parametrize("mechanism", BY_PASSWORD)
def test_a_login_over_tls(authority_of_test: Authority, tmp_path: Path, mechanism: str) -> None:
    tls = TlsGuard(authority_of_test.issue("127.0.0.1"), tmp_path)
    with begin(SaslGuard(USERS, tls=tls)) as cluster:
        wanted = settings(
            mechanism, security_protocol="SASL_SSL", ssl_truststore_certificates=authority_of_test.pem
        )
        with Client(cluster.bootstrap, **wanted) as client:
            assert set(client.metadata().topics) == {"t"}


@pytest.fixture(scope="module")
def authority_of_test() -> Authority:
    return Authority()


@pytest.mark.parametrize("mechanism", BY_PASSWORD)
def test_a_login_as_jobs_write_it(
    cluster: FakeCluster, guard: SaslGuard, mechanism: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "password").write_text(f"{USERS['alice']}\n")
    monkeypatch.setenv("USER_OF_TEST", "alice")
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    jaas = (
        f"org.apache.kafka.common.security.{module} required "
        f'username="{{env:USER_OF_TEST}}" password="{{file:{tmp_path}/password}}";'
    )
    wanted = {
        "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism, "sasl.jaas.config": jaas,
        "bootstrap.servers": f"SASL_PLAINTEXT://{cluster.bootstrap}",
    }  # fmt: skip
    with Client("", wanted) as client:
        assert set(client.metadata().topics) == {"t"}
        assert guard.logins == [(mechanism, "alice")]
        # The next connection reads the file again.
        guard.users["alice"] = "changed"
        (tmp_path / "password").write_text("changed")
        cluster.brokers[1].stop()
        cluster.brokers[1].restart()
        client.metadata()
    assert guard.refused == 0


# --- refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", BY_PASSWORD)
@pytest.mark.parametrize("wrong", [{"sasl_password": "wr0ng"}, {"sasl_username": "eve"}])
def test_a_refused_login_is_an_error_of_its_own_and_is_not_tried_again(
    cluster: FakeCluster, guard: SaslGuard, mechanism: str, wrong: dict[str, str]
) -> None:
    began = time.monotonic()
    bootstrap = ",".join([cluster.bootstrap, f"localhost:{cluster.brokers[1].port}"])
    error = refusal(cluster, **settings(mechanism, bootstrap_servers=bootstrap, **wrong))
    assert isinstance(error, AuthenticationError)
    assert (error.code, error.retriable) == (58, False)
    assert f"login of {mechanism} at 127.0.0.1" in str(error) or f"login of {mechanism} at localhost" in str(error)
    assert "SASL_AUTHENTICATION_FAILED" in str(error)
    assert guard.refused == cluster.brokers[1].accepted == 1
    assert time.monotonic() - began < 30


def test_a_program_that_calls_again_and_again_is_slowed_down(cluster: FakeCluster, guard: SaslGuard) -> None:
    with Client(cluster.bootstrap, **settings("PLAIN", sasl_password="wr0ng", reconnect_backoff_ms=100)) as client:
        began = time.monotonic()
        for _ in range(4):
            with pytest.raises(AuthenticationError):
                client.metadata()
        # Each pause is changed at random by up to a fifth.
        assert time.monotonic() - began > 0.8 * (0.1 + 0.2 + 0.4) - 0.05
    assert guard.refused == 4


def test_a_mechanism_that_the_listener_lacks_is_named_with_those_it_has() -> None:
    with begin(SaslGuard(USERS, ("PLAIN", "SCRAM-SHA-256"))) as cluster:
        error = refusal(cluster, **settings("SCRAM-SHA-512"))
        assert isinstance(error, AuthenticationError)
        assert "does not offer sasl.mechanism=SCRAM-SHA-512; this listener offers PLAIN, SCRAM-SHA-256" in str(
            error
        )
        assert cluster.brokers[1].accepted == 1


def test_a_client_without_a_login_at_a_listener_with_sasl_is_told(cluster: FakeCluster) -> None:
    error = refusal(cluster, socket_connection_setup_timeout_ms=500)
    assert isinstance(error, BrokerUnreachableError)
    assert "a listener with SASL does so to a client without a login: check security.protocol" in str(error)


def test_a_login_at_a_listener_without_sasl_is_told() -> None:
    with FakeCluster() as plain:
        plain.brokers[1].plan(SaslHandshakeRequest, {"error_code": 34})
        plain.guard.session = SaslGuard(USERS).session  # type: ignore[method-assign]
        error = refusal(plain, **settings("PLAIN"))
        assert isinstance(error, AuthenticationError)
        assert "this listener asks for no login; check the port, or set security.protocol to PLAINTEXT" in str(
            error
        )


def test_a_broker_that_repeats_the_password_is_not_quoted(cluster: FakeCluster, guard: SaslGuard) -> None:
    guard.echoes = ": expected other than wr0ng-s3cr3t"
    error = refusal(cluster, **settings("PLAIN", sasl_password="wr0ng-s3cr3t"))
    assert "expected other than [hidden]" in str(error)
    assert "s3cr3t" not in str(error)


@pytest.mark.parametrize(
    "act", [fake_cluster.disconnect, fake_cluster.cut, fake_cluster.garbage, fake_cluster.another_number]
)
@pytest.mark.parametrize("request_of", [SaslHandshakeRequest, SaslAuthenticateRequest])
def test_a_login_that_is_cut_or_garbled_ends_in_an_error(
    cluster: FakeCluster, act: Any, request_of: type[Any]
) -> None:
    wanted = settings("SCRAM-SHA-256")
    cluster.brokers[1].plan(request_of, act)
    with pytest.raises(LogstoreError, match=r"^127\.0\.0\.1:\d+"):
        linked(cluster, WireConfig(**wanted))
    # A client tries again after a lost connection, as a broker that restarts causes it.
    cluster.brokers[1].plan(request_of, fake_cluster.disconnect)
    with Client(cluster.bootstrap, **wanted) as client:
        client.metadata()


def test_a_login_that_never_ends_is_refused() -> None:
    def endless() -> Any:
        while True:
            yield b"a"

    def ask(request: Any) -> Any:
        return SaslHandshakeResponse() if isinstance(request, SaslHandshakeRequest) else SaslAuthenticateResponse()

    def log_in() -> None:
        steps = login_requests(Login("PLAIN"), endless(), (), "a broker")
        request = next(steps)
        while True:
            request = steps.send(ask(request))

    with pytest.raises(AuthenticationError, match="never ends the exchange"):
        log_in()


# --- SCRAM -----------------------------------------------------------------------------------------


def scram(first: str, final: str = "") -> None:
    """Run the client's side of SCRAM against these messages; ``NONCE`` is the client's."""
    login = Login("SCRAM-SHA-256", Secret("alice"), Secret("s3cr3t"))
    mechanism, _ = mechanism_of(login, None)
    nonce = next(mechanism).decode().rpartition("r=")[2]
    mechanism.send(first.replace("NONCE", nonce).encode())
    mechanism.send(final.encode())


SALT = "c2FsdHNhbHRzYWx0c2FsdA=="


@pytest.mark.parametrize(
    ("first", "final"),
    [
        (f"r=other,s={SALT},i=4096", ""),  # a nonce that does not begin with the client's
        (f"r=NONCEx,s={SALT},i=4095", ""),  # few iterations: the password could be guessed
        (f"r=NONCEx,s={SALT},i=100000000", ""),  # many would keep the client busy for minutes
        (f"r=NONCEx,s={SALT}", ""),
        ("r=NONCEx,s=!,i=4096", ""),
        (f"m=x,r=NONCEx,s={SALT},i=4096", ""),
        (f"r=NONCEx,s={SALT},i=4096", ""),
        (f"r=NONCEx,s={SALT},i=4096", "v=" + "A" * 43 + "="),  # a broker that does not know the password
        (f"r=NONCEx,s={SALT},i=4096", "e=invalid-proof"),
        ("\xff", ""),
    ],
)
def test_a_broker_that_breaks_scram_is_refused(first: str, final: str) -> None:
    with pytest.raises(AuthenticationError, match="the exchange of SCRAM-SHA-256 failed") as caught:
        scram(first, final)
    assert "s3cr3t" not in str(caught.value)


def test_a_password_that_scram_forbids_is_an_error_and_not_shown(cluster: FakeCluster) -> None:
    error = refusal(cluster, **settings("SCRAM-SHA-256", sasl_password="s3cr3t\u0007"))
    assert isinstance(error, AuthenticationError)
    assert "s3cr3t" not in str(error)
    with Client(cluster.bootstrap, **settings("PLAIN", sasl_password="a\0b")) as client:
        with pytest.raises(InvalidSettingError, match="a character of number 0"):
            client.metadata()


def test_scram_without_its_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scramp", None)
    with pytest.raises(
        MissingLibraryError, match=r"needs the package scramp: install logstore with its extra \[sec"
    ):
        Client("localhost:1", **settings("SCRAM-SHA-256"))
    Client("localhost:1", **settings("PLAIN")).close()


# --- repeated logins (KIP-368) -----------------------------------------------------------------------


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers of these tests take logins as fast as they come."""
    monkeypatch.setattr("logstore.remote.network.connection._LOGIN_PAUSE_S", 0.0)


@pytest.mark.usefixtures("quick")
def test_a_login_is_repeated_on_the_connection_before_its_time_ends() -> None:
    guard = SaslGuard(USERS, lifetime_ms=2_000)
    with begin(guard) as cluster, Client(cluster.bootstrap, **settings("SCRAM-SHA-256")) as client:
        client.metadata()
        wait_for(lambda: (client.metadata(), len(guard.logins) >= 3)[1], 120, every_s=0.02)
        assert guard.late == 0
        assert cluster.brokers[1].accepted == 1
        assert guard.refused == 0


@pytest.mark.usefixtures("quick")
def test_a_producer_loses_nothing_while_logins_are_repeated() -> None:
    guard = SaslGuard(USERS, lifetime_ms=400)
    with begin(guard) as cluster, Client(cluster.bootstrap, **settings("PLAIN")) as client:
        values = []
        with IdempotentProducer(client) as producer:
            while len(guard.logins) < 12 and len(values) < 100_000:
                values.append(b"%d" % len(values))
                producer.submit(TP, encode(values[-1:], timestamp_ms=1))
                if not len(values) % 20:
                    producer.flush()
            producer.flush()
        assert cluster.partition(TP).values() == values
        assert len(guard.logins) >= 12


@pytest.mark.usefixtures("quick")
def test_a_repeated_login_that_is_refused_ends_the_connection() -> None:
    guard = SaslGuard(USERS, lifetime_ms=300)
    with begin(guard) as cluster, Client(cluster.bootstrap, **settings("PLAIN")) as client:
        client.metadata()
        guard.users["alice"] = "changed"

        def ends() -> bool:
            try:
                client.metadata()
            except AuthenticationError:
                return True
            return False

        wait_for(ends, 60, every_s=0.02)
        assert guard.refused == 1


# --- threads and processes ---------------------------------------------------------------------------


def test_threads_log_in_side_by_side(cluster: FakeCluster, guard: SaslGuard) -> None:
    with Client(cluster.bootstrap, **settings("SCRAM-SHA-512")) as client:
        errors: list[BaseException] = []

        def work() -> None:
            try:
                for _ in range(20):
                    client.metadata()
            except BaseException as error:  # noqa: BLE001  # shown by the assertion
                errors.append(error)

        threads = [threading.Thread(target=work) for _ in range(8)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert not errors
    assert guard.refused == 0
