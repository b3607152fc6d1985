"""The topics of a Kafka cluster, as `logstore.connect` returns them, for programs that have outgrown a store.

Each call is Kafka's own request. The classes that users hold are those of `logstore.client`, over the back end of a
cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Unpack, cast

from logstore.client.backend.facts import PartitionDescription, TopicDescription
from logstore.client.store import AnyStore
from logstore.clock import SYSTEM_CLOCK
from logstore.config.log import Setting, canonical, canonical_keys
from logstore.config.schema import naming_arguments
from logstore.errors import BrokerError, TopicExistsError
from logstore.records import Isolation, NewTopic, TopicPartition
from logstore.remote.backend.backend import RemoteBackend
from logstore.remote.client import Client
from logstore.remote.topics.appends import Appends
from logstore.remote.topics.topic import RemoteTopic

if TYPE_CHECKING:
    from logstore.client.consumer import Consumer
    from logstore.client.partitioners import Choice, Partitioner
    from logstore.client.producer import Producer
    from logstore.config.client import ConsumerConfig, ProducerConfig
    from logstore.config.generated.keywords import (
        ClientSettings,
        ConsumerSettings,
        LogSettings,
        ProducerSettings,
        TopicChanges,
    )
    from logstore.remote.sasl.tokens import OAuthToken


class RemoteStore(AnyStore):
    """The topics of one cluster; see `connect`.

    Owns: its connections. Close it, or use it in a ``with`` block.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._backend: RemoteBackend = RemoteBackend(client, clock=SYSTEM_CLOCK)
        self._appends = Appends(self._backend)
        self._settings = self._backend.settings

    # -- topics

    def topic(self, name: str) -> RemoteTopic:
        """Return a topic by its name, asked for now.

        Raises:
            UnknownTopicError: there is none.
        """
        found = self._client.topic(name)
        return self._topic(name, found.id)

    def _topic(self, name: str, topic_id: str) -> RemoteTopic:
        return RemoteTopic(self._client, self._backend, self._appends, self._settings, name, topic_id, self)

    def __getitem__(self, name: str) -> RemoteTopic:
        return self.topic(name)

    @naming_arguments
    def create_topic(
        self,
        name: str,
        partitions: int | None = None,
        settings: Mapping[str, Setting] | None = None,
        *,
        replication_factor: int | None = None,
        if_not_exists: bool = False,
        **more_settings: Unpack[LogSettings],
    ) -> RemoteTopic:
        """Create a topic, and wait until this client can use it.

        ``partitions`` and ``replication_factor`` are by default those of the brokers. ``settings`` are Kafka's
        topic settings by their dotted keys, ``more_settings`` the same with underscores; the brokers' defaults hold
        for all others. With ``if_not_exists`` a topic that exists is returned as it is.

        Raises:
            TopicExistsError: there is one of that name.
            InvalidTopicError, InvalidPartitionsError, PolicyViolationError, BrokerError: it was refused.
            ConfigError: settings are unknown or out of range, here or at the broker.
        """
        own = {**(settings or {}), **cast("Mapping[str, Setting]", more_settings)}
        wanted = NewTopic(
            name,
            -1 if partitions is None else partitions,
            -1 if replication_factor is None else replication_factor,
            own,
        )
        return self.create_topics([wanted], if_not_exists=if_not_exists)[0]

    def create_topics(self, topics: Iterable[NewTopic | str], *, if_not_exists: bool = False) -> list[RemoteTopic]:
        """Create topics in one request, and wait until this client can use them.

        Each is created or refused by itself. The result is in the order of ``topics``.

        Raises:
            as `create_topic`, of the first topic that was refused. The others were created.
        """
        wanted = [
            each._replace(settings=canonical(each.settings)) if isinstance(each, NewTopic) else NewTopic(each)
            for each in ((topics,) if isinstance(topics, (str, NewTopic)) else topics)
        ]
        there = set(self._backend.topics(internal=True)) if if_not_exists else set()
        ids: dict[str, str] = {}
        while missing := [each for each in wanted if each.name not in there]:
            try:
                ids = self._client.create_topics(missing)
                break
            except TopicExistsError:
                # Another client was quicker with one of them. The others are made, or are refused again.
                before = there
                there = set(self._backend.topics(internal=True))
                if not if_not_exists or there <= before:
                    raise
        return [self._topic(each.name, ids.get(each.name) or self._client.topic(each.name).id) for each in wanted]

    def describe_topic(self, name: str) -> TopicDescription:
        """Describe a topic: its partitions with their offsets and sizes, and its settings.

        What brokers do not tell, or not to this client, is -1.

        Raises:
            UnknownTopicError: there is none.
            BrokerError: TOPIC_AUTHORIZATION_FAILED: the brokers' ACLs do not permit it.
        """
        found = self._client.topic(name)
        places = [TopicPartition(name, number) for number in sorted(found.partitions)]
        starts = self._backend.start_offsets(places)
        ends = self._backend.end_offsets(places, Isolation.READ_UNCOMMITTED)
        try:
            sizes = self._client.log_dir_sizes([name])
        except BrokerError:
            sizes = {}  # a right of the cluster's administrators
        partitions = (
            PartitionDescription(each.partition, starts[each], ends[each], -1, sizes.get(each, -1), -1)
            for each in places
        )
        return TopicDescription(
            name,
            found.id,
            tuple(partitions),
            self._client.own_settings(name),
            self._settings.all_of(name),
            found.is_internal,
            -1,
        )

    @naming_arguments
    def alter_topic(
        self,
        name: str,
        settings: Mapping[str, Setting] | None = None,
        *,
        drop_keyless: bool = False,
        **more_settings: Unpack[TopicChanges],
    ) -> Mapping[str, str]:
        """Change settings of a topic, all or none; None removes the topic's own value. Returns its own settings.

        Brokers do not look for records without a key before they compact a topic, whatever ``drop_keyless`` is.

        Raises:
            UnknownTopicError: there is none.
            ConfigError: a setting is unknown or out of range, here or at the broker. Nothing was changed.
            PolicyViolationError, BrokerError: it was refused.
        """
        changes = {**(settings or {}), **cast("Mapping[str, Setting]", more_settings)}
        told: dict[str, str | None] = dict.fromkeys(canonical_keys(k for k, v in changes.items() if v is None))
        told |= canonical({key: value for key, value in changes.items() if value is not None})
        if told:
            self._client.alter_configs(name, told)
            self._settings.forget(name)
        return self._client.own_settings(name)

    def add_partitions(self, name: str, total: int) -> RemoteTopic:
        """Give a topic more partitions, up to ``total``, and wait until this client can use them.

        Raises:
            UnknownTopicError: there is none.
            InvalidPartitionsError: the topic has as many already, or the brokers allow fewer.
        """
        self._client.create_partitions(name, total)
        return self.topic(name)

    def delete_topics(self, names: Iterable[str]) -> None:
        """Delete topics with all their records, each by itself; their consumers get an error.

        Raises:
            UnknownTopicError: there is no topic of one of the names. The others were deleted.
            BrokerError: one was refused. The others were deleted.
        """
        self._client.delete_topics([names] if isinstance(names, str) else names)

    # -- producers and consumers

    @naming_arguments
    def producer(
        self,
        settings: ProducerConfig | Mapping[str, Setting] | None = None,
        /,
        *,
        partitioner: str | Partitioner | Choice | None = None,
        **more_settings: Unpack[ProducerSettings],
    ) -> Producer:
        """Open a producer for records that come one by one; see `Producer`. It is closed with this object.

        ``settings`` are Kafka's producer settings by their dotted keys, ``more_settings`` the same with
        underscores; ``partitioner`` is a word, a `Partitioner` or a function.

        Raises:
            ConfigError: settings are unknown or out of range; every one is named.
        """
        from logstore.client.producer import Producer  # here: readers seldom need it and its settings

        return Producer(self._backend, settings, partitioner=partitioner, **more_settings)

    @naming_arguments
    def consumer(
        self,
        settings: ConsumerConfig | Mapping[str, Setting] | None = None,
        /,
        *,
        group: str | None = None,
        **more_settings: Unpack[ConsumerSettings],
    ) -> Consumer:
        """Open a consumer: `assign` it partitions, then iterate it or `poll`. The brokers keep a group's offsets.

        ``settings`` are Kafka's consumer settings by their dotted keys, ``more_settings`` the same with
        underscores.

        Raises:
            InvalidGroupError: the name cannot be used.
            ConfigError: settings are unknown or out of range; every one is named.
        """
        from logstore.client.consumer import open_consumer

        self._backend.topics_known()  # raises if this is closed
        return open_consumer(self._backend, group, settings, cast("Mapping[str, Setting]", more_settings))

    # -- lifetime

    def close(self) -> None:
        """Close the producers and consumers, and the connections. May be called again."""
        try:
            self._backend.close()
        finally:
            self._appends.close()

    @property
    def _is_closed(self) -> bool:
        return self._client.cluster.closed

    def __repr__(self) -> str:
        state = "closed" if self._client.cluster.closed else "open"
        return f"<RemoteStore {state} {self._backend.location!r}>"


