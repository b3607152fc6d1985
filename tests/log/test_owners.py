"""Each part of an open log owns its attributes: no other module assigns them.

The parts are those that `State` leads: marks and limits, segments, durability, rolls, transactions.
Counters are the exception: whatever happens counts itself.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.test_layering import SRC

LOG = SRC / "logstore" / "log"
#: Modules whose `state` is that of one producer.
_OF_PRODUCERS = ("producer_snapshot.py", "_producers.pyx")
#: How modules of `log` name an open log, or a part of theirs that has one.
_RECEIVERS = re.compile(r"(self\.)?_?(state|log)(\.\w+)*")
_COMPILED = re.compile(r"^\s*((?:self\.)?_?(?:state|log)(?:\.\w+)*\.\w+)\s*[-+]?=\s", re.M)


def assigned(source: str) -> Iterator[str]:
    """Give the attributes of an open log, and of its parts, that a module assigns."""
    for node in ast.walk(ast.parse(source)):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in targets:
            for each in target.elts if isinstance(target, ast.Tuple) else [target]:
                if isinstance(each, ast.Attribute) and _RECEIVERS.fullmatch(ast.unparse(each.value)):
                    yield ast.unparse(each)


def wrong(found: Iterator[str]) -> list[str]:
    return [name for name in found if ".counters." not in name and name != "self.log._config"]


def modules(pattern: str) -> list[Path]:
    return sorted(path for path in LOG.rglob(pattern) if path.name not in _OF_PRODUCERS)


@pytest.mark.parametrize("path", modules("*.py"), ids=lambda path: str(path.relative_to(LOG).with_suffix("")))
def test_no_module_assigns_an_attribute_of_a_part_of_the_open_log(path: Path) -> None:
    assert wrong(assigned(path.read_text())) == []


@pytest.mark.parametrize("path", modules("*.pyx"), ids=lambda path: path.stem)
def test_no_compiled_module_does(path: Path) -> None:
    found = [match[1] for match in _COMPILED.finditer(path.read_text())]
    assert wrong(iter(found)) == []


def test_an_assignment_is_found() -> None:
    found = "state.log_start = 3\nself._state.durability.has_durable_point, a = True, 1\nstate.counters.rolls += 1"
    assert wrong(assigned(found)) == ["state.log_start", "self._state.durability.has_durable_point"]
    assert _COMPILED.findall("    log.sync_s += 1\n") == ["log.sync_s"]
