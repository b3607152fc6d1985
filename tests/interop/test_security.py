"""Our client at a real, secured Kafka: each protocol and mechanism, ACLs, and each way to be refused."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from logstore.batch._batch import Batches
from logstore.batch._encode import encode
from logstore.client.consumer import Consumer, open_consumer
from logstore.errors import AuthenticationError, BrokerError, LogstoreError
from logstore.protocol.generated.messages import MetadataRequest
from logstore.records import TopicPartition
from logstore.remote.backend.backend import RemoteBackend
from logstore.remote.client import Client, NewTopic
from logstore.remote.producer import IdempotentProducer
from tests.interop.secured import LOGIN_MS, MECHANISMS, USERS, Secured
from tests.interop.secured import secured as secured_cluster
from tests.kit.waiting import wait_for
from tests.remote.fake_security import Authority
from tests.remote.sasl.test_tokens import Endpoint, token_answer

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

KAFKAS = "org.apache.kafka.common.security."
_names = (f"t{number}" for number in itertools.count())


@pytest.fixture(scope="module")
def secured(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    made = secured_cluster(tmp_path_factory.mktemp("secured") / "cluster", racks=["alone"])
    with made.cluster as cluster:
        cluster.allow("alice", "All", topic="*")
        yield made


def client_of(secured: Secured, protocol: str, mechanism: str = "", user: str = "alice", **settings: Any) -> Client:
    found: dict[str, Any] = {"security.protocol": protocol, **(secured.tls() if "SSL" in protocol else {})}
    if mechanism:
        found |= secured.login(mechanism, user)
    if mechanism == "OAUTHBEARER":
        settings.setdefault("oauth_token", lambda: secured.signer.token(user))
    return Client(secured.broker.address(protocol), found, **settings)


def write(client: Client, tp: TopicPartition) -> None:
    with IdempotentProducer(client) as producer:
        producer.submit(tp, encode([b"a"], timestamp_ms=1))
        producer.flush()


def write_and_read(client: Client) -> None:
    name = next(_names)
    tp = TopicPartition(name, 0)
    client.create_topics([NewTopic(name)])
    values = [b"%d" % number * 200 for number in range(500)]
    with IdempotentProducer(client) as producer:
        for start in range(0, 500, 50):
            producer.submit(tp, encode(values[start : start + 50], timestamp_ms=1))
        producer.flush()
    found, offset = [], 0
    while offset < 500:
        fetched = client.fetch(tp, offset)
        found += Batches(fetched.data, start_offset=offset).values()
        offset = fetched.next_offset
    assert found == values


# --- each protocol and mechanism -------------------------------------------------------------------


@pytest.mark.row("O5", part="the client, on a real Kafka")
def test_records_over_tls(secured: Secured) -> None:
    with client_of(secured, "SSL") as client:
        write_and_read(client)


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_records_by_each_mechanism(secured: Secured, protocol: str, mechanism: str) -> None:
    with client_of(secured, protocol, mechanism) as client:
        write_and_read(client)


@pytest.mark.parametrize("kind", ["pem", "pkcs12"])
def test_records_with_a_certificate_of_the_client(secured: Secured, tmp_path: Path, kind: str) -> None:
    own = secured.authority.issue(name="alice")
    path = tmp_path / "own"
    if kind == "pem":
        own.write(path, "changeit")
        settings = {"ssl.key.password": "changeit"}
    else:
        path.write_bytes(own.pkcs12("changeit"))
        settings = {"ssl.keystore.password": "changeit"}
    settings |= {"security.protocol": "SSL", "ssl.keystore.location": str(path), **secured.tls()}
    with Client(secured.broker.address("MTLS"), settings) as client:
        write_and_read(client)


def test_a_token_of_a_file(secured: Secured, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(secured.signer.token("alice"))
    settings = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": (tmp_path / "token").as_uri(),
        **secured.tls(),
    }
    with Client(secured.broker.address("SASL_SSL"), settings) as client:
        write_and_read(client)


def test_a_token_of_an_endpoint(secured: Secured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_TEST", "s3cr3t")
    with Endpoint(token_answer(secured.signer.token("alice"), expires_in=3_600)) as endpoint:
        settings = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": endpoint.url,
            "sasl.oauthbearer.client.credentials.client.id": "me",
            "sasl.oauthbearer.client.credentials.client.secret": "{env:SECRET_OF_TEST}",
            "sasl.oauthbearer.scope": "all",
            "sasl.login.callback.handler.class": f"{KAFKAS}oauthbearer.OAuthBearerLoginCallbackHandler",
            **secured.tls(),
        }
        with Client(secured.broker.address("SASL_SSL"), settings) as client:
            write_and_read(client)
        assert len(endpoint.asked) == 1


def test_a_password_of_a_file_and_a_user_of_the_environment(
    secured: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("USER_OF_TEST", "alice")
    (tmp_path / "password").write_text(f"{USERS['alice']}\n")
    jaas = (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="{{env:USER_OF_TEST}}" password="{{file:{tmp_path}/password}}";'
    )
    settings = {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": jaas}
    with Client(secured.broker.address("SASL_SSL"), settings | secured.tls()) as client:
        write_and_read(client)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_connection_outlives_its_login(secured: Secured, mechanism: str) -> None:
    """The broker closes a connection whose login is too old: one that lives on has logged in again (KIP-368)."""
    with client_of(secured, "SASL_PLAINTEXT", mechanism) as client:
        connection = client.cluster._take(client.config.addresses[0])
        client.cluster.give_back(connection)
        due_s = connection._connection._login_due_s
        assert due_s < float("inf"), "the broker has told its limit"
        until = time.monotonic() + 2.5 * LOGIN_MS / 1000

        def asks() -> bool:
            with client.cluster.any_connection() as used:
                assert used is connection, "no other connection was needed"
                used.ask(MetadataRequest(topics=[]))
            return time.monotonic() > until

        wait_for(asks, 60, every_s=0.1)
        assert connection._connection._login_due_s > due_s


def test_a_token_that_expires_within_the_work_is_replaced(secured: Secured) -> None:
    given: list[str] = []

    def token() -> str:
        given.append(secured.signer.token("alice", lives_s=4))
        return given[-1]

    with client_of(secured, "SASL_SSL", "OAUTHBEARER", oauth_token=token) as client:
        name = next(_names)
        client.create_topics([NewTopic(name)])
        tp = TopicPartition(name, 0)
        count = 0
        until = time.monotonic() + 10
        with IdempotentProducer(client) as producer:
            while time.monotonic() < until:
                producer.submit(tp, encode([b"%d" % count], timestamp_ms=1))
                count += 1
                if count % 200 == 0:
                    producer.flush()  # the rest of the work is short, however fast this machine is
        assert client.list_offsets({tp: -1})[tp].offset == count
    assert len(given) >= 3


# --- ACLs ----------------------------------------------------------------------------------------


def test_a_user_without_an_acl_is_refused_with_kafkas_code(secured: Secured) -> None:
    name = next(_names)
    tp = TopicPartition(name, 0)
    with client_of(secured, "SASL_SSL", "SCRAM-SHA-256") as alice:
        alice.create_topics([NewTopic(name)])
    secured.cluster.allow("bob", "Describe", topic=name)
    with client_of(secured, "SASL_SSL", "SCRAM-SHA-256", "bob") as bob:
        assert name in bob.metadata().topics
        with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED") as caught:
            bob.fetch(tp, 0)
        assert caught.value.code == 29
        with pytest.raises(BrokerError, match="AUTHORIZATION_FAILED"):
            write(bob, tp)
        with pytest.raises(BrokerError, match="AUTHORIZATION_FAILED"):
            bob.create_topics([NewTopic(next(_names))])
    with client_of(secured, "SASL_SSL", "OAUTHBEARER", "carol") as carol:
        write_and_read(carol)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_group_over_sasl_and_tls_with_acls(
    secured: Secured, protocol: str, mechanism: str, request: pytest.FixtureRequest
) -> None:
    topic, group = next(_names), next(_names)
    name = TopicPartition(topic, 0)
    with client_of(secured, "SASL_SSL", "SCRAM-SHA-256") as alice:
        alice.create_topics([NewTopic(topic)])
        write(alice, name)
    settings = {"auto.offset.reset": "earliest", "group.protocol": protocol, "enable.auto.commit": False}
    backend = RemoteBackend(client_of(secured, "SASL_SSL", mechanism, "bob", metadata_max_age_ms=500))
    request.addfinalizer(backend.close)

    def refused(call: Callable[[], object]) -> str:
        with pytest.raises(BrokerError) as caught:
            call()
        text = str(caught.value)
        assert "\n" not in text
        assert bool(re.search(r"ACLs do not let this client", text)), text
        assert (caught.value.code, caught.value.name) in {
            (29, "TOPIC_AUTHORIZATION_FAILED"), (30, "GROUP_AUTHORIZATION_FAILED"),
        }  # fmt: skip
        assert f"({caught.value.code})" in text
        assert repr(topic if caught.value.code == 29 else group) in text
        return caught.value.name

    def consumer() -> Consumer:
        return open_consumer(backend, group, settings, {})

    def joins(member: Consumer) -> None:
        wait_for(lambda: member.poll(0.1), 60)

    # Nothing is allowed, then the topic, then the group too.
    with consumer() as member:
        member.subscribe(topic)
        refused(lambda: joins(member))
    secured.cluster.allow("bob", "Read", "Describe", topic=topic)
    with consumer() as member:
        member.subscribe(topic)
        assert refused(lambda: joins(member)) == "GROUP_AUTHORIZATION_FAILED"
    with consumer() as alone:
        alone.assign([name])
        assert refused(lambda: alone.poll(1)) == "GROUP_AUTHORIZATION_FAILED"
        assert refused(lambda: alone.commit({name: 1})) == "GROUP_AUTHORIZATION_FAILED"
        assert refused(alone.committed) == "GROUP_AUTHORIZATION_FAILED"
        told: list[Exception | None] = []
        alone.seek(name, 0)
        alone.pause(name)
        alone.commit({name: 1}, wait=False, on_commit=lambda _, error: told.append(error))
        alone.commit({name: 1}, wait=False)
        assert refused(lambda: wait_for(lambda: alone.poll(0), 60)) == "GROUP_AUTHORIZATION_FAILED"
        assert [getattr(each, "code", 0) for each in told] == [30]
    secured.cluster.allow("bob", "Read", group=group)
    with consumer() as first, consumer() as second:
        for member in (first, second):
            member.subscribe(topic)

        def one_has_it() -> bool:
            found = [*first.poll(0.1), *second.poll(0.1)]
            return bool(found)

        wait_for(one_has_it, 60)
        owner = first if first.assignment else second
        assert owner.assignment == {name}
        assert owner.commit()[name].offset == 1
        assert owner.committed()[name].offset == 1


def test_a_group_whose_acl_is_taken_away_is_told(secured: Secured, request: pytest.FixtureRequest) -> None:
    topic, group = next(_names), next(_names)
    with client_of(secured, "SASL_SSL", "SCRAM-SHA-256") as alice:
        alice.create_topics([NewTopic(topic)])
    secured.cluster.allow("bob", "Read", topic=topic)
    secured.cluster.allow("bob", "Read", group=group)
    backend = RemoteBackend(client_of(secured, "SASL_SSL", "SCRAM-SHA-512", "bob"))
    request.addfinalizer(backend.close)
    with open_consumer(backend, group, {"heartbeat.interval.ms": 500}, {}) as member:
        member.subscribe(topic)
        wait_for(lambda: member.poll(0.1) or member.assignment, 60)
        secured.cluster.deny("bob", "Read", group=group)
        with pytest.raises(BrokerError, match="GROUP_AUTHORIZATION_FAILED") as caught:
            wait_for(lambda: member.poll(0.1), 60)
        assert caught.value.code == 30


# --- refusals --------------------------------------------------------------------------------------


def refusal(client: Client, kind: type[LogstoreError]) -> str:
    began = time.monotonic()
    with client, pytest.raises(kind) as caught:
        client.metadata()
    assert time.monotonic() - began < 20
    assert "\n" not in str(caught.value)
    return str(caught.value)


SOON: dict[str, Any] = {"socket_connection_setup_timeout_ms": 3_000}


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_wrong_password_is_refused_once(secured: Secured, mechanism: str) -> None:
    wrong = secured.login(mechanism) | {"security.protocol": "SASL_SSL", **secured.tls()}
    wrong["sasl.jaas.config"] = wrong["sasl.jaas.config"].replace('password="', 'password="wr0ng-')
    before = secured.broker.printed().count("Failed authentication")
    shown = refusal(Client(secured.broker.address("SASL_SSL"), wrong, **SOON), AuthenticationError)
    assert f"login of {mechanism} at 127.0.0.1" in shown
    assert "SASL_AUTHENTICATION_FAILED (58)" in shown
    assert "wr0ng" not in shown
    wait_for(lambda: secured.broker.printed().count("Failed authentication") > before, 30)
    assert secured.broker.printed().count("Failed authentication") == before + 1


def test_a_token_of_another_key_and_an_old_one_are_refused(secured: Secured) -> None:
    from tests.interop.secured import Signer

    for token in (Signer().token("alice"), secured.signer.token("alice", lives_s=-100), "no-jwt"):
        client = client_of(secured, "SASL_SSL", "OAUTHBEARER", oauth_token=lambda token=token: token, **SOON)
        shown = refusal(client, AuthenticationError)
        assert "login of OAUTHBEARER at 127.0.0.1" in shown
        assert token not in shown


def test_other_certificates_and_hosts_are_refused(secured: Secured) -> None:
    stranger = {"security.protocol": "SSL", "ssl.truststore.certificates": Authority("x").pem}
    shown = refusal(Client(secured.broker.address("SSL"), stranger, **SOON), AuthenticationError)
    assert "not trusted" in shown
    known = {"security.protocol": "SSL", **secured.tls()}
    shown = refusal(Client(secured.broker.address("MTLS"), known, **SOON), AuthenticationError)
    assert "the broker refuses this client's certificate, or wants one" in shown
    elsewhere = secured.broker.address("SSL").replace("127.0.0.1", "localhost")
    shown = refusal(Client(elsewhere, known, **SOON), AuthenticationError)
    assert "is not for the host localhost" in shown


@pytest.mark.parametrize(
    ("listener", "protocol", "mechanism", "meaning"),
    [
        ("SSL", "PLAINTEXT", "", "TLS|PLAINTEXT listener"),
        ("SASL_SSL", "PLAINTEXT", "", "TLS|PLAINTEXT listener"),
        ("SASL_PLAINTEXT", "PLAINTEXT", "", "a listener with SASL does so to a client without a login"),
        ("PLAINTEXT", "SSL", "", "port of an SSL or SASL_SSL listener"),
        ("PLAINTEXT", "SASL_SSL", "PLAIN", "port of an SSL or SASL_SSL listener"),
        ("SASL_PLAINTEXT", "SASL_SSL", "PLAIN", "port of an SSL or SASL_SSL listener"),
        ("PLAINTEXT", "SASL_PLAINTEXT", "PLAIN", "this listener asks for no login"),
        ("SSL", "SASL_SSL", "PLAIN", "this listener asks for no login"),
        ("SASL_SSL", "SSL", "", "a listener with SASL does so to a client without a login"),
        ("SASL_SSL", "SASL_PLAINTEXT", "PLAIN", "TLS|SASL_PLAINTEXT listener"),
    ],
)
def test_the_port_of_another_listener_is_explained(
    secured: Secured, listener: str, protocol: str, mechanism: str, meaning: str
) -> None:
    place = secured.broker.bootstrap if listener == "PLAINTEXT" else secured.broker.address(listener)
    settings: dict[str, Any] = {"security.protocol": protocol, **(secured.tls() if "SSL" in protocol else {})}
    if mechanism:
        settings |= secured.login(mechanism)
    shown = refusal(Client(place, settings, **SOON), LogstoreError)
    assert re.search(meaning, shown), shown
