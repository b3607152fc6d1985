"""Many logs on one machine: a directory of topics, with embedded producers and consumers."""

from logstore.client.backend.facts import PartitionDescription, TopicDescription
from logstore.store.store import Store, open_briefly, open_store
from logstore.store.topic import Topic

open = open_store

__all__ = ["PartitionDescription", "Store", "Topic", "TopicDescription", "open_briefly", "open_store"]
