"""Arrows between modules run only downward.

The tables below say who may import whom; everything else in this file reads the sources. A new
arrow, and a new module, is a change to a table, made in a commit of its own with its reason.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
SRC = ROOT / "src"

# --- the tables --------------------------------------------------------------------------------

#: From the outside in: each floor may import every floor behind it.
ORDER = ["cli", "broker", "coordinators", "replication", "store", "groups", "log", "core", "vocabulary"]

_DOWN = {floor: set(ORDER[n + 1 :]) for n, floor in enumerate(ORDER)}

#: Floor -> the floors it may import. Within a floor, imports are free unless a table below says otherwise.
FLOORS: dict[str, set[str]] = {
    **_DOWN,
    "wire": {"core", "vocabulary"},
    "zookeeper": {"replication.api", "vocabulary"},
    "replication.api": _DOWN["replication"],
    "replication": _DOWN["replication"] | {"replication.api"},
    "coordinators": _DOWN["coordinators"] | {"replication.api", "wire"},
    "broker": _DOWN["broker"] | {"replication.api", "wire"},
    "spark": {"store", "wire", "core", "vocabulary"},
    "pyspark_logstore": {"spark"},
    "aio": {"store", "vocabulary"},
    # Outermost: nobody imports them.
    "cli": _DOWN["cli"] | {"replication.api", "wire", "zookeeper", "spark", "console", "aio", "head"},
    "testing": _DOWN["cli"] | {"replication.api", "wire", "aio"},
    # The package itself: a list of names, each imported when it is first asked for.
    "head": _DOWN["replication"],
}

VOCABULARY: dict[str, set[str]] = {
    "errors": set(),
    "records": {"errors"},
    "clock": {"errors"},
    "dropped": set(),
    "metrics": {"errors", "records"},
    "quantities": set(),
    "settings": {"errors", "quantities"},
    "kafka_keys": set(),
    "paths": {"errors"},
    "topic_names": {"errors"},
    "config": {"errors", "quantities", "records", "settings"},
    "config_text": {"errors", "settings"},
    "client_config": {"errors", "records", "settings", "kafka_keys"},
    "checks": {"client_config", "config", "settings", "store_config"},
    "store_config": {"errors", "paths", "quantities", "settings", "config", "config_text", "kafka_keys"},
}

_LEAVES = {"_bytes", "_crc32c", "_codec", "_files", "_ops"}
_FORMATS = _LEAVES | {"_batch", "_encode", "_index"}

#: Compiled module -> the compiled modules it may import or cimport.
CORE: dict[str, set[str]] = {
    "_bytes": set(),
    "_arrow": set(),
    "_crc32c": {"_bytes"},
    "_codec": {"_bytes"},
    "_ops": set(),
    "_libc": {"_ops"},
    "_watch": set(),
    "_interrupts": set(),
    "_files": {"_bytes", "_ops", "_libc"},
    "_batch": _LEAVES,
    "_encode": _LEAVES | {"_batch"},
    "_index": _LEAVES | {"_batch"},
    "_published": _LEAVES,
    "_growth": _LEAVES,
    "_slice": _LEAVES,
    "_indexed": _FORMATS,
    "_scan": _FORMATS | {"_indexed"},
    "_segment": _FORMATS | {"_growth", "_indexed", "_scan", "_slice"},
    "_tally": _FORMATS | {"_indexed", "_segment"},
    "_table": _FORMATS | {"_arrow"},
    "_columns": _FORMATS | {"_arrow", "_table"},
    "_json": {"_batch"},
    "_json_values": {"_json"},
    "_payload": _FORMATS | {"_arrow", "_columns", "_json", "_json_values", "_table"},
    "_unpack": {"_columns", "_table"},
    "_arrow_in": _FORMATS | {"_arrow"},
    "_keymap": _FORMATS,
    "_spread": _FORMATS | {"_arrow", "_arrow_in", "_partition"},
    "_produce": _FORMATS | {"_interrupts", "_partition"},
    "_partition": _LEAVES,
    "_compact": _FORMATS | {"_keymap"},
}

_GROUND = {"files", "lock", "checkpoint", "watermark", "owner", "gate", "holds", "tail", "commit", "ticker"}
_STATE = _GROUND | {"positions", "epochs", "producers", "snapshot", "aborted", "segments", "promises", "root"}
_READING = _STATE | {"recovery", "transactions", "reader", "scan"}
_WRITING = _READING | {"admission", "appender", "state", "flush", "cut", "write", "readonly"}
_KEEPING = {"alteration", "compaction", "dirty", "image", "retention"}

#: Module of log/ -> the modules of log/ it may import. Which of the core is not limited.
LOG: dict[str, set[str]] = {
    "files": set(),
    "watermark": set(),
    "owner": set(),
    "positions": {"segments"},
    "gate": set(),
    "holds": set(),
    "tail": set(),
    "commit": set(),
    "ticker": set(),
    "checkpoint": {"files"},
    "lock": {"files"},
    "root": {"files", "checkpoint", "lock"},
    "removal": {"files", "checkpoint", "promises"},
    "promises": {"files", "checkpoint"},
    "epochs": {"files", "checkpoint"},
    "producers": {"checkpoint"},
    "aborted": {"checkpoint"},
    "snapshot": {"files", "checkpoint", "producers"},
    "segments": {"files"},
    "swaps": {"files"},
    "admission": {"producers"},
    "recovery": _STATE | {"swaps"},
    "transactions": _STATE | {"recovery"},
    "damage": set(),
    "moments": set(),
    "tables": set(),
    "scan": {"damage", "holds", "tables"},
    "reader": {"damage", "epochs", "holds", "moments", "scan", "segments", "watermark"},
    "readonly": _READING,
    "appender": {"ticker"},
    "state": _READING,
    "inspection": {"files", "checkpoint", "recovery", "segments", "snapshot", "aborted", "epochs"},
    "repair": {"files", "lock", "checkpoint", "epochs", "recovery", "snapshot", "promises"}
    | {"segments", "inspection"},
    "waiting": {"reader", "readonly", "watermark"},
    "listening": {"reader", "readonly", "watermark"},
    "flush": {"commit", "cut", "state"},
    "image": {"aborted", "checkpoint", "files", "promises", "state"},
    "cut": {"recovery", "state"},
    "retention": {"cut", "state"},
    "alteration": {"state"},
    "dirty": set(),
    "decided": set(),
    "exchange": {"aborted", "files", "state"},
    "compaction": {"decided", "dirty", "exchange", "recovery", "state"},
    "write": {"admission", "cut", "producers", "state"},
    "run": {"cut", "gate", "state", "write"},
    "adoption": {"gate", "segments", "state", "write"},
    "writable": _WRITING | {"adoption", "moments", "run"},
    "log": _WRITING | _KEEPING | {"writable"},
    "__init__": {"log", "owner", "readonly", "write"},
}

#: Floors made of packages, whose modules need no entry of their own.
PACKAGES = {
    *("cli", "broker", "coordinators", "replication", "store", "groups"),
    *("wire", "aio", "zookeeper", "spark", "testing"),
}

#: typing_extensions stands for the stubs, which no program imports.
_NUMBERS_AND_CODECS = {"numpy", "lz4", "zstandard", "cramjam", "typing_extensions"}

#: Floor -> the packages from elsewhere it may import; a floor that is not named here may import any.
THIRD_PARTY: dict[str, set[str]] = {
    "head": set(),
    "vocabulary": set(),
    "core": _NUMBERS_AND_CODECS,
    "log": _NUMBERS_AND_CODECS,
    "groups": set(),
    "store": _NUMBERS_AND_CODECS,
    "replication.api": set(),
    "replication": set(),
    "aio": set(),
}

_TABLES = {"duckdb", "pandas", "polars", "pyarrow"}

#: Module -> packages whose types it names: `log.tables` imports what a caller asks for, when it is asked for.
TYPES_OF: dict[str, set[str]] = dict.fromkeys(("logstore.log.tables",), _TABLES)

#: What Cython brings along for `cimport`.
CYTHON = {"cpython", "cython", "libc", "posix"}

#: Folders outside the package that may import compiled modules: they test and measure them.
MAY_IMPORT_COMPILED = {"tests", "benchmarks"}

# --- reading -----------------------------------------------------------------------------------


class Import(NamedTuple):
    """``from <module> import <name>`` or, with an empty name, ``import <module>``."""

    line: int
    module: str
    name: str = ""


def module_of(path: Path, src: Path = SRC) -> str:
    """The dotted name of a source file; a package's ``__init__`` has the package's name."""
    parts = path.relative_to(src).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _absolute(level: int, module: str, package: str) -> str:
    if level == 0:
        return module
    parents = package.split(".")
    base = ".".join(parents[: len(parents) - level + 1])
    return f"{base}.{module}" if module else base


def python_imports(source: str, package: str) -> Iterator[Import]:
    """Imports of Python source anywhere in it, and `import_module` of a name written out."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                for alias in names:
                    yield Import(node.lineno, alias.name)
            case ast.ImportFrom(module=module, names=names, level=level):
                for alias in names:
                    yield Import(node.lineno, _absolute(level, module or "", package), alias.name)
            case ast.Call(
                func=ast.Name(id="__import__" | "import_module") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(module)), *_],
            ):
                level = len(module) - len(module.lstrip("."))
                yield Import(node.lineno, _absolute(level, module.lstrip("."), package))


