"""Settings of a client of brokers, and of a consumer over one, by Kafka's names.

Fields are the keys of Kafka's producer, consumer and admin client that apply here. Kafka's other keys that only
tune are accepted without effect and named in one log line; a client takes those of a consumer's group so. Keys for
unsupported features (transactions, serialisers and interceptors named by class) are refused. Unknown keys are
refused with the nearest known key. Whether settings of security belong together is checked by
`logstore.config.security` when a client is made. No I/O.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

from logstore.config.client import (
    CODE,
    CONSUMER_PROMISES,
    NO_SHARES,
    PRODUCER_PROMISES,
    ClientConfig,
    ConsumerConfig,
    ProducerCompression,
    ProducerConfig,
    check_idempotence,
)
from logstore.config.schema import Refusal, Rule, boolean, number, secret, setting, text, word
from logstore.config.secrets import Secret
from logstore.errors import InvalidSettingError
from logstore.records import INT32_MAX, INT64_MAX, Isolation

#: A host and a port.
Address = tuple[str, int]

DEFAULT_PORT = 9092

_NO_CODE = "no setting names code here; leave it out{}"
_OWN_LOGIN = _NO_CODE.format(": Kafka's login modules in sasl.jaas.config are understood without it")
_TLS = _NO_CODE.format(", and give certificates by ssl.truststore.* and ssl.keystore.*")
_OAUTH = "org.apache.kafka.common.security.oauthbearer."

#: Refused keys of security, most of which name classes. Values of Kafka's own are accepted: they change nothing.
_SECURITY = (
    Refusal("security.providers", _TLS),
    Refusal("ssl.engine.factory.class", _TLS),
    Refusal("ssl.provider", _TLS),
    Refusal("ssl.cipher.suites", "the ciphers are those of OpenSSL; leave it out, or limit ssl.enabled.protocols"),
    Refusal("sasl.login.class", _OWN_LOGIN, ("DefaultLogin", "OAuthBearerRefreshingLogin")),
    Refusal("sasl.login.callback.handler.class", _OWN_LOGIN, ("OAuthBearerLoginCallbackHandler",)),
    Refusal("sasl.client.callback.handler.class", _OWN_LOGIN, ("OAuthBearerSaslClientCallbackHandler",)),
    Refusal(
        "sasl.oauthbearer.jwt.retriever.class",
        _NO_CODE.format(", and give tokens by sasl.oauthbearer.token.endpoint.url or oauth_token="),
        ("ClientCredentialsJwtRetriever", "FileJwtRetriever"),
    ),
    Refusal("sasl.oauthbearer.jwt.validator.class", _OWN_LOGIN, ("ClientJwtValidator",)),
    Refusal(
        "sasl.oauthbearer.assertion.",
        "assertions are not made here; leave it out, and get the tokens by oauth_token=",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WireConfig(ProducerCompression, ClientConfig):
    """Settings of one client. Each field is Kafka's client config of the same name.

    >>> config = WireConfig.of({"bootstrap.servers": "broker-1:9092, broker-2", "fetch.max.wait.ms": "100"})
    >>> config.addresses
    [('broker-1', 9092), ('broker-2', 9092)]

    Raises:
        UnknownSettingError, InvalidSettingError: naming every key that is wrong.
    """

    SCOPES: ClassVar[tuple[str, ...]] = ("consumer", "producer")
    REFUSED: ClassVar[tuple[Refusal, ...]] = (*CODE, *_SECURITY, *PRODUCER_PROMISES, *CONSUMER_PROMISES)

    # -- connections
    bootstrap_servers: str = text("")  #: host:port, comma-separated
    client_id: str = text("logstore")
    request_timeout_ms: int = number(30_000, 1, INT32_MAX)  #: longest wait for an answer
    default_api_timeout_ms: int = number(60_000, 0, INT32_MAX)  #: longest duration of a call, its retries included
    socket_connection_setup_timeout_ms: int = number(10_000, 1, INT64_MAX)
    connections_max_idle_ms: int = number(540_000, -1, INT64_MAX)
    send_buffer_bytes: int = number(-1, -1, INT32_MAX)  #: -1: the system's
    receive_buffer_bytes: int = number(-1, -1, INT32_MAX)  #: -1: the system's
    retry_backoff_ms: int = number(100, 0, INT64_MAX)
    retry_backoff_max_ms: int = number(1_000, 0, INT64_MAX)
    reconnect_backoff_ms: int = number(50, 0, INT64_MAX)
    reconnect_backoff_max_ms: int = number(1_000, 0, INT64_MAX)
    metadata_max_age_ms: int = number(300_000, 0, INT64_MAX)  #: how long known leaders are used without asking

    # -- security; the values of ssl.* and sasl.* may refer to {file:PATH} and {env:NAME}
    security_protocol: str = word("plaintext", "plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
    ssl_truststore_location: str = text("")  #: file of the authorities that are trusted; empty: the system's
    ssl_truststore_type: str = word("jks", "jks", "pkcs12", "pem")  #: no effect: the file tells what it is
    ssl_truststore_certificates: Secret = secret()  #: the same authorities, in PEM
    ssl_truststore_password: Secret = secret()
    ssl_keystore_location: str = text("")  #: file of this client's private key and certificates
    ssl_keystore_type: str = word("jks", "jks", "pkcs12", "pem")  #: no effect: the file tells what it is
    ssl_keystore_key: Secret = secret()  #: the private key, in PEM
    ssl_keystore_certificate_chain: Secret = secret()  #: the certificates of the key, in PEM
    ssl_keystore_password: Secret = secret()
    ssl_key_password: Secret = secret()
    ssl_endpoint_identification_algorithm: str = text("https")  #: empty: the certificate of any host is accepted
    ssl_enabled_protocols: str = word("tlsv1.2,tlsv1.3", "tlsv1.2", "tlsv1.3", several=True)
    sasl_mechanism: str = text("")  #: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER
    sasl_jaas_config: Secret = secret()  #: user and password are read for Kafka's own login modules
    sasl_username: str = text("")  #: without sasl.jaas.config
    sasl_password: Secret = secret()
    sasl_oauthbearer_token_endpoint_url: Secret = secret()  #: https://..., or file:PATH of a file with a token
    sasl_oauthbearer_client_credentials_client_id: str = text("")
    sasl_oauthbearer_client_credentials_client_secret: Secret = secret()
    sasl_oauthbearer_scope: str = text("")
    sasl_oauthbearer_header_urlencode: bool = boolean(False)  #: encode id and secret in the request for a token

    # -- fetching
    fetch_min_bytes: int = number(1, 0, INT32_MAX)  #: the broker waits for so much, or fetch.max.wait.ms
    fetch_max_wait_ms: int = number(500, 0, INT32_MAX)
    fetch_max_bytes: int = number(52_428_800, 0, INT32_MAX)
    max_partition_fetch_bytes: int = number(4_194_304, 1, INT32_MAX)  #: 1 MiB in Kafka
    isolation_level: str = word("read_uncommitted", "read_uncommitted", "read_committed")
    client_rack: str = text("")

    # -- producing
    acks: str = setting(
        "all", Rule(words=("all", "1", "0"), aliases=(("-1", "all"),))
    )  #: without idempotence only: 1 and 0 wait for the leader alone
    enable_idempotence: bool = boolean(True)
    compression_type: str = word("none", "none", "uncompressed", "gzip", "snappy", "lz4", "zstd")
    compression_gzip_level: int = number(-1, -1, 9)
    compression_lz4_level: int = number(9, 1, 17)  #: 9 is Kafka's default and means the fast mode
    compression_zstd_level: int = number(3, -131_072, 22)
    batch_size: int = number(131_072, 1, INT32_MAX)  #: bytes after which a batch is sent; 16 KiB in Kafka
    max_request_size: int = number(1_048_576, 1, INT32_MAX)  #: bytes of all batches of one request
    buffer_memory: int = number(33_554_432, 1, INT64_MAX)  #: bytes that wait to be acknowledged
    max_in_flight_requests_per_connection: int = number(5, 1, INT32_MAX)
    retries: int = number(INT32_MAX, 0, INT32_MAX)
    delivery_timeout_ms: int = number(120_000, 0, INT32_MAX)

    def __post_init__(self) -> None:
        # super() would fail: `dataclass(slots=True)` creates a second class.
        ClientConfig.__post_init__(self)
        if self.enable_idempotence and self.max_in_flight_requests_per_connection > 5:
            raise InvalidSettingError(
                {
                    "max.in.flight.requests.per.connection": "expected at most 5 with enable.idempotence, "
                    f"found {self.max_in_flight_requests_per_connection}"
                }
            )

    def _check_given(self, given: Collection[str]) -> None:
        check_idempotence(self, given)

    @property
    def addresses(self) -> list[Address]:
        """Host and port of each bootstrap server.

        Raises:
            InvalidSettingError: there is none, or one is not host:port.
        """
        found = []
        for part in filter(None, (part.strip() for part in self.bootstrap_servers.split(","))):
            try:
                found.append(_address(part, self.security_protocol))
            except ValueError as error:
                raise InvalidSettingError(
                    {"bootstrap.servers": f"{error}; expected host:port, host:port"}
                ) from None
        if not found:
            raise InvalidSettingError({"bootstrap.servers": "missing; expected host:port, host:port"})
        return found

    @property
    def isolation(self) -> Isolation:
        return Isolation(self.isolation_level)


_KAFKAS_ASSIGNORS = "org.apache.kafka.clients.consumer."


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConsumerConfig(ConsumerConfig):
    """Settings of one consumer of a cluster: of any consumer, of its fetches, and of its membership in a group.

    What belongs to connections is said to the client, and has no effect here. What a consumer does not say of its
    fetches and its isolation is as the client says.

    >>> ClusterConsumerConfig.of({"group.id": "billing", "group.protocol": "CONSUMER"}).group_protocol
    'consumer'
    """

    REFUSED: ClassVar[tuple[Refusal, ...]] = (*CODE, *CONSUMER_PROMISES, *NO_SHARES)

    fetch_min_bytes: int = number(1, 0, INT32_MAX)  #: the broker waits for so much, or fetch.max.wait.ms
    fetch_max_wait_ms: int = number(500, 0, INT32_MAX)
    client_rack: str = text("")  #: records are fetched from a replica of this rack, if there is one
    group_protocol: str = word("classic", "classic", "consumer")  #: consumer: the brokers divide (KIP-848)
    group_instance_id: str = text("")  #: a name makes the member static (KIP-345)
    partition_assignment_strategy: str = setting(
        "range,cooperative-sticky",
        Rule(
            words=("range", "roundrobin", "sticky", "cooperative-sticky"),
            several=True,
            aliases=(
                (_KAFKAS_ASSIGNORS + "RangeAssignor", "range"),
                (_KAFKAS_ASSIGNORS + "RoundRobinAssignor", "roundrobin"),
                (_KAFKAS_ASSIGNORS + "StickyAssignor", "sticky"),
                (_KAFKAS_ASSIGNORS + "CooperativeStickyAssignor", "cooperative-sticky"),
            ),
        ),
    )  #: of the classic protocol, the best first
    group_remote_assignor: str = text("")  #: of the consumer protocol; empty: the brokers choose
    session_timeout_ms: int = number(45_000, 1, INT32_MAX)  #: of the classic protocol
    heartbeat_interval_ms: int = number(3_000, 1, INT32_MAX)  #: of the classic protocol
    max_poll_interval_ms: int = number(300_000, 1, INT32_MAX)  #: a member that polls more seldom leaves its group
    exclude_internal_topics: bool = boolean(True)  #: a pattern never matches topics of the brokers

    def __post_init__(self) -> None:
        ConsumerConfig.__post_init__(self)
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise InvalidSettingError(
                {
                    "heartbeat.interval.ms": f"expected less than session.timeout.ms={self.session_timeout_ms}, "
                    f"found {self.heartbeat_interval_ms}"
                }
            )

    @property
    def assignors(self) -> tuple[str, ...]:
        """The assignors of the classic protocol, the best first."""
        return tuple(self.partition_assignment_strategy.split(","))


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteProducerConfig(ProducerConfig):
    """Settings of one producer over the connections of a client, which has its own settings.

    >>> RemoteProducerConfig.of({"linger.ms": 20}).max_in_flight_requests_per_connection
    5
    """

    REFUSED: ClassVar[tuple[Refusal, ...]] = (*CODE, *PRODUCER_PROMISES)

    max_in_flight_requests_per_connection: int = number(5, 1, INT32_MAX)

    def _check_given(self, given: Collection[str]) -> None:
        # super() would fail: `dataclass(slots=True)` creates a second class.
        ProducerConfig._check_given(self, given)
        problems = {}
        if self.is_idempotent and self.max_in_flight_requests_per_connection > 5:
            problems["max.in.flight.requests.per.connection"] = (
                f"expected at most 5 with enable.idempotence, found {self.max_in_flight_requests_per_connection}"
            )
        if self.ack != "topic":
            problems["logstore.ack"] = (
                "brokers say which replicas have a batch, and not whether a disk has it; leave it out, and set acks"
            )
        if problems:
            raise InvalidSettingError(problems)


def _address(part: str, protocol: str) -> Address:
    """Parse ``host``, ``host:port`` or ``[::1]:port``, with or without the protocol, such as ``SSL://``."""
    scheme, slashes, rest = part.partition("://")
    if slashes and scheme.lower() != protocol:
        raise ValueError(f"{part!r} is not for security.protocol={protocol.upper()}")
    place = rest if slashes else part
    if place.startswith("["):
        host, bracket, port = place[1:].partition("]")
        if not bracket or (port and not port.startswith(":")):
            raise ValueError(f"{part!r} has no closing bracket before its port")
        port = port[1:]
    elif place.count(":") > 1:
        raise ValueError(f"{part!r} has more than one colon; an IPv6 address stands in brackets")
    else:
        host, _, port = place.partition(":")
    if not host or (port and not port.isdecimal()) or int(port or DEFAULT_PORT) not in range(1, 65_536):
        raise ValueError(f"{part!r} is no host with a port from 1 to 65535")
    return host, int(port or DEFAULT_PORT)
