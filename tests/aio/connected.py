"""What tasks do with `logstore.aio.connect` on every cluster: brokers of the tests, or `logstore serve`."""

from __future__ import annotations

import pytest

from logstore import aio
from logstore.errors import UnsupportedOperationError


async def use_topics(bootstrap: str) -> None:
    """Write, read, look up and delete."""
    async with aio.connect(bootstrap, retry_backoff_ms=5) as store:
        await store.create_topic("flights", partitions=2)
        at = await store["flights"].append(b"AA 1141", key=b"AA")
        await store["flights"].append_many([(b"UA", b"UA 2")])
        assert [name async for name in store] == ["flights"]
        assert await store["flights"].partition_count() == 2
        values = {record.value async for record in store["flights"].scan()}
        assert values == {b"AA 1141", b"UA 2"}
        async with store.consumer(auto_offset_reset="earliest") as consumer:
            await consumer.assign_topics(["flights"])
            seen: set[bytes | None] = set()
            while len(seen) < 2:
                seen |= {record.value for record in await consumer.poll(timeout_s=5)}
        found = await store["flights"].record_at(at.partition, at.offset)
        assert found is not None
        assert found.value == b"AA 1141"
        with pytest.raises(UnsupportedOperationError, match=r"flush\(\) is of a store"):
            await store.flush()
        await store.delete_topic("flights")


async def use_a_group(bootstrap: str) -> None:
    """Read as a group, commit, and find nothing left."""
    async with aio.connect(bootstrap, retry_backoff_ms=5) as store:
        await store.create_topic("flights", partitions=2)
        await store["flights"].append_many([(b"AA", b"AA 1141"), (b"UA", b"UA 2")])
        async with store.consumer(group="g", auto_offset_reset="earliest") as consumer:
            await consumer.assign_topics(["flights"])
            seen: set[bytes | None] = set()
            while len(seen) < 2:
                seen |= {record.value for record in await consumer.poll(timeout_s=5)}
            await consumer.commit()
        assert sum(each.records for each in await store.lag("g")) == 0
