"""Tests whose question makes no sense under the sanitizers: name within the tests, and why."""

from __future__ import annotations

_RESIDENT = "asks for resident memory, of which the sanitizer's shadow and quarantine take several times more"

UNSUITED: dict[str, str] = {
    "test_arrow_in.py::test_nothing_leaks": _RESIDENT,
    "test_columns.py::test_nothing_leaks": _RESIDENT,
    "test_codec.py::test_a_bomb_is_refused_within_its_limit[zstd window of 128 MiB]": _RESIDENT,
    "test_resources.py::test_a_thousand_partitions_are_open_with_4096_descriptors": _RESIDENT,
}
