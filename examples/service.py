"""A service: it takes orders, bills each of them once, and answers questions about them while it runs.

    python -m examples.service --directory data

Orders come from any thread, and each is acknowledged once it is written. The billing is a consumer with a group in
a thread of its own: it goes on where it was when the service starts again.
"""

from __future__ import annotations

import argparse
import json
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import logstore
from logstore import Producer, Record, Store
from logstore.errors import LogstoreError, WakeupError

TOPIC, GROUP = "orders", "billing"


class Order(NamedTuple):
    """What a customer has bought; ``cents`` is its price."""

    customer: str
    item: str
    cents: int

    def to_bytes(self) -> bytes:
        return json.dumps(self._asdict()).encode()

    @classmethod
    def of_record(cls, record: Record) -> Order:
        return cls(**json.loads(record.value or b"{}"))


class Service:
    """Takes orders and bills them. Any thread may call; `close` waits for what is being billed."""

    def __init__(self, directory: Path) -> None:
        # A second start waits for the first one to end.
        self._store: Store = logstore.open(directory, wait_s=30)
        self._store.create_topic(TOPIC, partitions=4, if_not_exists=True)
        self._producer: Producer = self._store.producer(linger_ms=5, acks="all")
        self._consumer = self._store.consumer(group=GROUP, auto_offset_reset="earliest", enable_auto_commit=False)
        self._lock = threading.Lock()
        self._bills: dict[str, int] = {}
        self._billing = threading.Thread(target=self._bill, name="billing")
        self._billing.start()

    def take(self, order: Order) -> int:
        """Take an order in; its offset. On return it has been written: orders of one customer stay in order."""
        sent = self._producer.send(TOPIC, order.to_bytes(), order.customer.encode())
        return sent.result(timeout=10).offset

    def bill_of(self, customer: str) -> int:
        """What a customer owes, in cents."""
        with self._lock:
            return self._bills.get(customer, 0)

    def unbilled(self) -> int:
        """How many orders wait to be billed."""
        return sum(lag.records for lag in self._store.lag(GROUP)) if GROUP in self._store.offsets.groups() else -1

    def close(self) -> None:
        self._consumer.wakeup()
        self._billing.join()
        self._consumer.close()
        self._store.close()

    def _bill(self) -> None:
        self._consumer.assign_topics([TOPIC])
        try:
            while True:
                records = self._consumer.poll(timeout_s=1)
                with self._lock:
                    for order in map(Order.of_record, records):
                        self._bills[order.customer] = self._bills.get(order.customer, 0) + order.cents
                if records:
                    self._consumer.commit()
        except WakeupError:
            return


def serve(directory: Path, orders: Iterable[Order], *, threads: int = 8) -> dict[str, int]:
    """Take all orders in, by several threads as a web server would, and return what each customer owes."""
    wanted = list(orders)
    service = Service(directory)
    try:
        with ThreadPoolExecutor(threads) as pool:
            for _offset in pool.map(service.take, wanted):
                pass
        while service.unbilled():
            threading.Event().wait(0.01)
        return {customer: service.bill_of(customer) for customer in sorted({order.customer for order in wanted})}
    finally:
        service.close()


def main() -> int:
    parser = argparse.ArgumentParser(description="Take some orders and bill them.")
    parser.add_argument("--directory", type=Path, default=Path("service-data"))
    directory: Path = parser.parse_args().directory
    orders = [Order(f"customer-{number % 3}", "book", 1_000 + number) for number in range(30)]
    try:
        for customer, cents in serve(directory, orders).items():
            print(f"{customer} owes {cents / 100:.2f}")
    except LogstoreError as error:
        print(f"error: {error}")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