# Strings and comments in one search from left to right: a '#' in a string begins no comment, and a
# quote in a comment opens no string.
_NOT_CODE = re.compile(
    r'''(?:"""(?:\\.|[^\\])*?"""|\'\'\'(?:\\.|[^\\])*?\'\'\'|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')|\#[^\n]*''',
    re.DOTALL,
)
_STATEMENT = re.compile(r"(?:^|[;:])\s*(?:from\s+(\.*)\s*([\w.]*)\s+c?import\b|c?import\s)\s*([^;]*)")
_INCLUDE = re.compile(r"^\s*include\s+[\"']")


def _blank(match: re.Match[str]) -> str:
    """As many lines as before, and a string where a string was."""
    text = match.group()
    return ("" if text.startswith("#") else "''") + "\n" * text.count("\n")


def cython_imports(source: str, package: str) -> Iterator[Import]:
    """Imports and cimports of Cython source, which Python's own parsers do not take.

    Comments and strings are blanked, lines are joined inside brackets and after a backslash, and what
    is left is searched for statements. ``cdef extern from`` is none of them.
    """
    for number, line in _logical_lines(_NOT_CODE.sub(_blank, source)):
        for match in _STATEMENT.finditer(line):
            dots, module, names = match.groups()
            listed = [re.split(r"\s+as\s+", part.strip())[0] for part in names.strip(" ()").split(",")]
            for name in filter(None, listed):
                if dots is None:
                    yield Import(number, name)
                else:
                    yield Import(number, _absolute(len(dots), module, package), name)


