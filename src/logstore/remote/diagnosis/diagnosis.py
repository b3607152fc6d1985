"""Diagnosis of a cluster: why a client with these settings cannot use it, or will not be able to.

`diagnose` asks in the order in which a client meets its obstacles: the bootstrap servers, the addresses that
brokers advertise, the versions of messages, the partitions of all topics that it may see, and its rights on those
that the caller names. Nothing is changed. The work is done in a thread of its own, so that the caller never waits
beyond the time-out, not even for a resolver of names.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from logstore.client.backend.findings import Finding, Level
from logstore.config.remote import Address
from logstore.config.schema import Setting
from logstore.errors import BrokerError, LogstoreError, UnsupportedVersionError
from logstore.protocol import codes
from logstore.protocol.generated import messages as m
from logstore.remote.answers import the_one
from logstore.remote.client import Client
from logstore.remote.diagnosis.contact import Contact, explained, shown
from logstore.remote.diagnosis.partitions import least_in_sync, unhealthy
from logstore.remote.diagnosis.rights import Purpose, Resource, lacking, missing, principal_of
from logstore.remote.network.link import BrokerLink

#: What a producer and a consumer cannot do without.
_REQUESTS = (
    m.MetadataRequest,
    m.ListOffsetsRequest,
    m.FetchRequest,
    m.ProduceRequest,
    m.InitProducerIdRequest,
    m.FindCoordinatorRequest,
    m.OffsetFetchRequest,
    m.OffsetCommitRequest,
)

#: The first version of Metadata that creates no topic and tells operations, and the last of DescribeGroups that
#: tells operations on groups without members.
_METADATA_WITH_OPERATIONS, _GROUPS_BEFORE_ERRORS = 8, 5


class IntendedUse(NamedTuple):
    """What the client is to be used for; its rights are looked up for that."""

    topics: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    purposes: tuple[Purpose, ...] = ()  #: empty: to produce and to consume


#: Whatever the client is for: no rights are looked up.
_ANYTHING = IntendedUse()


def diagnose(
    bootstrap: str, settings: Mapping[str, Setting], wanted: IntendedUse = _ANYTHING, *, timeout_s: float = 30.0
) -> Iterator[Finding]:
    """Find what keeps a client from using a cluster, in the order of looking; ends within ``timeout_s``.

    ``settings`` are those of `logstore.connect`. No finding shows a secret.

    Raises:
        ConfigError: settings are unknown or out of range, or those of security are missing or contradict.
        MissingLibraryError: the settings of security need the extra ``[security]``.
    """
    contact = Contact(bootstrap, settings, timeout_s)
    found: queue.SimpleQueue[Finding | BaseException | None] = queue.SimpleQueue()
    look = _Look(contact, wanted)

    def work() -> None:
        try:
            for each in look.findings():
                found.put(each)
            found.put(None)
        except BaseException as error:  # noqa: BLE001 - the caller raises it
            found.put(error)

    threading.Thread(target=work, name="logstore-doctor", daemon=True).start()
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            each = found.get(timeout=max(deadline - time.monotonic(), 0.0))
        except queue.Empty:
            yield Finding(
                Level.PROBLEM,
                "timed-out",
                look.place,
                f"the diagnosis was not done after {timeout_s:g} s, and waited for {look.step}",
                "look for a firewall on the way and for the load of the brokers, or give more time",
            )
            return
        if each is None:
            return
        if isinstance(each, BaseException):
            raise each
        yield each


class _Look:
    """One look at a cluster. Used by one thread; ``step`` and ``place`` are read by another."""

    def __init__(self, contact: Contact, wanted: IntendedUse) -> None:
        self._contact = contact
        self._wanted = wanted
        self.place = contact.config.bootstrap_servers
        self.step = "the first answer"

    def findings(self) -> Iterator[Finding]:
        home, answer = None, None
        addresses = self._contact.config.addresses
        for number, address in enumerate(addresses):
            self.place, self.step = shown(address), "the answer of a bootstrap server"
            client = self._contact.client(address, parts=len(addresses) - number + 1)
            try:
                metadata = self._metadata(client)
            except LogstoreError as error:
                client.close()
                finding = explained(error, address, self._contact)
                yield finding
                if finding.name == "login":
                    return  # brokers lock users after many failures
                continue
            if home is None:
                home, answer = client, metadata
            else:
                client.close()
        if home is not None:
            with home:
                yield from self._of_cluster(home, answer)

    def _metadata(self, client: Client, topics: Iterable[str] | None = None) -> Any:
        Topic = m.MetadataRequest.MetadataRequestTopic
        with client.cluster.any_connection() as connection:
            version = connection.version_of(m.MetadataRequest)
            named = None if topics is None and version else [Topic(name=each) for each in topics or ()]
            request = m.MetadataRequest(
                topics=named,
                allow_auto_topic_creation=version < 4,
                include_topic_authorized_operations=version >= _METADATA_WITH_OPERATIONS,
            )
            return connection.ask(request, version=version)

    def _of_cluster(self, home: Client, answer: Any) -> Iterator[Finding]:
        self.place = home.config.bootstrap_servers
        count = len(answer.brokers)
        yield Finding(
            Level.INFO,
            "cluster",
            self.place,
            f"cluster {answer.cluster_id or 'without an id'} of {count} broker{'s' * (count != 1)}, with "
            f"{len(answer.topics)} topics that this client sees",
        )
        yield from self._of_brokers(home, answer.brokers)
        self.step = "the settings of topics"
        names = [each.name for each in answer.topics if not each.error_code]
        try:
            least = least_in_sync(lambda request: _asked(home, request), names) if names else {}
        except LogstoreError:
            least = {}  # what the metadata tells does not need them
        yield from unhealthy(answer.topics, least)
        yield from self._of_rights(home, answer.topics)

    # -- brokers

    def _of_brokers(self, home: Client, brokers: Iterable[Any]) -> Iterator[Finding]:
        """Open a connection to every broker at the address that it advertises, all at once."""
        self.step = "the brokers at their advertised addresses"
        outcomes: list[Finding | None] = []
        threads = []
        at_home = home.config.addresses[0]
        for number, each in enumerate(sorted(brokers, key=lambda broker: int(broker.node_id))):
            outcomes.append(None)
            address = each.host, each.port
            client = home if address == at_home else self._contact.client(address, parts=2)

            def look(
                number: int = number, node: int = each.node_id, address: Address = address, client: Client = client
            ) -> None:
                outcomes[number] = self._of_broker(node, address, client)
                if client is not home:
                    client.close()

            threads.append(threading.Thread(target=look, name="logstore-doctor-broker", daemon=True))
            threads[-1].start()
        for thread, number in zip(threads, range(len(threads)), strict=True):
            thread.join()
            found = outcomes[number]
            if found is not None:
                yield found

    def _of_broker(self, node: int, address: Address, client: Client) -> Finding | None:
        where = f"broker {node} ({shown(address)})"
        try:
            with client.cluster.any_connection() as connection:
                too_old = _unknown_requests(connection)
        except LogstoreError as error:
            found = explained(error, address, self._contact)
            if found.name in ("certificate", "login", "mechanism"):
                return found._replace(where=where)
            return Finding(
                Level.PROBLEM,
                "advertised-address",
                where,
                f"the broker advertises {shown(address)}, which clients connect to after the bootstrap server "
                f"{self.place}, and this fails from here: {found.what}",
                "correct advertised.listeners of the broker to a name and port that its clients reach, or let this "
                "machine resolve and reach it",
            )
        if not too_old:
            return None
        return Finding(
            Level.PROBLEM,
            "old-broker",
            where,
            f"the broker and this client have no version in common of {', '.join(too_old)}",
            "upgrade the broker to Kafka 0.11 or later; or logstore, if the broker is newer",
        )

    # -- rights

    def _of_rights(self, home: Client, topics: Iterable[Any]) -> Iterator[Finding]:
        wanted = self._wanted
        purposes = wanted.purposes or (Purpose.PRODUCE, Purpose.CONSUME)
        principal = principal_of(home.config)
        config = self._contact.config
        self.step = "the rights on topics"
        seen = {each.name: each for each in topics}
        hidden = [name for name in wanted.topics if name not in seen]
        if hidden:
            seen |= {each.name: each for each in self._metadata(home, hidden).topics}
        for name in wanted.topics:
            resource, topic = Resource("topic", name), seen[name]
            if topic.error_code == codes.UNKNOWN_TOPIC_OR_PARTITION:
                yield Finding(
                    Level.PROBLEM,
                    "no-topic",
                    str(resource),
                    "the cluster has no topic of this name",
                    "check the name, or create it with create_topic()",
                )
                continue
            permitted = 0 if topic.error_code else topic.topic_authorized_operations
            yield from lacking(resource, missing(resource.needed(purposes), permitted), config, principal)
        for name in wanted.groups:
            self.step = f"the rights on group {name!r}"
            resource = Resource("group", name)
            needed = resource.needed([*purposes, Purpose.CONSUME])
            yield from self._told(resource, partial(self._on_group, home, name), needed, principal)
        cluster = Resource("cluster")
        if cluster.needed(purposes):
            self.step = "the rights on the cluster"
            request = m.DescribeClusterRequest(include_cluster_authorized_operations=True)
            yield from self._told(
                cluster,
                lambda: int(_asked(home, request).cluster_authorized_operations),
                cluster.needed(purposes),
                principal,
            )

    def _told(
        self, resource: Resource, ask: Callable[[], int], needed: Iterable[Any], principal: str
    ) -> Iterator[Finding]:
        try:
            permitted = ask()
        except LogstoreError as error:
            yield Finding(
                Level.WARNING, "rights-unknown", str(resource), f"the brokers do not tell the rights: {error}"
            )
            return
        yield from lacking(resource, missing(needed, permitted), self._contact.config, principal)

    def _on_group(self, home: Client, group: str) -> int:
        """Return the operations on a group that its coordinator permits, as bits."""

        def coordinator(connection: BrokerLink) -> Any:
            version = connection.version_of(m.FindCoordinatorRequest, 3)
            found = connection.ask(m.FindCoordinatorRequest(key=group), version=version)
            if found.error_code:
                raise codes.error_of(found.error_code, f"coordinator of group {group!r}")
            return found

        try:
            # A cluster's first group waits for its topic of offsets.
            found = home.cluster.at_any("find coordinator", coordinator, int(self._contact.left_s() * 500))
        except BrokerError as error:
            if error.name == "GROUP_AUTHORIZATION_FAILED":
                return 0
            raise
        with self._contact.client((found.host, found.port)) as client:
            answer = _asked(
                client,
                m.DescribeGroupsRequest(groups=[group], include_authorized_operations=True),
                _GROUPS_BEFORE_ERRORS,
            )
        told = the_one(answer.groups, f"rights of group {group!r}")
        if codes.name_of(told.error_code) == "GROUP_AUTHORIZATION_FAILED":
            return 0
        if told.error_code:
            raise codes.error_of(told.error_code, f"description of group {group!r}")
        return int(told.authorized_operations)


def _asked(client: Client, request: Any, most: int | None = None) -> Any:
    """Ask the broker of a client once."""
    with client.cluster.any_connection() as connection:
        return connection.ask(request, version=connection.version_of(request, most))


def _unknown_requests(connection: BrokerLink) -> list[str]:
    """Return the requests that a client needs, and of which a broker knows no version of ours."""
    found = []
    for each in _REQUESTS:
        try:
            connection.version_of(each)
        except UnsupportedVersionError:
            found.append(each.__name__.removesuffix("Request"))
    return found
