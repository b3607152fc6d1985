"""Settings that are wrong are all named at once."""

from __future__ import annotations

import pytest

from logstore import LogConfig
from logstore.errors import InvalidSettingError, UnknownSettingError


def test_unknown_keys_and_values_out_of_range_are_named_together() -> None:
    with pytest.raises(UnknownSettingError, match=r"did you mean segment\.bytes") as caught:
        LogConfig.of({"segment.byte": 1, "retention.ms": -5, "flush.ms": 10})
    assert sorted(caught.value.problems) == ["retention.ms", "segment.byte"]


def test_values_out_of_range_alone_are_invalid() -> None:
    with pytest.raises(InvalidSettingError) as caught:
        LogConfig.of(retention_ms=-5, segment_bytes=1)
    assert sorted(caught.value.problems) == ["retention.ms", "segment.bytes"]
