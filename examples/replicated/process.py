"""One of the processes: ``python -m examples.replicated.process DIRECTORY NUMBER`` takes commands, a line each.

``append VALUE`` is answered with ``at OFFSET`` once every replica in sync has the record, or with ``error NAME``;
``leader`` with ``leader NUMBER``, ``isr`` with ``isr NUMBERS``. End of input closes node and store.
"""

import logging
import sys

import logstore
from examples.replicated.socket_transport import SocketTransport, serve
from examples.replicated.sqlite_registry import SqliteRegistry
from logstore.errors import LogstoreError, TopicExistsError
from logstore.replication import Node


def main(directory, number):
    def connect():
        return SqliteRegistry(f"{directory}/registry.db")

    with (
        logstore.open(f"{directory}/node-{number}") as store,
        Node(store, number, connect, SocketTransport(directory), lag_max_ms=1_000, timeout_s=1.0) as node,
    ):
        serve(directory, node)
        try:
            topic = node.create_topic("orders", replicas=[1, 2])
        except TopicExistsError:
            topic = node.wait_for_topic("orders")
        print("ready", flush=True)
        for line in sys.stdin:
            command, _, value = line.strip().partition(" ")
            try:
                if command == "append":
                    told = f"at {topic.append(value.encode(), acks='all').offset}"
                elif command == "leader":
                    told = f"leader {node.leader_of('orders')}"
                else:
                    told = f"isr {' '.join(map(str, node.metrics()[0].isr))}"
            except LogstoreError as error:
                told = f"error {type(error).__name__}"
            print(told, flush=True)


if __name__ == "__main__":
    # One of the two is killed: that the other one cannot reach it then is no news.
    logging.getLogger("logstore.replication").setLevel(logging.ERROR)
    main(sys.argv[1], int(sys.argv[2]))
