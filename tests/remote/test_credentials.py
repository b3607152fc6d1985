"""Credentials of a client, and the search for planted secrets in all output."""

from __future__ import annotations

import itertools
import logging
import pickle
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import logstore
from logstore.config.remote import WireConfig
from logstore.errors import AuthenticationError, InvalidSettingError, LogstoreError
from logstore.protocol.generated.messages import SaslAuthenticateRequest, SaslAuthenticateResponse
from logstore.remote.client import Client
from logstore.remote.credentials import Credentials
from logstore.remote.network.connection import NodeConnection
from logstore.remote.network.link import BrokerLink
from logstore.remote.network.loop import Network, NetworkThread
from tests.remote import fake_cluster
from tests.remote.fake_cluster import FakeBroker, FakeCluster
from tests.remote.fake_security import Authority, SaslGuard, TlsGuard

#: What is looked for. Each secret holds it, also where PLAIN and HTTP wrap it in Base64.
MARK = "s3cr3tmark"
WRAPPED = ("czNjcjN0bWFya", "MzY3IzdG1hcm", "zM2NyM3RtYXJr")


def planted() -> str:
    return f"{MARK}-{next(_numbers)}"


_numbers = itertools.count()


def assert_hidden(shown: str, where: object) -> None:
    assert not any(each in shown for each in (MARK, *WRAPPED)), where


def ways(cluster: FakeCluster, authority: Authority, folder: Path) -> Iterator[dict[str, Any]]:
    """Settings that fail, each with planted secrets in every place that may hold one."""
    own = authority.issue(name="alice")
    p12 = folder / "own.p12"
    p12.write_bytes(own.pkcs12("another"))
    (folder / "token").write_text(planted())
    file = f"file:{folder}/token"
    sasl: dict[str, Any] = {"security_protocol": "SASL_SSL", "ssl_truststore_certificates": authority.pem}
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI", ""):
        yield sasl | {"sasl_mechanism": mechanism, "sasl_username": "alice", "sasl_password": planted()}
        for module in ("plain.Plain", "scram.Scram", "oauthbearer.OAuthBearer", "x.Krb5"):
            jaas = (
                f'org.apache.kafka.common.security.{module}LoginModule required username="alice" password="{{}}";'
            )
            yield sasl | {"sasl_mechanism": mechanism, "sasl_jaas_config": jaas.format(planted())}
            yield sasl | {"sasl_mechanism": mechanism, "sasl_jaas_config": jaas.format(planted())[:-2]}
    bearer = sasl | {"sasl_mechanism": "OAUTHBEARER"}
    yield bearer | {"sasl_oauthbearer_token_endpoint_url": file}
    for url in (f"http://127.0.0.1:1/t?key={MARK}", f"https://u:{MARK}@example/", f"http://x.example/?{MARK}"):
        yield bearer | {
            "sasl_oauthbearer_token_endpoint_url": url,
            "sasl_oauthbearer_client_credentials_client_id": "me",
            "sasl_oauthbearer_client_credentials_client_secret": planted(),
        }
    ssl: dict[str, Any] = {"security_protocol": "SSL"}
    yield ssl | {"ssl_truststore_certificates": planted()}
    yield ssl | {"ssl_keystore_key": planted(), "ssl_keystore_certificate_chain": own.chain}
    yield ssl | {"ssl_keystore_key": own.key_pem("x"), "ssl_keystore_certificate_chain": own.chain,
                 "ssl_key_password": planted()}  # fmt: skip
    yield ssl | {"ssl_keystore_location": str(p12), "ssl_keystore_password": planted()}
    yield {"security_protocol": "PLAINTEXT", "sasl_password": planted(), "ssl_key_password": planted()}


def failed(bootstrap: str, settings: dict[str, Any]) -> tuple[Client | None, LogstoreError]:
    """The client, if it could be made, and the error of making it or of its first call."""
    client = None
    try:
        client = Client(bootstrap, socket_connection_setup_timeout_ms=300, **settings)
        client.metadata()
    except LogstoreError as error:
        return client, error
    raise AssertionError(f"these settings have worked: {sorted(settings)}")


