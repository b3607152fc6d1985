"""What the metadata of a cluster says about the health of partitions."""

from __future__ import annotations

from typing import Any

from logstore.protocol.generated import messages as m
from logstore.remote.diagnosis.partitions import least_in_sync, unhealthy

R = m.MetadataResponse


def topic(name: str, *partitions: tuple[int, list[int], list[int]], error_code: int = 0) -> Any:
    """A topic of (leader, replicas, in sync)."""
    return R.MetadataResponseTopic(
        name=name,
        error_code=error_code,
        partitions=[
            R.MetadataResponsePartition(
                partition_index=number, leader_id=leader, replica_nodes=replicas, isr_nodes=in_sync
            )
            for number, (leader, replicas, in_sync) in enumerate(partitions)
        ],
    )


def found(topics: list[Any], **least: int) -> list[str]:
    return [str(each) for each in unhealthy(topics, least)]


def test_a_whole_topic_is_not_named() -> None:
    whole = topic("t", (1, [1, 2, 3], [3, 1, 2]), (2, [1, 2], [1, 2]))
    assert found([whole], t=2) == []


def test_partitions_without_a_leader_are_named_with_the_brokers_to_start() -> None:
    assert found([topic("t", (1, [1], [1]), (-1, [3, 2], [2]), (-1, [4], []))]) == [
        "problem: topic 't': partitions 1, 2 without a leader: it can be neither written nor read; start one of "
        "the brokers with its replicas (brokers 2, 3, 4)"
    ]


def test_replicas_out_of_sync_are_named() -> None:
    assert found([topic("t", (1, [1, 2, 3], [1, 3]), (1, [1, 3], [1, 3]))]) == [
        "problem: topic 't': partition 0 without all replicas in sync: those on broker 2 are down or behind; start "
        "these brokers, or read in their logs why they do not follow"
    ]


def test_partitions_that_refuse_appends_are_named() -> None:
    names = [each.name for each in unhealthy([topic("t", (1, [1, 2, 3], [1, 2, 3]))], {"t": 3})]
    assert names == []
    low = topic("t", (1, [1, 2], [1]), (1, [1, 2], [1, 2]))
    (behind, few) = unhealthy([low], {"t": 2})
    assert (behind.name, few.name) == ("under-replicated", "under-min-insync")
    assert few.what.startswith("partition 0 with fewer replicas in sync than min.insync.replicas=2: appends with")
    # A topic with fewer replicas than it asks for is refused for ever, though all are in sync.
    assert [each.name for each in unhealthy([topic("t", (1, [1], [1]))], {"t": 2})] == ["under-min-insync"]


def test_many_partitions_are_not_all_listed() -> None:
    (said,) = found([topic("t", *[(-1, [1], [])] * 30)])
    assert "partitions 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 20 more without a leader" in said


def test_the_error_of_a_topic_is_told() -> None:
    assert "INVALID_TOPIC_EXCEPTION" in found([topic("t", error_code=17)])[0]


def test_the_setting_is_asked_for_in_a_few_requests_and_may_be_hidden() -> None:
    asked: list[Any] = []
    Result, Config = m.DescribeConfigsResponse.DescribeConfigsResult, m.DescribeConfigsResponse

    def ask(request: Any) -> Any:
        asked.append(request)
        values = [Config.DescribeConfigsResourceResult(name="min.insync.replicas", value="2")]
        return m.DescribeConfigsResponse(
            results=[
                Result(resource_name=each.resource_name, error_code=29 * (each.resource_name == "t1"),
                       configs=() if each.resource_name == "t1" else values)
                for each in request.resources
            ]
        )  # fmt: skip

    names = [f"t{number}" for number in range(1_200)]
    least = least_in_sync(ask, names)
    assert len(asked) == 3
    assert set(names) - set(least) == {"t1"}
    assert set(least.values()) == {2}
