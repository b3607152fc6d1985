"""Each part of an open log owns its attributes: no other module assigns them.

An owner is a class of `log`, or one of a segment and its indexes. Its fields are what its own methods assign, and
what its ``.pxd`` declares. An assignment to any object but ``self`` is looked at by the name of the attribute,
however the object is called: it is allowed in the module of a class that has such a field, and in no other.
The names ``state`` and ``log`` are those of an open log, whose fields no module assigns from outside.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.test_layering import SRC

PACKAGE = SRC / "logstore"
LOG = PACKAGE / "log"

#: Compiled classes whose Python half, a subclass, assigns fields of theirs: the two are one object.
HALVES = {"State": "PartitionLog", "Segments": "SegmentSet", "Transactions": "ProducersOfLog"}

#: Fields that another module assigns, and why. Counters: whatever happens counts itself.
SHARED = {
    ("formats/producer_snapshot.py", "ProducerState"): "a value, which the decoder of its bytes builds",
    ("log/_partition_log.pyx", "Encoder"): "the log tells an encoder where its batches are; `mark_appended`",
    ("append/appender.py", "Batcher"): "an error is raised once; the appender leads its batcher",
}

#: How modules of `log` name an open log, or a part of theirs that has one.
_RECEIVERS = re.compile(r"(self\.)?_?(state|log)(\.\w+)*")
#: Modules whose `state` is that of one producer.
_OF_PRODUCERS = ("producer_snapshot.py", "_producers.pyx")

_CLASS = re.compile(r"^cdef class (\w+)")
_FIELD = re.compile(r"^    cdef (?!.*\()(?:(public|readonly) )?[\w\[\] ]+[ *]+(\w+) *(?:#.*)?$")
_STRUCT = re.compile(r"^ *(?:cdef|ctypedef) struct (\w+)", re.M)


#: C structs are values, without an owner.
_STRUCTS = {name for path in PACKAGE.rglob("*.p[yx][xd]") for name in _STRUCT.findall(path.read_text())}
_OF_STRUCTS = re.compile(rf"\b(?:{'|'.join(sorted(_STRUCTS))}) \**(\w+)")


class Holder(NamedTuple):
    """A class with fields that only its module assigns."""

    module: Path
    fields: frozenset[str]
    public: frozenset[str]  #: those that Python code can assign; of a Python class, all


class Assignment(NamedTuple):
    """An assignment to a field of an object that is not ``self``."""

    receiver: str
    field: str

    def __str__(self) -> str:
        return f"{self.receiver}.{self.field}"


def is_own(receiver: str) -> bool:
    return receiver in ("self", "cls")


def in_python(source: str, *, own: bool = False) -> Iterator[Assignment]:
    """Give each assignment of a Python module: by ``=``, by a loop, a ``with`` block or ``del``."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            receiver = ast.unparse(node.value)
            if is_own(receiver) == own:
                yield Assignment(receiver, node.attr)


def in_cython(source: str) -> Iterator[Assignment]:
    """Give each assignment of a compiled module, but for those to C structs."""
    values = {match[1] for match in _OF_STRUCTS.finditer(source)}
    for line in source.splitlines():
        head, equals, rest = re.sub(r"(//|[-+*/|&^%]|<<|>>)=(?!=)", "=", line.partition("#")[0]).partition("=")
        if not equals or re.search(r"[!<>=]$", head) or rest.startswith("=") or head.count("(") != head.count(")"):
            continue
        for target in head.split(","):
            match = re.fullmatch(r"\s*(.+)\.(\w+)\s*", target)
            if match and not is_own(match[1]) and re.split(r"[.\[]", match[1].strip("()"))[0] not in values:
                yield Assignment(match[1].strip(), match[2])


def python_owners(path: Path) -> Iterator[tuple[str, Holder]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ClassDef):
            fields = frozenset(found.field for found in in_python(ast.unparse(node), own=True))
            yield node.name, Holder(path, fields, fields)


def compiled_owners(path: Path) -> Iterator[tuple[str, Holder]]:
    name, fields, public = "", set(), set()
    for line in [*path.read_text().splitlines(), "end"]:
        if re.match(r"\S", line):
            if name:
                yield name, Holder(path.with_suffix(".pyx"), frozenset(fields), frozenset(public))
            begun = _CLASS.match(line)
            name, fields, public = begun[1] if begun else "", set(), set()
        elif name and (field := _FIELD.match(line)):
            fields.add(field[2])
            public |= {field[2]} if field[1] == "public" else set()