def test_no_output_shows_a_planted_secret(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    authority = Authority()
    guard = SaslGuard({"alice": "right"}, tls=TlsGuard(authority.issue("127.0.0.1"), tmp_path))
    guard.echoes = " " + MARK  # a broker that repeats what it was told, if only a part of it
    tried = 0
    with FakeCluster(guard=guard) as cluster, caplog.at_level(logging.DEBUG):
        for settings in ways(cluster, authority, tmp_path):
            guard.echoes = next((f" {v}" for k, v in settings.items() if k == "sasl_password"), "")
            client, error = failed(cluster.bootstrap, settings)
            assert_hidden("".join(traceback.format_exception(error)), settings)
            assert_hidden(repr(error) + str(error.args) + str(vars(error)), settings)
            if client is not None:
                shown = [
                    repr(part) for part in (client, client.config, client.cluster, client.cluster._credentials)
                ]
                shown += [repr(vars(client.cluster._credentials)), str(dict(client.config.items()))]
                if client.cluster._credentials._tokens is not None:
                    shown.append(repr(vars(client.cluster._credentials._tokens)))
                assert_hidden(" ".join(shown), settings)
                client.close()
            tried += 1
    assert tried > 60
    assert_hidden(caplog.text, "the log")
    assert_hidden("".join(capfd.readouterr()), "the terminal")


def test_messages_of_a_login_show_no_bytes_of_it() -> None:
    for message in (
        SaslAuthenticateRequest(auth_bytes=f"\0alice\0{MARK}".encode()),
        SaslAuthenticateResponse(auth_bytes=MARK.encode()),
    ):
        assert_hidden(repr(message), message)
        assert "auth_bytes=[hidden]" in repr(message)


def test_settings_of_security_without_effect_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    Client("localhost:1", {"ssl.truststore.location": "/absent", "sasl.mechanism": "PLAIN"}).close()
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage() == (
        "security.protocol is PLAINTEXT: settings without effect: ssl.truststore.location, sasl.mechanism"
    )
    caplog.clear()
    Client("localhost:1").close()
    assert not caplog.records


def test_half_a_configuration_is_refused_before_any_connection() -> None:
    with pytest.raises(InvalidSettingError) as caught:
        Client("localhost:1", {"security.protocol": "SASL_SSL", "ssl.keystore.key": "x"})
    assert set(caught.value.problems) == {
        "sasl.mechanism", "sasl.username", "sasl.password", "ssl.keystore.certificate.chain"
    }  # fmt: skip


def test_a_pickled_configuration_holds_references_and_not_what_they_find(
    tmp_path: Path,
) -> None:
    (tmp_path / "password").write_text(MARK)
    config = WireConfig(sasl_password=f"{{file:{tmp_path}/password}}")
    config.sasl_password.reveal()
    assert MARK.encode() not in pickle.dumps(config)


def test_each_connection_of_its_own_reads_its_settings() -> None:
    with FakeCluster(guard=SaslGuard({"a": "b"})) as cluster:
        config = WireConfig(
            security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN", sasl_username="a", sasl_password="b"
        )
        network = Network(config)
        BrokerLink(network, config, ("127.0.0.1", cluster.brokers[1].port))
        network.close()
        assert Credentials(config).again().logs_in


def test_a_forked_child_logs_in_by_itself() -> None:
    import os

    guard = SaslGuard({"a": "b"})
    with FakeCluster(guard=guard) as cluster:
        cluster.topic("t")
        settings: dict[str, Any] = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-256"}
        with Client(cluster.bootstrap, sasl_username="a", sasl_password="b", **settings) as client:
            client.metadata()
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    status = 0 if set(client.metadata().topics) == {"t"} else 2
                finally:
                    os._exit(status)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            client.metadata()
        assert len(guard.logins) == 2


def test_the_package_and_a_plain_client_import_no_tls() -> None:
    program = (
        "import sys, logstore, logstore.remote.client as c\n"
        "c.Client('localhost:1').close()\n"
        "print([m for m in ('ssl', 'scramp', 'cryptography', 'http.client') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def log_in(cluster: FakeCluster, user: str, password: str) -> None:
    """Open a connection to the first broker by the mechanism PLAIN, and close it."""
    config = WireConfig(
        security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN", sasl_username=user, sasl_password=password
    )
    network = Network(config)
    try:
        BrokerLink(network, config, ("127.0.0.1", cluster.brokers[1].port))
    finally:
        network.close()


def test_a_refused_login_is_told_though_the_broker_closes_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an answer means is found beside the thread of the sockets, which may see the end first."""
    has_ended, errands = threading.Event(), []
    ended, errand = NodeConnection._ended, NetworkThread.errand

    def end(connection: NodeConnection) -> LogstoreError:
        has_ended.set()
        return ended(connection)

    def late(thread: NetworkThread, work: Callable[[], Any], then: Callable[..., None]) -> None:
        errands.append(work)
        waits = len(errands) == 3  # for the handshake, the password, and what was answered to it

        def run() -> Any:
            assert not waits or has_ended.wait(30)
            return work()

        errand(thread, run, then)

    def answer_and_close(_broker: FakeBroker, connection: socket.socket, out: bytes) -> bool:
        connection.sendall(out)
        connection.shutdown(socket.SHUT_RDWR)
        return True

    monkeypatch.setattr(NodeConnection, "_ended", end)
    monkeypatch.setattr(NetworkThread, "errand", late)
    with FakeCluster(guard=SaslGuard({"alice": "right"})) as cluster:
        cluster.brokers[1].plan(SaslAuthenticateRequest, answer_and_close)
        with pytest.raises(AuthenticationError, match="SASL_AUTHENTICATION_FAILED"):
            log_in(cluster, "alice", "no")
    assert has_ended.is_set()


def test_faults_at_the_login_are_planted_where_they_are_meant() -> None:
    """The faults of `fake_cluster` reach messages of the login: without that, tests of it would prove nothing."""
    guard = SaslGuard({"a": "b"})
    with FakeCluster(guard=guard) as cluster:
        cluster.brokers[1].plan(SaslAuthenticateRequest, fake_cluster.disconnect)
        with pytest.raises(LogstoreError, match="closed the connection during the login"):
            log_in(cluster, "a", "b")


def use(store: Any, shown: list[str]) -> None:
    """What a program does with a cluster; what it could print of that goes into ``shown``."""
    topic = store.create_topic("flights", partitions=2)
    topic.append(b"AA 1141", key=b"AA")
    with store.producer(linger_ms=1) as producer:
        sent = producer.send("flights", b"UA 1", b"UA")
        producer.flush()
        shown += map(repr, (producer, vars(producer), producer.metrics(), sent, sent.result()))
    with store.consumer(group="report", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["flights"])
        read = 0
        while read < 2:
            read += len(consumer.poll(timeout_s=5))
        consumer.commit()
        shown += map(repr, (consumer, vars(consumer)))
    scan = topic.scan(columns=["key", "value"])
    shown += map(repr, (scan, vars(scan), list(scan), scan.to_arrow(), store, vars(store), topic, vars(topic)))
    shown += map(repr, (store.describe_topic("flights"), store.lag("report"), store.committed("report")))
    client = store._client
    shown += map(repr, (client, vars(client), client.config, vars(client.cluster), dict(client.config.items())))
    with pytest.raises(LogstoreError) as raised:
        topic.append(b"x" * 3_000_000)
    shown += traceback.format_exception(raised.value)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512", "OAUTHBEARER"])
def test_no_output_of_a_program_that_works_shows_its_password_or_token(
    mechanism: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    authority, secret, token = Authority(), planted(), f"{planted()}.{planted()}.x"
    guard = SaslGuard({"alice": secret}, tls=TlsGuard(authority.issue("127.0.0.1"), tmp_path), tokens=(token,))
    settings = {"security.protocol": "SASL_SSL", "ssl.truststore.certificates": authority.pem}
    settings["sasl.mechanism"] = mechanism
    if mechanism == "OAUTHBEARER":
        (tmp_path / "token").write_text(token)
        settings["sasl.oauthbearer.token.endpoint.url"] = (tmp_path / "token").as_uri()
    else:
        settings |= {"sasl.username": "alice", "sasl.password": secret}
    shown: list[str] = []
    with (
        FakeCluster(2, guard=guard, long_polls=True) as cluster,
        caplog.at_level(logging.DEBUG),
        logstore.connect(cluster.bootstrap, settings) as store,
    ):
        use(store, shown)
        assert {each for each, _ in guard.logins} == {mechanism}
    assert len(shown) > 25
    for text in shown:
        assert_hidden(text, text[:80])
    assert_hidden(caplog.text, "the log")
    assert_hidden("".join(capfd.readouterr()), "the terminal")
