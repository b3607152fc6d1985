"""Many logs on one machine: a directory of topics, with embedded producers and consumers."""

from logstore.store.store import PartitionDescription, Store, TopicDescription, open_store
from logstore.store.store import open_store as open
from logstore.store.topic import Topic

__all__ = ["PartitionDescription", "Store", "Topic", "TopicDescription", "open", "open_store"]
