"""When metadata is asked for again, and for which topics.

A `MetadataRefresher` has at most one request out. It asks for a topic that is new to it; for all of its topics once
they are older than ``metadata.max.age.ms`` or an error shows that they are out of date; and for a topic that no
broker knows. After an answer that must be repeated, or none, it pauses; the pauses grow up to
``retry.backoff.max.ms``. Those of a topic that is missing hold for it alone: news of the others do not wait. It is
dropped once no service asks for it any more. A request names topics or topic ids, never both: a broker that finds
an id in a request overlooks the names.

No socket and no thread. Its methods are called by one thread. `known` is one reference: any thread may read it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping
from typing import Any

from logstore.clock import Clock, retry_pause_ms
from logstore.config.remote import WireConfig
from logstore.protocol import codes
from logstore.protocol.generated.messages import MetadataRequest
from logstore.remote.metadata.known import KnownBroker, KnownCluster, NewLeader, TopicFault

#: A topic counts as missing after so many answers: a new topic may not have reached the asked broker yet.
MISSING_ANSWERS = 3

#: The first version whose requests may name topics by their ids.
BY_ID_VERSION = 12

#: A missing topic is needed for so many of the longest pauses after a service has asked for it the last time.
NEEDED_PAUSES = 10

_UNKNOWN = (codes.UNKNOWN_TOPIC_OR_PARTITION, codes.UNKNOWN_TOPIC_ID)


class MetadataRefresher:
    """Metadata of the topics that a client uses.

    >>> from logstore.clock import SYSTEM_CLOCK
    >>> refresher = MetadataRefresher(WireConfig(), SYSTEM_CLOCK)
    >>> refresher.want(["orders"])
    >>> [topic.name for topic in refresher.next_request(13).topics]
    ['orders']
    """

    def __init__(self, config: WireConfig, clock: Clock, rng: random.Random | None = None) -> None:
        self.known = KnownCluster()  #: replaced as a whole
        self._config = config
        self._clock = clock
        self._rng = rng or random.Random()
        self._wants_all = False
        self._wanted: set[str] = set()
        self._fresh: set[str] = set()  #: topics to ask for at once
        self._ids: set[str] = set()  #: topic ids to ask for at once
        self._told: dict[str, float] = {}  #: topic that a call has asked for -> until when it is kept
        self._unknown: dict[str, int] = {}  #: topic or topic id -> answers in a row that did not know it
        self._needed_s: dict[str, float] = {}  #: topic -> when a service has needed it, and it was not known
        self._refused: dict[str, int] = {}  #: topic or topic id -> code of the last answer, not retriable
        self._is_out_of_date = True
        self._learnt_at = -math.inf
        self._not_before = -math.inf
        self._missing_not_before = -math.inf  #: for topics that are missing, and for nothing else
        self._failures = 0
        self._out: MetadataRequest | None = None
        self._asks_for_all = False
        self._is_whole = False  #: whether the request out makes all that is wanted fresh
        self._asks_for: frozenset[str] = frozenset()

    # -- what is wanted ----------------------------------------------------------------------------

    def want(self, names: Iterable[str]) -> None:
        """Ask for topics, now if they are not known, and keep them up to date until `drop`."""
        for name in names:
            if name not in self._wanted:
                self._wanted.add(name)
                if not self._wants_all and name not in self.known.topics:
                    self._fresh.add(name)

    def is_wanted(self, name: str) -> bool:
        """Return whether a topic is kept up to date."""
        return name in self._wanted

    def want_all(self, wanted: bool = True) -> None:
        """Ask for every topic of the cluster, as a subscription by pattern needs it; or no longer."""
        if wanted and not self._wants_all:
            self._is_out_of_date = True
        self._wants_all = wanted

    def want_ids(self, topic_ids: Iterable[str]) -> None:
        """Ask for topics of which only the ids are known. Their names are wanted from then on."""
        for each in topic_ids:
            if each not in self.known.names:
                self._ids.add(each)
                self._unknown.pop(each, None)

    def drop(self, names: Iterable[str]) -> None:
        """Stop asking for topics, and forget what is known of them."""
        gone = set(names)
        self._wanted -= gone
        self._fresh -= gone
        for name in gone:
            self._told.pop(name, None)
            self._unknown.pop(name, None)
            self._refused.pop(name, None)
            self._needed_s.pop(name, None)
        if not self._wants_all:
            self.known = self.known.without(gone)

    def mark_out_of_date(self) -> None:
        """Ask again soon: an answer has shown that a leader, a topic or a broker has changed."""
        self._is_out_of_date = True

    # -- what is known -----------------------------------------------------------------------------

    def is_missing(self, topic: str) -> bool:
        """Return whether several answers in a row did not know a topic, by its name or by its id.

        A service calls this as long as it needs the topic: a missing one is then asked for again.
        """
        if topic in self._unknown:
            self._needed_s[topic] = self._clock.monotonic_s()
        return self._is_missing(topic)

    def _is_missing(self, topic: str) -> bool:
        return self._unknown.get(topic, 0) >= MISSING_ANSWERS

    def refusal(self, topic: str) -> int:
        """Return the code by which a broker refuses a topic and that no repetition changes, or 0."""
        return self._refused.get(topic, 0)

    def led(self, leaders: Iterable[NewLeader], endpoints: Mapping[int, KnownBroker]) -> bool:
        """Learn new leaders from an answer (KIP-951); return whether any of them was new."""
        before = self.known
        self.known = before.led(leaders, endpoints)
        return self.known is not before

    # -- asking ------------------------------------------------------------------------------------

    def due_s(self) -> float:
        """Return when the next request is to be sent, on the clock's monotonic time; infinity while one is out."""
        if self._out is not None:
            return math.inf
        unknown = self._unknown.keys() & self._wanted
        missing = {each for each in unknown if self._is_missing(each)}
        if self._is_out_of_date or self._fresh or self._ids or unknown - missing:
            return self._not_before
        if not self._wanted and not self._wants_all:
            return math.inf
        due_s = self._learnt_at + self._config.metadata_max_age_ms / 1000
        if missing:
            due_s = min(due_s, self._missing_not_before)
        return max(self._not_before, due_s)

    def next_request(self, version: int) -> MetadataRequest:
        """Return the request to send now, in ``version``; its answer goes to `took`, its loss to `failed`."""
        assert self._out is None, "one request at a time"
        age_ms = (self._clock.monotonic_s() - self._learnt_at) * 1000
        is_whole = self._is_out_of_date or age_ms >= self._config.metadata_max_age_ms
        Topic = MetadataRequest.MetadataRequestTopic
        topics: list[MetadataRequest.MetadataRequestTopic] | None
        self._asks_for_all = self._wants_all or (bool(self._ids) and version < BY_ID_VERSION)
        if self._ids and version >= BY_ID_VERSION:
            self._asks_for_all = is_whole = False
            topics = [Topic(topic_id=each, name=None) for each in sorted(self._ids)]
        elif self._asks_for_all:
            is_whole = True  # ids that this version cannot name are found among all topics
            topics = None if version >= 1 else []
        elif is_whole:
            topics = [Topic(name=each) for each in sorted(self._wanted)]
        else:
            topics = [Topic(name=each) for each in sorted(self._fresh | (self._unknown.keys() & self._wanted))]
        self._asks_for = frozenset(self._wanted) if is_whole else frozenset()
        self._is_whole = is_whole
        if is_whole:
            self._is_out_of_date = False  # what is found out of date from now on is asked for after the answer
        self._out = MetadataRequest(topics=topics, allow_auto_topic_creation=version < 4)
        return self._out

    def failed(self) -> None:
        """Take note that the request out has got no answer, or an error for the whole of it."""
        assert self._out is not None, "no request is out"
        self._out = None
        self._is_out_of_date |= self._is_whole
        self._pause()

    def took(self, answer: Any) -> list[TopicFault]:
        """Learn from the answer to the request out; return the topics that it refuses."""
        if not answer.brokers:
            self.failed()  # the broker has just started, and knows nothing yet
            return []
        assert self._out is not None, "no request is out"
        self._out = None
        known, faults = self.known.learnt(answer, all_topics=self._asks_for_all and self._wants_all)
        self._wanted |= {known.names[each] for each in self._ids & known.names.keys()}
        self._ids -= known.names.keys()
        if not self._wants_all:
            now_s = self._clock.monotonic_s()
            self._told = {name: until_s for name, until_s in self._told.items() if now_s < until_s}
            known = known.without(known.topics.keys() - self._wanted - self._told.keys())
        self.known = known
        told = self._note_told(answer)
        if self._is_whole:
            self._learnt_at = self._clock.monotonic_s()
        must_repeat = self._note(faults + self._absent(known))
        if self._lacks_a_leader({each.name for each in told}):
            self._is_out_of_date = must_repeat = True
        if must_repeat:
            self._pause()
        else:
            self._failures = 0
            self._not_before = -math.inf
        return faults

    def learn(self, answer: Any, *, all_topics: bool) -> tuple[KnownCluster, list[TopicFault]]:
        """Learn from the answer to a request of a call; return what is known, and the topics that it refuses.

        The topics are kept for twice ``metadata.max.age.ms``, and are not asked for again unless they are wanted.
        """
        self.known, faults = self.known.learnt(answer, all_topics=all_topics)
        now_s = self._clock.monotonic_s()
        if not self._wanted and not self._wants_all:
            self._is_out_of_date, self._learnt_at = False, now_s
        until_s = now_s + 2 * self._config.metadata_max_age_ms / 1000
        self._told.update((each.name, until_s) for each in self._note_told(answer))
        return self.known, faults

    def _note_told(self, answer: Any) -> list[Any]:
        """Take note that topics are known; return those that an answer does not refuse."""
        told = [each for each in answer.topics if not each.error_code]
        for each in told:
            self._fresh.discard(each.name)
            for key in (each.name, getattr(each, "topic_id", "")):
                self._unknown.pop(key, None)
                self._needed_s.pop(key, None)
                self._refused.pop(key, None)
        return told

    def _absent(self, known: KnownCluster) -> list[TopicFault]:
        """Return the wanted topics that an answer with every topic lacks: brokers report no error for those."""
        if not self._asks_for_all:
            return []
        names = self._asks_for & (self._wanted - known.topics.keys())
        return [
            *(TopicFault(each, "", codes.UNKNOWN_TOPIC_OR_PARTITION) for each in sorted(names)),
            *(TopicFault("", each, codes.UNKNOWN_TOPIC_ID) for each in sorted(self._ids)),
        ]

    def _note(self, faults: Iterable[TopicFault]) -> bool:
        """Keep what is wrong with wanted topics; return whether one of them must be asked for again."""
        must_repeat = False
        for name, topic_id, code in faults:
            key = topic_id if topic_id in self._ids else name
            if key not in self._ids and key not in self._wanted:
                continue
            self._fresh.discard(key)
            if code in _UNKNOWN:
                count = self._unknown[key] = self._unknown.get(key, 0) + 1
                if count < MISSING_ANSWERS:
                    must_repeat = True
                    continue
                self._ids.discard(key)  # the topic was deleted, and its id comes to no other
                now_s = self._clock.monotonic_s()
                idle_s = NEEDED_PAUSES * self._config.retry_backoff_max_ms / 1000
                if now_s - self._needed_s.setdefault(key, now_s) > idle_s:
                    self.drop([key])  # no consumer reads it any more, and no record waits for it
                    continue
                # Pauses of its own: news of other topics, their new leaders above all, must not wait for them.
                self._missing_not_before = now_s + self._pause_ms(count - 1) / 1000
            elif codes.is_retriable(code):
                if key in self._wanted:
                    self._fresh.add(key)
                must_repeat = True
            else:
                self._refused[key] = code
                self._unknown.pop(key, None)
                self._ids.discard(key)
        return must_repeat

    def _lacks_a_leader(self, names: Iterable[str]) -> bool:
        topics = (self.known.topics[each] for each in names if each in self._wanted and each in self.known.topics)
        return any(each.leader < 0 for topic in topics for each in topic.partitions.values())

    def _pause(self) -> None:
        pause_ms = self._pause_ms(self._failures)
        self._failures += 1
        self._not_before = self._clock.monotonic_s() + pause_ms / 1000

    def _pause_ms(self, failures: int) -> float:
        config = self._config
        return retry_pause_ms(failures, config.retry_backoff_ms, config.retry_backoff_max_ms, self._rng)
