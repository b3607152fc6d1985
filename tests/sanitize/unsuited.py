"""Tests whose question makes no sense under the sanitizers: name within the tests, and why."""

from __future__ import annotations

_RESIDENT = "asks for resident memory, of which the sanitizer's shadow and quarantine take several times more"
_OBJECTS = "counts the interpreter's blocks, of which PYTHONMALLOC=malloc keeps no account"

UNSUITED: dict[str, str] = {
    "columns/test_import.py::test_nothing_leaks": _RESIDENT,
    "columns/test_export.py::test_nothing_leaks": _RESIDENT,
    "batch/test_codec.py::test_a_bomb_is_refused_within_its_limit[zstd window of 128 MiB]": _RESIDENT,
    "test_resources.py::test_a_thousand_partitions_are_open_with_4096_descriptors": _RESIDENT,
    "test_resources.py::test_memory_does_not_grow_with_the_data": _RESIDENT,
    "test_resources.py::test_a_scan_of_columns_takes_the_memory_of_one_chunk": _RESIDENT,
    "project/test_size.py::test_memory_grows_by_the_index_and_by_nothing_else": _RESIDENT,
    "project/test_size.py::test_appends_and_tail_reads_cost_the_same_at_1_gb_and_at_100_gb": _OBJECTS,
}
