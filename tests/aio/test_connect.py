"""`logstore.aio.connect`: the asynchronous store over brokers of this process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

import pytest

from logstore import aio
from logstore.errors import BrokerUnreachableError
from tests.aio.connected import use_a_group, use_topics
from tests.remote.fake_cluster import FakeCluster

Use = Callable[[str], Coroutine[object, object, None]]


@pytest.mark.row("P1", part="asyncio, on a cluster")
@pytest.mark.parametrize("use", [use_topics, use_a_group])
def test_tasks_use_a_cluster_as_they_use_a_store(use: Use) -> None:
    with FakeCluster(2, long_polls=True) as cluster:
        asyncio.run(use(cluster.bootstrap))


def test_no_broker_is_said_and_no_thread_is_left():
    async def main() -> None:
        with pytest.raises(BrokerUnreachableError):
            await aio.connect("127.0.0.1:1", socket_connection_setup_timeout_ms=200)

    asyncio.run(main())