def _logical_lines(source: str) -> Iterator[tuple[int, str]]:
    held, start, depth = "", 0, 0
    for number, line in enumerate(source.split("\n"), 1):
        start = start if held else number
        depth += sum(line.count(sign) for sign in "([{") - sum(line.count(sign) for sign in ")]}")
        held += line.removesuffix("\\") + " "
        if depth <= 0 and not line.endswith("\\"):
            yield start, held.rstrip()
            held, depth = "", 0
    if held:
        yield start, held.rstrip()


def textual_includes(source: str) -> Iterator[int]:
    """Lines of Cython source with ``include "file"``: what is shared lives in a .pxd."""
    return (number for number, line in enumerate(source.split("\n"), 1) if _INCLUDE.match(line))


def imports_of(path: Path, src: Path = SRC) -> list[Import]:
    name = module_of(path, src)
    package = name if path.stem == "__init__" else name.rpartition(".")[0]
    read = cython_imports if path.suffix in (".pyx", ".pxd") else python_imports
    return list(read(path.read_text(encoding="utf-8"), package))


def source_files(src: Path = SRC) -> list[Path]:
    return sorted(path for path in src.rglob("*") if path.suffix in (".py", ".pyi", ".pyx", ".pxd"))


# --- judging -----------------------------------------------------------------------------------


