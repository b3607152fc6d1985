"""Tokens of OAUTHBEARER: from a function, a file and an endpoint, how long each is used, and what failures say."""

from __future__ import annotations

import base64
import http.server
import json
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from logstore.config.secrets import Secret
from logstore.config.security import Login
from logstore.errors import AuthenticationError, BrokerTimeoutError, BrokerUnreachableError, LogstoreError
from logstore.records import TopicPartition
from logstore.remote.client import Client
from logstore.remote.sasl.tokens import Tokens
from tests.kit.waiting import wait_for
from tests.remote.fake_cluster import FakeCluster
from tests.remote.fake_security import Authority, SaslGuard

TP = TopicPartition("t", 0)
SETTINGS: dict[str, Any] = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "OAUTHBEARER",
    "socket_connection_setup_timeout_ms": 3_000,
}


class Endpoint:
    """A server of tokens. ``answers``: status and body of each answer, of which the last is repeated."""

    def __init__(self, *answers: tuple[int, bytes], headers: tuple[tuple[str, str], ...] = ()) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, dict[str, list[str]], str]] = []  #: path, body, Authorization
        self.silent = threading.Event()
        self.silent.set()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                outer.asked.append((self.path, parse_qs(body), self.headers["Authorization"]))
                outer.silent.wait(60)
                status, answer = outer.answers.pop(0) if len(outer.answers) > 1 else outer.answers[0]
                self.send_response(status)
                for name, value in (*headers, ("Content-Length", str(len(answer)))):
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *args: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/token?tenant=s3cr3t"
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def __enter__(self) -> Endpoint:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.silent.set()
        self.server.shutdown()
        self.server.server_close()
        self._thread.join()


def token_answer(token: str, **more: Any) -> tuple[int, bytes]:
    return 200, json.dumps({"access_token": token, "token_type": "bearer", **more}).encode()


def login(endpoint: str, **more: Any) -> Login:
    return Login(
        "OAUTHBEARER", endpoint=Secret(endpoint), client=Secret("me"), client_secret=Secret("s3cr3t"), **more
    )


def jwt(expires_s: float) -> str:
    parts = ({"alg": "none"}, {"sub": "alice", "exp": expires_s})
    return (
        ".".join(base64.urlsafe_b64encode(json.dumps(each).encode()).decode().rstrip("=") for each in parts) + "."
    )


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


# --- logins --------------------------------------------------------------------------------------


@pytest.fixture
def guard() -> SaslGuard:
    return SaslGuard(tokens=("good-1", "good-2"))


@pytest.fixture
def cluster(guard: SaslGuard) -> Iterator[FakeCluster]:
    with FakeCluster(guard=guard) as made:
        made.topic("t")
        yield made


def test_a_function_gives_the_token_of_each_login(cluster: FakeCluster, guard: SaslGuard) -> None:
    tokens = iter(["good-1", "good-2"])
    jaas = "OAuthBearerLoginModule required extension_logicalCluster=lkc-1;"
    with Client(cluster.bootstrap, oauth_token=lambda: next(tokens), sasl_jaas_config=jaas, **SETTINGS) as client:
        client.metadata()
        cluster.brokers[1].stop()
        cluster.brokers[1].restart()
        client.metadata()
    expected = [f"n,,\x01auth=Bearer {each}\x01logicalCluster=lkc-1\x01\x01" for each in ("good-1", "good-2")]
    assert [said for _, said in guard.logins] == expected


