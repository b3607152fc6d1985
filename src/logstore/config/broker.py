"""Settings of a broker: where it listens, what it tells its clients, and what they may take of it.

Each field is Kafka's broker config of the same name, with Kafka's default unless a comment says otherwise; keys
of this package begin with ``logstore.``. Values come from the same sources as those of the store that is served. No
I/O.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from logstore.config import kafka_keys
from logstore.config.schema import (
    Collector,
    OneLevelConfig,
    Setting,
    duration,
    nearest,
    number,
    size,
    text,
)
from logstore.errors import InvalidSettingError
from logstore.records import INT32_MAX, INT64_MAX

#: The name of a listener that is given as HOST:PORT.
PLAINTEXT = "PLAINTEXT"
#: Defaults of Kafka's for settings of a store, which it has while it is served.
SERVED_DEFAULTS: Mapping[str, bool | int] = MappingProxyType(
    {"auto.create.topics.enable": True, "offsets.topic.num.partitions": 50}
)

_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class ListenAddress(NamedTuple):
    """One address to listen on, or to tell clients."""

    name: str
    host: str  #: "" for every address of this machine
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig(OneLevelConfig):
    """Settings of one broker.

    >>> config = BrokerConfig.of(listeners="127.0.0.1:9092,INSIDE://[::1]:0", max_connections=100)
    >>> [str(each) for each in config.addresses()]
    ['127.0.0.1:9092', '[::1]:0']
    """

    # -- addresses
    listeners: str = text("PLAINTEXT://127.0.0.1:9092")  #: Kafka's default is every address
    advertised_listeners: str = text("")  #: "": each client is told the address that it has connected to
    listener_security_protocol_map: str = text("")

    metrics_listener: str = text("", key="logstore.metrics.listener")  #: "": there is no page of metrics

    # -- limits
    socket_request_max_bytes: int = size(104_857_600, 1, INT32_MAX)
    queued_max_request_bytes: int = size(
        268_435_456, 1, INT64_MAX
    )  #: of requests that are not whole, and as many of those in progress; Kafka has none
    max_connections: int = number(10_000, 0, INT32_MAX)  #: Kafka's default is 2147483647
    max_connections_per_ip: int = number(INT32_MAX, 0, INT32_MAX)
    connections_max_idle_ms: int = duration(600_000, -1, INT64_MAX)  #: -1: no end
    fetch_max_bytes: int = size(57_671_680, 1_024, INT32_MAX)
    max_incremental_fetch_session_cache_slots: int = number(1_000, 0, INT32_MAX)

    def __post_init__(self) -> None:
        OneLevelConfig.__post_init__(self)
        self.addresses()
        self.advertised()
        self.metrics_address()

    def metrics_address(self) -> ListenAddress | None:
        """Return where the page of metrics is served: ``HOST:PORT``, port 0 for a free one; None: nowhere."""
        found = self._parsed("logstore.metrics.listener", self.metrics_listener)
        if len(found) > 1 or "://" in self.metrics_listener:
            raise InvalidSettingError(
                {"logstore.metrics.listener": f"expected one HOST:PORT, found {self.metrics_listener!r}"}
            )
        return found[0] if found else None

    def addresses(self) -> list[ListenAddress]:
        """Return the listeners: ``NAME://HOST:PORT`` or ``HOST:PORT`` with commas, port 0 for a free one."""
        found = self._parsed("listeners", self.listeners)
        if not found:
            raise InvalidSettingError({"listeners": "expected NAME://HOST:PORT, found nothing"})
        return found

    def advertised(self) -> dict[str, ListenAddress]:
        """Return what the clients of a listener are told, by its name; of others, the address connected to."""
        if not self.advertised_listeners:
            return {}
        names = {each.name for each in self.addresses()}
        found = {each.name: each for each in self._parsed("advertised.listeners", self.advertised_listeners)}
        for each in found.values():
            if each.name not in names:
                problem = f"{each.name} is not in listeners, which has {', '.join(sorted(names))}"
                raise InvalidSettingError({"advertised.listeners": problem})
            if not each.host or each.host in ("0.0.0.0", "::") or not each.port:
                problem = f"a client cannot connect to {each}; name a host and a port"
                raise InvalidSettingError({"advertised.listeners": problem})
        return found

    def _parsed(self, key: str, value: str) -> list[ListenAddress]:
        found: list[ListenAddress] = []
        for part in filter(None, (each.strip() for each in value.split(","))):
            name, mark, address = part.rpartition("://")
            host, colon, port = address.rpartition(":")
            host = host.removeprefix("[").removesuffix("]")
            if not colon or not port.isdecimal() or int(port) > 65_535:
                raise InvalidSettingError({key: f"expected NAME://HOST:PORT, found {part!r}"})
            name = name.upper() if mark else PLAINTEXT
            self._check_protocol(key, name)
            found.append(ListenAddress(name, host, int(port)))
        doubled = {each.name for each in found if [other.name for other in found].count(each.name) > 1}
        if doubled and key == "advertised.listeners":
            raise InvalidSettingError({key: f"names {', '.join(sorted(doubled))} more than once"})
        return found

    def _check_protocol(self, key: str, name: str) -> None:
        pairs = (each.strip().upper().rpartition(":") for each in self.listener_security_protocol_map.split(","))
        protocols = {given: protocol for given, _, protocol in pairs}
        protocol = protocols.get(name, name if name in _PROTOCOLS else PLAINTEXT)
        if protocol != PLAINTEXT:
            raise InvalidSettingError(
                {key: f"{name} asks for {protocol}, and neither TLS nor logins are served yet; use PLAINTEXT"}
            )

    @classmethod
    def _take_other(cls, key: str, value: Setting, found: Collector) -> None:
        dotted = key if "." in key else key.replace("_", ".")
        if kafka_keys.is_kafkas(dotted, "broker", "topic"):
            found.ignored.add(key)
        else:
            names = cls._names()
            found.unknown[key] = nearest(key, names, names)

    @classmethod
    def among(cls, *layers: Mapping[str, Setting]) -> BrokerConfig:
        """Make settings from those in layers that are a broker's; later layers override earlier ones.

        The others are left to the store's settings, which refuse unknown ones.

        Raises:
            InvalidSettingError: a value is outside its range; all such keys are named.
        """
        names = cls._names()
        found: dict[str, Setting] = {}
        for layer in layers:
            found |= {names[key].field: value for key, value in layer.items() if key in names}
        return cls.of(**found)


#: Every key of a broker: the store's settings accept them, and have nothing to do with them.
KEYS = frozenset(BrokerConfig._names())