def floor_of(module: str) -> str | None:
    """The floor of a module of ours, or None if it is in no table."""
    root, _, inner = module.partition(".")
    if root == "pyspark_logstore":
        return root
    if root != "logstore":
        return None
    if not inner:
        return "head"
    first, _, rest = inner.partition(".")
    if inner == "replication.api":
        return inner
    if first == "log":
        return "log" if (rest or "__init__") in LOG else None
    if inner in VOCABULARY:
        return "vocabulary"
    if inner in CORE:
        return "core"
    return first if first in PACKAGES else None


def target_of(found: Import, known: Iterable[str]) -> str:
    """The module that an import means: a name taken from a package may be a module in it."""
    inner = f"{found.module}.{found.name}"
    return inner if found.name and inner in known else found.module


def problems_of(module: str, target: str) -> str | None:
    """Why a module may not import a target, or None if it may."""
    if module == target:  # a .pyx and its own .pxd
        return None
    floor = floor_of(module)
    if floor is None:
        return None  # reported once, as a file that is in no table
    root = target.partition(".")[0]
    if root not in ("logstore", "pyspark_logstore"):
        if root in sys.stdlib_module_names or root in CYTHON or root in THIRD_PARTY.get(floor, {root}):
            return None
        if root in TYPES_OF.get(module, ()):
            return None
        return f"{floor} may not import the package {root}"
    to = floor_of(target)
    if to is None:
        return f"{target} is in no table"
    if floor != to:
        return None if to in FLOORS[floor] else f"{floor} may not import {to} ({target})"
    inner, inner_to = (name.split(".")[-1] for name in (module, target))
    tables: Mapping[str, Mapping[str, set[str]]] = {"vocabulary": VOCABULARY, "core": CORE, "log": LOG}
    if floor == "log":
        inner, inner_to = (name.removeprefix("logstore.log").lstrip(".") or "__init__" for name in (module, target))
    if floor in tables and inner_to not in tables[floor][inner]:
        return f"{inner} may not import {inner_to}"
    return None


def violations(src: Path = SRC) -> list[str]:
    """Every forbidden arrow, unlisted file, cycle and textual include, with file and line."""
    files = source_files(src)
    known = {module_of(path, src) for path in files}
    found: list[str] = []
    arrows: dict[str, dict[str, str]] = {module: {} for module in known}
    for path in files:
        module, place = module_of(path, src), path.relative_to(src)
        if floor_of(module) is None:
            found.append(f"{place}: {module} is in no table")
        for item in imports_of(path, src):
            target = target_of(item, known)
            if problem := problems_of(module, target):
                found.append(f"{place}:{item.line}: {problem}")
            if target in known and target != module:
                arrows[module].setdefault(target, f"{place}:{item.line}")
        if path.suffix in (".pyx", ".pxd"):
            found += [f"{place}:{line}: textual include" for line in textual_includes(path.read_text("utf-8"))]
    return found + [f"cycle: {' -> '.join(cycle)}" for cycle in cycles(arrows)]


