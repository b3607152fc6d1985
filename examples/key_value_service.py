"""A key-value service whose log is its memory: what it was told is written first, and read back at the start.

    python -m examples.key_value_service --directory data set colour blue
    python -m examples.key_value_service --directory data get colour

The log is the service's commit log. A change is appended, and only then made in memory; a service that starts
from scratch reads the log from offset 0 and is where the old one stood. Since only the last change of a key
matters, the topic is compacted, and a null value deletes its key.
"""

from __future__ import annotations

import argparse

import logstore

TOPIC = "settings"


class Service:
    """Keys and values, in memory and in the log. ``synced`` makes every change survive power loss."""

    def __init__(self, store: logstore.Store, *, ack: str = "synced") -> None:
        self._topic = store.create_topic(TOPIC, 1, {"cleanup.policy": "compact"}, if_not_exists=True)
        self._ack = ack
        self.state: dict[bytes, bytes] = {}
        for record in self._topic[0]:
            self._apply(record.key or b"", record.value)

    def get(self, key: bytes) -> bytes | None:
        return self.state.get(key)

    def set(self, key: bytes, value: bytes | None) -> None:
        """Change a key, or delete it with None. On an error neither log nor memory has changed."""
        self._topic.append(value, key=key, ack=self._ack)
        self._apply(key, value)

    def _apply(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            self.state.pop(key, None)
        else:
            self.state[key] = value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directory", required=True, help="where the store is, or is to be")
    parser.add_argument("verb", choices=["get", "set", "delete"])
    parser.add_argument("key", type=str.encode)
    parser.add_argument("value", type=str.encode, nargs="?", help="for set")
    arguments = parser.parse_args()
    with logstore.open(arguments.directory) as store:
        service = Service(store)
        if arguments.verb == "get":
            print((service.get(arguments.key) or b"").decode())
        else:
            service.set(arguments.key, arguments.value if arguments.verb == "set" else None)


if __name__ == "__main__":
    main()
