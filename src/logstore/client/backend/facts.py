"""Values of the contract: a topic as it is now.

Imports nothing of the package. Every value is immutable, and may be shared by threads.
"""

from __future__ import annotations

from typing import NamedTuple


class TopicFacts(NamedTuple):
    """A topic as it is now.

    ``id`` is in Kafka's text form, and tells the topic from another one of its name; "" if it has none.
    ``added_from`` is the number that the first partition added after the topic's creation has, or would get.
    """

    name: str
    id: str
    partitions: int
    added_from: int