@naming_arguments
def connect(
    bootstrap: str = "",
    settings: Mapping[str, Setting] | None = None,
    /,
    *,
    oauth_token: Callable[[], OAuthToken] | None = None,
    **more_settings: Unpack[ClientSettings],
) -> RemoteStore:
    """Connect to a Kafka cluster: topics, producers and consumers as of `logstore.open`, at its brokers.

    ``bootstrap`` is ``host:port``, comma-separated for several. ``settings`` are Kafka's client keys, dotted or
    with underscores as keywords; those of security (``security.protocol``, ``ssl.*``, ``sasl.*``) among them. For
    the mechanism OAUTHBEARER, ``oauth_token`` is a function that returns a token. A broker is asked before this
    returns, so that a wrong address or password is found here.

    >>> with logstore.connect("kafka-1:9092,kafka-2:9092") as cluster:       # doctest: +SKIP
    ...     cluster["flights"].append(b"AA 1141", key=b"AA").offset
    0

    Raises:
        UnknownSettingError, InvalidSettingError: settings are unknown or out of range; those of security are
            missing or contradict; or no bootstrap server is given.
        BrokerUnreachableError: no broker has answered within ``socket.connection.setup.timeout.ms``.
        AuthenticationError: the brokers have refused the login.
        MissingLibraryError: the settings of security need the extra ``[security]``.
    """
    client = Client(bootstrap, settings, oauth_token=oauth_token, **more_settings)
    try:
        client.metadata([])
    except BaseException:
        client.close()
        raise
    return RemoteStore(client)