def test_a_file_is_read_again_for_each_login(cluster: FakeCluster, guard: SaslGuard, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("good-1\n")
    with Client(cluster.bootstrap, sasl_oauthbearer_token_endpoint_url=f"file:{file}", **SETTINGS) as client:
        client.metadata()
        file.write_text("good-2\n")
        cluster.brokers[1].stop()
        cluster.brokers[1].restart()
        client.metadata()
        file.unlink()
        cluster.brokers[1].stop()
        cluster.brokers[1].restart()
        with pytest.raises(AuthenticationError, match=r"token\.endpoint\.url: file .*token cannot be read"):
            client.metadata()
    assert ["good-1" in said for _, said in guard.logins] == [True, False]


def test_client_credentials_get_a_token_for_all_connections(cluster: FakeCluster, guard: SaslGuard) -> None:
    with Endpoint(token_answer("good-1", expires_in=3_600)) as endpoint:
        wanted = SETTINGS | {
            "sasl_oauthbearer_token_endpoint_url": endpoint.url,
            "sasl_oauthbearer_client_credentials_client_id": "me",
            "sasl_oauthbearer_client_credentials_client_secret": "s3cr3t",
            "sasl_oauthbearer_scope": "read write",
        }
        with Client(cluster.bootstrap, **wanted) as client:
            client.metadata()
            cluster.brokers[1].stop()
            cluster.brokers[1].restart()
            client.metadata()
        ((path, body, authorization),) = endpoint.asked
    assert path == "/token?tenant=s3cr3t"
    assert body == {"grant_type": ["client_credentials"], "scope": ["read write"]}
    assert base64.b64decode(authorization.removeprefix("Basic ")) == b"me:s3cr3t"
    assert len(guard.logins) == 2


def test_a_token_that_a_broker_refuses_is_not_used_again(cluster: FakeCluster, guard: SaslGuard) -> None:
    with Endpoint(token_answer("revoked-s3cr3t", expires_in=3_600), token_answer("good-1")) as endpoint:
        jaas = "OAuthBearerLoginModule required clientId=me clientSecret=s3cr3t;"
        wanted = SETTINGS | {"sasl_oauthbearer_token_endpoint_url": endpoint.url, "sasl_jaas_config": jaas}
        with Client(cluster.bootstrap, **wanted) as client:
            with pytest.raises(AuthenticationError, match=r"login of OAUTHBEARER at 127\.0\.0\.1") as caught:
                client.metadata()
            assert "s3cr3t" not in str(caught.value)
            assert guard.refused == 1
            client.metadata()


def test_a_token_that_expires_is_replaced_while_a_connection_lives(
    monkeypatch: pytest.MonkeyPatch, cluster: FakeCluster, guard: SaslGuard
) -> None:
    monkeypatch.setattr("logstore.remote.network.connection._LOGIN_PAUSE_S", 0.0)
    guard.lifetime_ms = 500
    tokens = iter([("good-1", 0.0), *[("good-2", 0.0)] * 100])
    with Client(cluster.bootstrap, oauth_token=lambda: next(tokens), **SETTINGS) as client:
        wait_for(lambda: (client.metadata(), len(guard.logins) >= 3)[1], 60, every_s=0.02)
        assert "good-2" in guard.logins[-1][1]
        assert cluster.brokers[1].accepted == 1


# --- how long a token is used ----------------------------------------------------------------------


def test_a_token_is_used_for_four_fifths_of_its_life() -> None:
    clock = Clock()
    with Endpoint(token_answer("a", expires_in=100), token_answer("b", expires_in="100")) as endpoint:
        tokens = Tokens(login(endpoint.url), clock=clock)
        assert tokens.get(5).value.reveal() == "a"
        clock.now += 79
        assert tokens.get(5).value.reveal() == "a"
        clock.now += 2
        assert tokens.get(5).value.reveal() == "b"
        tokens.forget()
        tokens.get(5)
        assert len(endpoint.asked) == 3


def test_a_jwt_tells_its_own_end() -> None:
    clock = Clock()
    given = iter([jwt(clock.now + 100), jwt(clock.now + 1_000), "opaque", "opaque-2"])
    tokens = Tokens(login(""), given=lambda: next(given), clock=clock)
    first = tokens.get(5)
    assert tokens.get(5) == first
    clock.now += 81
    second = tokens.get(5)
    assert second.expires_s == 1_001_000
    clock.now += 900
    assert tokens.get(5).value.reveal() == "opaque", "its life is not known"
    assert tokens.get(5).value.reveal() == "opaque-2"


def test_threads_wait_for_one_request() -> None:
    with Endpoint(token_answer("a", expires_in=100)) as endpoint:
        endpoint.silent.clear()
        tokens = Tokens(login(endpoint.url))
        found: list[str] = []
        threads = [threading.Thread(target=lambda: found.append(tokens.get(60).value.reveal())) for _ in range(4)]
        for each in threads:
            each.start()
        wait_for(lambda: endpoint.asked)
        endpoint.silent.set()
        for each in threads:
            each.join()
        assert (found, len(endpoint.asked)) == (["a"] * 4, 1)


# --- failures --------------------------------------------------------------------------------------


def failure(tokens: Tokens, kind: type[LogstoreError], timeout_s: float = 5) -> str:
    with pytest.raises(kind) as caught:
        tokens.get(timeout_s)
    shown = str(caught.value)
    assert "s3cr3t" not in shown
    assert "\n" not in shown
    return shown


@pytest.mark.parametrize(
    ("answer", "kind", "meaning"),
    [
        (
            (401, b'{"error": "invalid_client", "error_description": "s3cr3t"}'),
            AuthenticationError,
            "(invalid_client)",
        ),
        ((400, b"s3cr3t"), AuthenticationError, "answers 400 Bad Request; check the client's id and secret"),
        ((503, b""), BrokerUnreachableError, "answers 503 Service Unavailable"),
        ((200, b"<html>s3cr3t"), AuthenticationError, "answers without an access_token in JSON"),
        ((200, b'["s3cr3t"]'), AuthenticationError, "answers without an access_token in JSON"),
        ((200, b'{"token": "s3cr3t"}'), AuthenticationError, "answers without an access_token in JSON"),
        ((200, b'{"access_token": "s3cr3t s3cr3t"}'), AuthenticationError, "gives no token"),
        ((200, b'{"access_token": "s3cr3t\\u0001"}'), AuthenticationError, "gives no token"),
        ((200, b'{"access_token": 7}'), AuthenticationError, "gives no token"),
    ],
)
def test_an_endpoint_that_refuses_is_named(
    answer: tuple[int, bytes], kind: type[LogstoreError], meaning: str
) -> None:
    with Endpoint(answer) as endpoint:
        shown = failure(Tokens(login(endpoint.url)), kind)
    assert meaning in shown
    assert endpoint.url.partition("?")[0] in shown


def test_a_redirect_takes_the_secret_nowhere() -> None:
    with Endpoint(token_answer("a")) as other:
        with Endpoint((307, b""), headers=(("Location", other.url),)) as endpoint:
            failure(Tokens(login(endpoint.url)), AuthenticationError)
        assert not other.asked


def test_an_endpoint_that_is_not_there_or_silent_is_named() -> None:
    with Endpoint(token_answer("a")) as endpoint:
        endpoint.silent.clear()
        assert "did not answer in time" in failure(Tokens(login(endpoint.url)), BrokerTimeoutError, 0.2)
    assert "cannot be reached" in failure(Tokens(login(endpoint.url)), BrokerUnreachableError)


def test_the_certificate_of_an_endpoint_is_checked(tmp_path: Path) -> None:
    authority = Authority()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(authority.issue("localhost").write(tmp_path / "own.pem"))
    with Endpoint(token_answer("a")) as endpoint:
        endpoint.server.socket = server.wrap_socket(endpoint.server.socket, server_side=True)
        url = f"https://localhost:{endpoint.server.server_port}/token"

        def trusting(pem: str) -> ssl.SSLContext:
            return ssl.create_default_context(cadata=pem)

        assert Tokens(login(url), context=lambda: trusting(authority.pem)).get(5).value.reveal() == "a"
        stranger = Tokens(login(url), context=lambda: trusting(Authority("other").pem))
        assert "its certificate is not accepted" in failure(stranger, AuthenticationError)


def test_a_function_that_raises_or_gives_something_else_is_told() -> None:
    def broken() -> str:
        raise RuntimeError("s3cr3t")

    assert "the function raised RuntimeError" in failure(Tokens(login(""), given=broken), AuthenticationError)
    for given in ("", "a b", b"a", None, ("a b", 1.0)):
        assert "gives no token" in failure(Tokens(login(""), given=lambda given=given: given), AuthenticationError)


def test_a_child_does_not_wait_for_a_lock_of_its_parent() -> None:
    tokens = Tokens(login(""), given=lambda: "a")
    with tokens._lock:
        assert tokens.again().get(1).value.reveal() == "a"