SEGMENTS = [PACKAGE / f"{name}.pxd" for name in ("_segment", "_segment_index", "_index")]
ELSEWHERE = [PACKAGE / "batch" / "_encode.pxd", PACKAGE / "accumulator" / "_batcher.pxd"]
OWNERS: list[tuple[str, Holder]] = [
    *(found for path in sorted(LOG.rglob("*.py")) for found in python_owners(path)),
    *(found for path in [*sorted(LOG.rglob("*.pxd")), *SEGMENTS, *ELSEWHERE] for found in compiled_owners(path)),
]
BY_NAME = dict(OWNERS)


def owners_of(field: str) -> dict[str, Holder]:
    return {name: owner for name, owner in OWNERS if field in owner.fields}


def wrong(path: Path, found: Iterator[Assignment]) -> list[str]:
    """Return the assignments that only another module may make."""
    refused = []
    for each in found:
        owners = owners_of(each.field)
        if each.receiver.endswith("counters") and each.field in BY_NAME["Counters"].fields:
            continue
        if any(str(path).endswith(module) and owner in owners for module, owner in SHARED):
            continue
        of_log = _RECEIVERS.fullmatch(each.receiver) and path.name not in _OF_PRODUCERS
        if of_log or (owners and path not in {owner.module for owner in owners.values()}):
            refused.append(str(each))
    return refused


def modules(pattern: str) -> list[Path]:
    return sorted(LOG.rglob(pattern))


@pytest.mark.parametrize("path", modules("*.py"), ids=lambda path: str(path.relative_to(LOG).with_suffix("")))
def test_no_module_assigns_a_field_of_another_ones_class(path: Path) -> None:
    assert wrong(path, in_python(path.read_text())) == []


@pytest.mark.parametrize("path", modules("*.pyx"), ids=lambda path: path.stem)
def test_no_compiled_module_does(path: Path) -> None:
    assert wrong(path, in_cython(path.read_text())) == []


@pytest.mark.parametrize("half", HALVES)
def test_a_python_half_assigns_the_public_fields_of_its_base_and_all_of_them(half: str) -> None:
    """A field that it does not assign is the compiled half's alone, so it is read-only."""
    own, base = BY_NAME[half], BY_NAME[HALVES[half]]
    assert own.fields & base.fields == base.public


def test_no_other_class_assigns_fields_of_its_base() -> None:
    found = set()
    for path in modules("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                for base in (ast.unparse(base) for base in node.bases):
                    inherited = BY_NAME[base].fields if base in BY_NAME else frozenset()
                    if BY_NAME[node.name].fields & inherited and BY_NAME[base].module != path:
                        found.add((node.name, base))
    assert found == set(HALVES.items())


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("state.log_start = 3\nself._state.durability.has_durable_point, a = 1, 1", 2),
        ("whole = self._whole.get()\nwhole.closed = True", 1),
        ("each.reserved_bytes -= 3", 1),
        ("for part.failed in errors: pass", 1),
        ("with held(lock) as them.must_unmark: pass", 1),
        ("del it.published", 1),
        ("index.stale = False", 1),
        ("state.counters.rolls += 1\nself.closed = True\nclosed = True\nerror.__context__ = other", 0),
    ],
)
def test_planted_an_assignment_is_found_whatever_its_object_is_called(source: str, found: int) -> None:
    assert len(wrong(LOG / "cleanup" / "elsewhere.py", in_python(source))) == found


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("        self._log.synced_s, it.prepare_bytes = 3, 4", 2),
        ("        whole.has_work = self.rolls_have_work = True", 1),
        ("        (<PartitionLog>whole).failed = error", 1),
        ("        run.size = 3  # cdef Run *run", 0),
        ("        if whole.failed == error or whole.failed != None:", 0),
        ("        self.call(failed=whole.failed, x=1)", 0),
        ("        log.counters.flushes += 1", 0),
    ],
)
def test_planted_a_compiled_assignment_is_found(line: str, found: int) -> None:
    source = "cdef int go(Run *run):\n" + line
    assert len(wrong(LOG / "cleanup" / "_elsewhere.pyx", in_cython(source))) == found
