"""`logstore.aio.connect`: the asynchronous store over brokers of this process."""

from __future__ import annotations

import asyncio

import pytest

from logstore import aio
from logstore.errors import BrokerUnreachableError, UnsupportedOperationError
from tests.remote.fake_cluster import FakeCluster


@pytest.mark.row("P1", part="asyncio, on a cluster")
def test_tasks_use_a_cluster_as_they_use_a_store():
    async def main(bootstrap: str) -> None:
        async with aio.connect(bootstrap, retry_backoff_ms=5) as store:
            await store.create_topic("flights", partitions=2)
            at = await store["flights"].append(b"AA 1141", key=b"AA")
            await store["flights"].append_many([(b"UA", b"UA 2")])
            assert [name async for name in store] == ["flights"]
            assert await store["flights"].partition_count() == 2
            values = {record.value async for record in store["flights"].scan()}
            assert values == {b"AA 1141", b"UA 2"}
            async with store.consumer(group="g", auto_offset_reset="earliest") as consumer:
                await consumer.assign_topics(["flights"])
                seen: set[bytes | None] = set()
                while len(seen) < 2:
                    seen |= {record.value for record in await consumer.poll(timeout_s=5)}
                await consumer.commit()
            assert sum(each.records for each in await store.lag("g")) == 0
            found = await store["flights"].record_at(at.partition, at.offset)
            assert found is not None
            assert found.value == b"AA 1141"
            with pytest.raises(UnsupportedOperationError, match=r"flush\(\) is of a store"):
                await store.flush()
            await store.delete_topic("flights")

    with FakeCluster(2, long_polls=True) as cluster:
        asyncio.run(main(cluster.bootstrap))


def test_no_broker_is_said_and_no_thread_is_left():
    async def main() -> None:
        with pytest.raises(BrokerUnreachableError):
            await aio.connect("127.0.0.1:1", socket_connection_setup_timeout_ms=200)

    asyncio.run(main())
