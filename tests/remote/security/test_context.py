"""TLS to a broker: which certificates are accepted, and what each failure says, in one sentence and in time."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from logstore.batch._encode import encode
from logstore.errors import (
    AuthenticationError,
    BrokerUnreachableError,
    InvalidSettingError,
    LogstoreError,
    ProtocolError,
)
from logstore.records import TopicPartition
from logstore.remote.client import EARLIEST, Client
from logstore.remote.producer import IdempotentProducer
from tests.remote.fake_cluster import FakeCluster
from tests.remote.fake_security import Authority, Issued, TlsGuard

TP = TopicPartition("t", 0)


@pytest.fixture
def cluster(issued: Issued, tmp_path: Path) -> Iterator[FakeCluster]:
    with FakeCluster(guard=TlsGuard(issued, tmp_path)) as made:
        made.topic("t")
        yield made


def ssl_client(cluster: FakeCluster, bootstrap: str = "", **settings: Any) -> Client:
    settings = {"ssl_endpoint_identification_algorithm": "https", **settings}
    return Client(bootstrap or cluster.bootstrap, security_protocol="SSL", **settings)


def failure(cluster: FakeCluster, bootstrap: str = "", **settings: Any) -> LogstoreError:
    """The error of a first call, which comes in time and in one line."""
    settings = {"socket_connection_setup_timeout_ms": 3_000, **settings}
    began = time.monotonic()
    with ssl_client(cluster, bootstrap, **settings) as client, pytest.raises(LogstoreError) as caught:
        client.metadata()
    assert time.monotonic() - began < 30, "the time-out and a slow machine"
    assert "\n" not in str(caught.value)
    return caught.value


# --- what works ----------------------------------------------------------------------------------


@pytest.mark.row("O5", part="the client")
def test_records_cross_tls_in_both_directions(cluster: FakeCluster, authority: Authority) -> None:
    values = [bytes([number % 251]) * 3_000 for number in range(400)]
    with ssl_client(cluster, ssl_truststore_certificates=authority.pem) as client:
        with IdempotentProducer(client) as producer:
            for start in range(0, 400, 20):
                producer.submit(TP, encode(values[start : start + 20], timestamp_ms=1))
            producer.flush()
        assert cluster.partition(TP).values() == values
        found = client.fetch(TP, 0, max_bytes=4 << 20)
        assert len(found.data) == sum(map(len, cluster.partition(TP).batches))
        assert found.next_offset == 400
        assert client.list_offsets({TP: EARLIEST})[TP].offset == 0
    # One for single requests, one for the producer.
    assert cluster.brokers[1].accepted == 2, "a connection is used again: no byte of TLS was taken for an answer"


def test_the_host_is_checked_by_name_and_by_address(cluster: FakeCluster, authority: Authority) -> None:
    port = cluster.brokers[1].port
    with ssl_client(cluster, f"localhost:{port}", ssl_truststore_certificates=authority.pem) as client:
        assert set(client.metadata().topics) == {"t"}


def test_authorities_come_from_a_file_or_a_value(
    cluster: FakeCluster, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pem, store = tmp_path / "ca.pem", tmp_path / "ca.p12"
    pem.write_text(f"some words before\n{authority.pem}")
    store.write_bytes(authority.pkcs12("changeit"))
    monkeypatch.setenv("STORE", str(store))
    monkeypatch.setenv("PASSWORD", "changeit")
    for settings in (
        {"ssl_truststore_location": str(pem)},
        {"ssl_truststore_location": str(pem), "ssl_truststore_type": "PEM"},
        {"ssl_truststore_certificates": authority.pem.replace("\n", " ")},
        {"ssl_truststore_certificates": f"{{file:{pem}}}"},
        {"ssl_truststore_location": str(store), "ssl_truststore_password": "changeit"},
        {"ssl_truststore_location": "{env:STORE}", "ssl_truststore_password": "{env:PASSWORD}"},
    ):
        with ssl_client(cluster, **settings) as client:
            assert set(client.metadata().topics) == {"t"}


def test_the_systems_authorities_are_the_default(
    cluster: FakeCluster, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "system.pem").write_text(authority.pem)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "system.pem"))  # where OpenSSL looks for them
    with ssl_client(cluster) as client:
        assert set(client.metadata().topics) == {"t"}


@pytest.mark.parametrize("kind", ["pem", "encrypted", "inline", "pkcs12"])
def test_a_client_proves_itself_with_its_certificate(
    issued: Issued, authority: Authority, tmp_path: Path, kind: str
) -> None:
    own = authority.issue(name="alice")
    (tmp_path / "own.p12").write_bytes(own.pkcs12("changeit"))
    settings: dict[str, Any] = {
        "pem": {"ssl_keystore_location": str(own.write(tmp_path / "own.pem"))},
        "encrypted": {
            "ssl_keystore_location": str(own.write(tmp_path / "locked.pem", "changeit")),
            "ssl_key_password": "changeit",
        },
        "inline": {"ssl_keystore_key": own.key_pem("changeit"), "ssl_keystore_certificate_chain": own.chain,
                   "ssl_key_password": "changeit"},
        "pkcs12": {"ssl_keystore_location": str(tmp_path / "own.p12"), "ssl_keystore_password": "changeit"},
    }[kind]  # fmt: skip
    with FakeCluster(guard=TlsGuard(issued, tmp_path, authority)) as cluster:
        cluster.topic("t")
        with ssl_client(cluster, ssl_truststore_certificates=authority.pem, **settings) as client:
            assert set(client.metadata().topics) == {"t"}


def test_a_lost_connection_over_tls_is_opened_again(cluster: FakeCluster, authority: Authority) -> None:
    with ssl_client(cluster, ssl_truststore_certificates=authority.pem) as client:
        client.metadata()
        cluster.brokers[1].stop()
        cluster.brokers[1].restart()
        assert set(client.metadata().topics) == {"t"}


# --- what is refused -------------------------------------------------------------------------------


def test_a_certificate_of_an_unknown_authority_is_refused(cluster: FakeCluster) -> None:
    error = failure(cluster, ssl_truststore_certificates=Authority("another").pem)
    assert isinstance(error, AuthenticationError)
    assert "is of an authority that is not trusted; add its authority to ssl.truststore.location" in str(error)
    assert cluster.brokers[1].accepted == 1, "it is not tried again"


def test_a_self_signed_certificate_is_refused(authority: Authority, tmp_path: Path) -> None:
    with FakeCluster(guard=TlsGuard(Authority("self").issued, tmp_path)) as cluster:
        error = failure(cluster, ssl_truststore_certificates=authority.pem)
        assert isinstance(error, AuthenticationError)
        assert "is self-signed and not trusted" in str(error)


@pytest.mark.parametrize(
    ("first", "meaning"), [(-10, "has expired; renew it on the broker"), (5, "is not valid yet")]
)
def test_a_certificate_out_of_its_time_is_refused(
    authority: Authority, tmp_path: Path, first: int, meaning: str
) -> None:
    with FakeCluster(guard=TlsGuard(authority.issue("127.0.0.1", first=first), tmp_path)) as cluster:
        error = failure(cluster, ssl_truststore_certificates=authority.pem)
        assert isinstance(error, AuthenticationError)
        assert meaning in str(error)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_certificate_of_another_host_is_refused_unless_hosts_are_not_checked(
    authority: Authority, tmp_path: Path, host: str
) -> None:
    with FakeCluster(guard=TlsGuard(authority.issue("broker.example"), tmp_path)) as cluster:
        cluster.topic("t")
        bootstrap = f"{host}:{cluster.brokers[1].port}"
        error = failure(cluster, bootstrap, ssl_truststore_certificates=authority.pem)
        assert isinstance(error, AuthenticationError)
        assert f"is not for the host {host}; connect by a name of the certificate" in str(error)
        settings = {"ssl_endpoint_identification_algorithm": "", "ssl_truststore_certificates": authority.pem}
        with ssl_client(cluster, bootstrap, **settings) as client:
            assert set(client.metadata().topics) == {"t"}
        other = {"ssl_endpoint_identification_algorithm": "", "ssl_truststore_certificates": Authority("x").pem}
        assert "not trusted" in str(failure(cluster, bootstrap, **other)), "the authority is checked still"


def test_a_client_without_a_certificate_that_the_broker_wants_is_told(
    issued: Issued, authority: Authority, tmp_path: Path
) -> None:
    with FakeCluster(guard=TlsGuard(issued, tmp_path, authority)) as cluster:
        for versions in ("TLSv1.2", "TLSv1.3"):
            error = failure(cluster, ssl_truststore_certificates=authority.pem, ssl_enabled_protocols=versions)
            assert isinstance(error, AuthenticationError), error
            assert "the broker refuses this client's certificate, or wants one" in str(error)
        stranger = Authority("stranger").issue(name="eve")
        error = failure(
            cluster, ssl_truststore_certificates=authority.pem, ssl_keystore_key=stranger.key_pem(),
            ssl_keystore_certificate_chain=stranger.chain,
        )  # fmt: skip
        assert isinstance(error, AuthenticationError)


def test_versions_of_tls_without_one_in_common_are_named(
    issued: Issued, authority: Authority, tmp_path: Path
) -> None:
    import ssl

    guard = TlsGuard(issued, tmp_path)
    guard.context.maximum_version = ssl.TLSVersion.TLSv1_2
    with FakeCluster(guard=guard) as cluster:
        error = failure(cluster, ssl_truststore_certificates=authority.pem, ssl_enabled_protocols="TLSv1.3")
        assert isinstance(error, AuthenticationError)
        assert "have no version of TLS in common" in str(error)


def test_a_plain_port_for_tls_is_said_to_be_one(authority: Authority) -> None:
    with FakeCluster() as plain:
        error = failure(plain, ssl_truststore_certificates=authority.pem)
        assert isinstance(error, BrokerUnreachableError)
        assert "check that this is the port of an SSL or SASL_SSL listener" in str(error)
        assert plain.brokers[1].accepted < 12, "with pauses between the tries"


def test_a_port_that_answers_something_else_than_tls_is_said_to(authority: Authority) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        import threading

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                connection.recv(1 << 16)

        thread = threading.Thread(target=serve)
        thread.start()
        bootstrap = f"127.0.0.1:{listening.getsockname()[1]}"
        with Client(bootstrap, security_protocol="SSL", ssl_truststore_certificates=authority.pem) as client:
            with pytest.raises(ProtocolError, match="what answers there does not speak TLS"):
                client.metadata()
        thread.join()


def test_a_silent_port_ends_the_handshake_in_time(authority: Authority) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        bootstrap = f"127.0.0.1:{listening.getsockname()[1]}"
        settings: dict[str, Any] = {"socket_connection_setup_timeout_ms": 200, "default_api_timeout_ms": 200}
        with Client(
            bootstrap, security_protocol="SSL", ssl_truststore_certificates=authority.pem, **settings
        ) as client:
            with pytest.raises(
                LogstoreError, match=r"no TLS handshake within socket\.connection\.setup\.timeout\.ms"
            ):
                client.metadata()


def test_a_tls_port_for_a_plain_client_is_said_to_be_one(cluster: FakeCluster) -> None:
    with Client(cluster.bootstrap, socket_connection_setup_timeout_ms=2_000) as client:
        with pytest.raises(LogstoreError, match=r"speaks TLS; set security\.protocol|port of a PLAINTEXT listener"):
            client.metadata()


# --- settings that are wrong -------------------------------------------------------------------------


def test_a_key_without_its_password_or_with_another_is_refused_before_any_connection(
    cluster: FakeCluster, authority: Authority, tmp_path: Path
) -> None:
    own = authority.issue(name="alice")
    location = str(own.write(tmp_path / "own.pem", "changeit"))
    for password, problem in (("", "missing"), ("s3cr3t", "wrong")):
        with pytest.raises(InvalidSettingError) as caught:
            ssl_client(cluster, ssl_keystore_location=location, ssl_key_password=password)
        assert caught.value.problems["ssl.key.password"].startswith(problem)
        assert "s3cr3t" not in str(caught.value)
    assert cluster.brokers[1].accepted == 0


def test_a_key_of_another_certificate_is_refused(cluster: FakeCluster, authority: Authority) -> None:
    one, other = authority.issue(name="a"), authority.issue(name="b")
    with pytest.raises(InvalidSettingError, match="the key is not that of the first certificate"):
        ssl_client(cluster, ssl_keystore_key=one.key_pem(), ssl_keystore_certificate_chain=other.chain)
