"""The JSON of a checkpoint."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.errors import SparkOptionError
from logstore.records import TopicPartition
from logstore.spark.reading.offsets import RESERVED, StreamOffsets
from logstore.topic_names import check_name

TP = TopicPartition

_offsets = st.dictionaries(
    st.builds(TP, st.sampled_from(["a", "b-1", "c.d"]), st.integers(0, 20)), st.integers(0, 2**63 - 1), min_size=1
)


def test_it_is_that_of_sparks_kafka_source_and_one_key_more() -> None:
    standing = StreamOffsets({TP("b", 0): 5, TP("a", 10): 2, TP("a", 9): 1}, {"a": "id", "b": ""}, {TP("a", 9): 3})
    assert json.dumps(standing.to_json()) == (
        '{"a": {"9": 1, "10": 2}, "b": {"0": 5}, "@logstore": {"a": {"id": "id", "epochs": {"9": 3}}}}'
    )
    assert StreamOffsets({TP("a", 0): 5}).to_json() == {"a": {"0": 5}}


@given(_offsets, st.dictionaries(st.sampled_from(["a", "b-1"]), st.text(min_size=1, max_size=5)), st.data())
def test_it_comes_back_and_equal_offsets_give_equal_texts(
    offsets: dict[TP, int], ids: dict[str, str], data: st.DataObject
) -> None:
    epochs = data.draw(st.dictionaries(st.sampled_from(sorted(offsets)), st.integers(0, 9)))
    standing = StreamOffsets(offsets, ids, epochs)
    text = json.dumps(standing.to_json())
    assert StreamOffsets.of_json(json.loads(text)) == standing
    shuffled = StreamOffsets(
        dict(reversed(offsets.items())), dict(reversed(ids.items())), dict(reversed(epochs.items()))
    )
    assert json.dumps(shuffled.to_json()) == text


def test_a_checkpoint_of_sparks_kafka_source_is_one_of_ours() -> None:
    assert StreamOffsets.of_json({"a": {"0": 5, "1": 7}}) == StreamOffsets({TP("a", 0): 5, TP("a", 1): 7})


@pytest.mark.parametrize(
    "found",
    [[], {"a": 5}, {"a": {"x": 1}}, {"a": {"0": "5x"}}, {"a": {"0": -1}}, {RESERVED: {"a": 1}}, {"logOffset": 3}],
)
def test_another_sources_checkpoint_is_refused_by_name(found: object) -> None:
    with pytest.raises(
        SparkOptionError, match="checkpointLocation: its offsets are not those of a logstore or Kafka"
    ):
        StreamOffsets.of_json(found)


def test_no_topic_can_be_named_like_the_reserved_key() -> None:
    with pytest.raises(ValueError, match="@"):
        check_name(RESERVED, {})