def cycles(arrows: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Cycles in a graph, at least one for each knot."""
    found: list[list[str]] = []
    done: set[str] = set()

    def visit(node: str, trail: list[str]) -> None:
        if node in trail:
            found.append([*trail[trail.index(node) :], node])
            return
        if node not in done:
            for target in sorted(arrows.get(node, ())):
                visit(target, [*trail, node])
            done.add(node)

    for node in sorted(arrows):
        visit(node, [])
    return found


def strangers(root: Path = ROOT) -> list[str]:
    """Files outside the package that import a compiled module of it."""
    found = []
    for path in sorted(root.glob("*/**/*.py")):
        top = path.relative_to(root).parts[0]
        if top in MAY_IMPORT_COMPILED or top in ("src", "build", "dist") or top.startswith("."):
            continue
        for item in python_imports(path.read_text(encoding="utf-8"), ""):
            names = f"{item.module}.{item.name}".split(".")
            if names[0] == "logstore" and any(re.match(r"_[a-z]", name) for name in names[1:]):
                found.append(f"{path.relative_to(root)}:{item.line}: {item.module} is compiled and ours alone")
    return found


# --- the tests ---------------------------------------------------------------------------------


def test_arrows_run_only_downward() -> None:
    found = violations()
    assert not found, "\n" + "\n".join(found)


def test_compiled_modules_are_imported_by_nobody_outside() -> None:
    found = strangers()
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize("table", [FLOORS, CORE, LOG, VOCABULARY], ids=["floors", "core", "log", "vocabulary"])
def test_a_table_has_no_cycle_and_no_unknown_name(table: Mapping[str, set[str]]) -> None:
    assert cycles(table) == []
    names = set().union(*table.values())
    assert names <= {*table, "console"}


def python(source: str) -> list[tuple[str, str]]:
    return [(item.module, item.name) for item in python_imports(source, "logstore.log")]


def cython(source: str) -> list[tuple[str, str]]:
    return [(item.module, item.name) for item in cython_imports(source, "logstore")]


def test_python_imports_are_found_wherever_they_stand() -> None:
    assert python("import a.b, c as d") == [("a.b", ""), ("c", "")]
    assert python("from . import files\nfrom .. import errors\nfrom ..store import x as y") == [
        ("logstore.log", "files"),
        ("logstore", "errors"),
        ("logstore.store", "x"),
    ]
    assert python("def f():\n  if g:\n    from a import (\n      b,  # why\n      c,\n    )") == [
        ("a", "b"),
        ("a", "c"),
    ]
    assert python("import_module('logstore.store')\nimportlib.import_module('a')\n__import__('b')") == [
        ("logstore.store", ""),
        ("a", ""),
        ("b", ""),
    ]
    assert python("'import a'\n# import b\nimporting = 1") == []


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("cimport cython", [("cython", "")]),
        ("import a.b as c, d", [("a.b", ""), ("d", "")]),
        (
            "from libc.stdint cimport int64_t, uint8_t as u8",
            [("libc.stdint", "int64_t"), ("libc.stdint", "uint8_t")],
        ),
        ("from . cimport _bytes", [("logstore", "_bytes")]),
        ("from ._bytes cimport load", [("logstore._bytes", "load")]),
        ("from a cimport (\n    b,  # one\n    c,\n)\nimport d", [("a", "b"), ("a", "c"), ("d", "")]),
        ("from a cimport b, \\\n    c", [("a", "b"), ("a", "c")]),
        ("cdef f():\n    import a", [("a", "")]),
        ("x = 1; import a; from b import c", [("a", ""), ("b", "c")]),
        ("if x: import a", [("a", "")]),
        ("from a cimport *", [("a", "*")]),
        ('cdef extern from "x.h" nogil:\n    int f()', []),
        ('"""\nimport a\n"""\nimport b', [("b", "")]),
        ("'''it's\nimport a\n'''\nimport b", [("b", "")]),
        ('x = "# no comment"; import a', [("a", "")]),
        ("# it's a comment\nimport a  # don't", [("a", "")]),
        ("x = 'import a'\nimportant = 2\ncdef int64_t from_ = 3", []),
        ("cdef int x = <int>y[0:3]\nassert p < end and not (a > b)", []),
    ],
)
def test_cython_imports_are_found_wherever_they_stand(source: str, expected: list[tuple[str, str]]) -> None:
    assert cython(source) == expected


def test_cython_imports_keep_their_line() -> None:
    source = '"""a\nb\n"""\n\nfrom a cimport (\n    b,\n)\nimport c\n'
    assert [(item.line, item.module) for item in cython_imports(source, "")] == [(5, "a"), (8, "c")]


PLANTED = [
    ("log/reader.py", "from logstore.store import Store", "log may not import store"),
    ("log/reader.py", "from .. import store", "log may not import store"),
    ("log/reader.py", "def f():\n    import logstore.testing", "log may not import testing"),
    ("log/files.py", "from logstore.log import segments", "files may not import segments"),
    ("log/files.py", "from .log import Log", "files may not import log"),
    ("log/files.py", "from . import Log", "files may not import __init__"),
    ("log/files.py", "import pyarrow", "log may not import the package pyarrow"),
    ("log/files.pyi", "import pyarrow", "log may not import the package pyarrow"),
    ("log/files.py", "import logstore", "log may not import head"),
    ("_crc32c.pyx", "from logstore._batch cimport view", "_crc32c may not import _batch"),
    ("_crc32c.pxd", "from . cimport _batch", "_crc32c may not import _batch"),
    ("_batch.pyx", "from logstore._segment cimport (\n    Segment,\n)", "_batch may not import _segment"),
    ("_batch.pyx", "cdef f():\n    from logstore.log import files", "core may not import log"),
    ("_batch.pyx", "import pandas as pd", "core may not import the package pandas"),
    ("_batch.pyx", 'include "shared.pxi"', "textual include"),
    ("errors.py", "from logstore import records", "errors may not import records"),
    ("errors.py", "import numpy", "vocabulary may not import the package numpy"),
    ("config.py", "from logstore import _batch", "vocabulary may not import core"),
    ("store/topics.py", "from logstore.broker import loop", "store may not import broker"),
    ("wire/codec.py", "from logstore.log import files", "wire may not import log"),
    ("spark/source.py", "from logstore.log import files", "spark may not import log"),
    ("zookeeper/registry.py", "from logstore.replication import isr", "zookeeper may not import replication"),
    ("aio.py", "from logstore.log import files", "aio may not import log"),
    ("surprise.py", "", "logstore.surprise is in no table"),
    ("log/surprise.py", "", "logstore.log.surprise is in no table"),
]


def plant(root: Path, files: Mapping[str, str]) -> Path:
    """A package with every module of the tables that the examples need, and the given files."""
    house = ["__init__.py", "errors.py", "records.py", "config.py", "aio.py", "_crc32c.pyx", "_batch.pyx"]
    house += [
        "_segment.pyx",
        "log/__init__.py",
        "log/files.py",
        "log/segments.py",
        "log/reader.py",
        "log/log.py",
    ]
    house += [f"{name}/__init__.py" for name in ("store", "broker", "replication", "testing")]
    house += ["broker/loop.py", "replication/isr.py", "replication/api.py"]
    for name in {**dict.fromkeys(house, ""), **files}:
        path = root / "logstore" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(files.get(name, ""))
    return root


@pytest.mark.parametrize(("name", "source", "message"), PLANTED)
def test_a_planted_violation_is_reported_with_its_place(
    tmp_path: Path, name: str, source: str, message: str
) -> None:
    found = violations(plant(tmp_path, {name: source}))
    assert len(found) == 1, found
    assert found[0].startswith(f"logstore/{name}:")
    assert message in found[0]


@pytest.mark.parametrize(
    ("name", "source"),
    [
        (
            "log/log.py",
            "from logstore.log import files, reader\nfrom logstore import _batch, errors\nimport numpy",
        ),
        ("log/__init__.py", "from logstore.log.log import Log"),
        (
            "_segment.pyx",
            "from libc.stdint cimport int64_t\nfrom logstore._batch cimport view\nimport lz4.block",
        ),
        ("_batch.pxd", "from logstore._crc32c cimport crc32c"),
        ("_batch.pyx", "from logstore._batch cimport BatchView"),
        ("store/topics.py", "from logstore.log import Log"),
        (
            "testing/fakes.py",
            "import hypothesis\nfrom logstore.store import x\nfrom logstore import _segment",
        ),
        ("zookeeper/registry.py", "import kazoo\nfrom logstore.replication.api import Registry"),
    ],
)
def test_arrows_downward_are_no_violation(tmp_path: Path, name: str, source: str) -> None:
    assert violations(plant(tmp_path, {name: source})) == []


def test_a_cycle_inside_a_floor_is_reported(tmp_path: Path) -> None:
    files = {"store/a.py": "from logstore.store import b", "store/b.py": "def f():\n    from . import a"}
    assert violations(plant(tmp_path, files)) == ["cycle: logstore.store.a -> logstore.store.b -> logstore.store.a"]


def test_a_compiled_module_imported_from_outside_is_reported(tmp_path: Path) -> None:
    for folder in ("examples", "tests"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.py").write_text("import logstore\nfrom logstore import _batch\n")
    assert strangers(tmp_path) == ["examples/x.py:2: logstore is compiled and ours alone"]
