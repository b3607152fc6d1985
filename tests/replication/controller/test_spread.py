"""Where replicas of new partitions go."""

from __future__ import annotations

from collections import Counter

import pytest

from logstore.errors import InvalidSettingError
from logstore.replication.controller import spread


@pytest.mark.row("F3")
@pytest.mark.parametrize(("nodes", "partitions", "factor"), [(3, 12, 3), (5, 7, 2), (10, 1_000, 3), (4, 4, 1)])
def test_leaders_and_replicas_are_spread_evenly(nodes, partitions, factor):
    assigned = spread(partitions, factor, dict.fromkeys(range(nodes)))
    leaders = Counter(each[0] for each in assigned)
    replicas = Counter(node for each in assigned for node in each)
    assert all(len(set(each)) == factor for each in assigned)
    assert max(leaders.values()) - min(leaders.get(node, 0) for node in range(nodes)) <= 1
    assert max(replicas.values()) - min(replicas.get(node, 0) for node in range(nodes)) <= factor


def test_the_load_of_a_lost_leader_is_shared():
    assigned = spread(110, 3, dict.fromkeys(range(11)))
    heirs = Counter(each[1] for each in assigned if each[0] == 4)
    assert len(heirs) == 10
    assert set(heirs.values()) == {1}


@pytest.mark.parametrize("racks", ["aabbcc", "aaabbc", "abcdef", "aaaaab"])
@pytest.mark.parametrize("factor", [2, 3, 5])
def test_replicas_are_in_as_many_racks_as_there_are(racks, factor):
    of_node = dict(enumerate(racks))
    for each in spread(60, factor, of_node):
        assert len(set(each)) == factor
        assert len({of_node[node] for node in each}) == min(factor, len(set(racks)))


def test_equal_racks_have_equal_loads():
    of_node = {node: "abc"[node % 3] for node in range(9)}
    replicas = Counter(node for each in spread(90, 3, of_node) for node in each)
    assert set(replicas.values()) == {30}


def test_a_node_without_a_rack_is_a_rack_of_its_own():
    assert spread(1, 2, {1: "a", 2: "a", 3: None}) == [(3, 1)]


def test_growth_goes_on_where_the_topic_ends():
    racks = dict.fromkeys(range(4))
    assert spread(3, 2, racks) + spread(5, 2, racks, first=3) == spread(8, 2, racks)


def test_more_replicas_than_nodes_are_refused():
    with pytest.raises(InvalidSettingError, match="3 replicas need as many nodes"):
        spread(1, 3, {1: None, 2: None})
