"""Arrows between modules run only downward.

The tables below say which module may import which; everything else in this file reads the sources. A new
module, and an arrow that the rows do not allow, is a change to a table, made in a commit of its own with its
reason.
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

#: Folder -> its rows of modules and folders, top row first: each may import what stands in a lower row.
LEVELS: dict[str, tuple[str, ...]] = {
    "logstore": (
        "__main__",
        "cli",
        "aio broker spark testing",
        "replication",
        "remote store",
        "client",
        "groups",
        "log",
        "_segment",
        "_segment_scan",
        "_segment_index",
        "accumulator columns _index protocol",
        "batch",
        "config io",
        "clock paths records topic_names",
        "errors",
        "dropped metrics renamed",
    ),
    "logstore.accumulator": (
        "replicated_batcher",
        "partition_batcher",
        "_partition_batches",
        "acknowledging syncing",
        "_batcher lifecycle _memory timer",
        "_alarms task_threads",
    ),
    "logstore.aio": (
        "store",
        "clients topics",
        "threads wakeups",
    ),
    "logstore.broker": (
        "broker",
        "exporter requests",
        "families fetching produce",
        "_produce",
        "served",
        "access",
        "_counts _loop _wire",
    ),
    "logstore.broker.access": (
        "rights",
        "authorizer",
    ),
    "logstore.broker.families": (
        "topics",
        "config_changes",
        "configs partitions",
        "cluster described elections log_dirs offsets producers records",
    ),
    "logstore.broker.fetching": (
        "fetches",
        "_fetch answer",
        "_steps",
        "_sessions",
        "_routes found",
        "_fields",
    ),
    "logstore.batch": (
        "moments runs",
        "_compaction_filter _encode",
        "_checked_batches _offset_map record_types",
        "_batch",
        "_bytes _codec _crc32c _key_hash",
    ),
    "logstore.cli": (
        "commands",
        "completion __main__ serve",
        "forms main positions store_option",
        "advice output param_types",
    ),
    "logstore.cli.commands": (
        "config excerpt transfer",
        "bench consume dir_commands doctor offsets pipeline produce segments topics",
    ),
    "logstore.client": (
        "dbapi streams",
        "store",
        "consumer topic",
        "group_subscription",
        "commits",
        "subscription",
        "lag partition_position",
        "producer scan",
        "backend partitioners",
    ),
    "logstore.client.backend": (
        "ranges",
        "backend",
        "batch_appends batch_writer fetcher group_offsets source",
        "facts findings members membership partitions",
    ),
    "logstore.client.scan": (
        "topic_scan",
        "encoding read_ahead spans",
    ),
    "logstore.columns": (
        "arrays value_schema",
        "_numpy tables _values",
        "_export _partition_rows",
        "_builder _import _json_values",
        "_arrow _json",
    ),
    "logstore.config": (
        "checks security",
        "remote store",
        "broker client log text",
        "schema",
        "generated kafka_keys quantities secrets",
    ),
    "logstore.config.generated": ("keywords",),
    "logstore.groups": (
        "membership",
        "assignors",
        "offsets resume",
    ),
    "logstore.groups.membership": (
        "classic modern",
        "member",
        "coordination holdings protocols",
        "steps timing",
    ),
    "logstore.groups.assignors": (
        "cooperative",
        "sticky",
        "balanced unequal",
        "claims embedded nearness ranges round_robin",
        "user_data",
        "members",
    ),
    "logstore.io": (
        "side_by_side",
        "_file_region _notifier _preallocation",
        "_files",
        "_libc",
        "_clock _eventfd _file_ops _interrupts _shared_block _watch",
    ),
    "logstore.log": (
        "log",
        "maintenance replica",
        "append",
        "cleanup compaction tools",
        "state",
        "rolling",
        "durability",
        "read transactions",
        "recovery",
        "root",
        "_partition_log",
        "formats write_modes",
        "directory marks _producers space_quota",
    ),
    "logstore.log.append": (
        "encoded_run ingest_file replicated",
        "append",
        "flush",
        "_log_rounds",
        "appender _group_commit _offers _replicated_run validation",
    ),
    "logstore.log.cleanup": (
        "retention",
        "truncation",
    ),
    "logstore.log.compaction": (
        "compaction",
        "plan segment_swap transaction_filter",
    ),
    "logstore.log.directory": (
        "lock segments unsynced",
        "next_segment _segment_set",
        "files",
    ),
    "logstore.log.formats": (
        "aborted_files epoch_file",
        "cleaned last_stop leader_epochs producer_snapshot recovery_point transaction_index",
        "checkpoints",
        "_published _recovery_slot",
    ),
    "logstore.log.marks": (
        "_marks policies view",
        "_watermark",
    ),
    "logstore.log.read": (
        "wait",
        "live_reader",
        "reader",
        "replica maintenance remainder",
        "timestamps",
        "viewed_log",
        "range",
        "damage _record_count segment_holds",
    ),
    "logstore.log.recovery": (
        "recovered",
        "recovery",
        "interrupted_swap",
    ),
    "logstore.log.rolling": (
        "rolls",
        "roll_age worker",
    ),
    "logstore.log.tools": (
        "repair",
        "checkpoint_copy verify",
    ),
    "logstore.protocol": (
        "frames",
        "generated",
        "message",
        "_schema",
        "_reading _writing",
        "_batches codes _fields grouping",
    ),
    "logstore.protocol.generated": ("embedded messages records",),
    "logstore.remote": (
        "diagnosis topics",
        "backend",
        "producer",
        "topic_settings",
        "client",
        "administration",
        "cluster",
        "produce",
        "backoff network",
        "credentials",
        "fetch metadata sasl security",
        "answers",
    ),
    "logstore.remote.diagnosis": (
        "diagnosis",
        "contact partitions rights",
    ),
    "logstore.remote.fetch": ("position session",),
    "logstore.remote.metadata": (
        "bootstrap refresher",
        "known",
    ),
    "logstore.remote.produce": (
        "sending",
        "requests splitting",
        "batches",
    ),
    "logstore.remote.topics": (
        "store",
        "topic",
        "appends",
    ),
    "logstore.remote.network": (
        "link metadata_updates",
        "loop",
        "connection",
        "calls frames_in opening",
    ),
    "logstore.remote.backend": (
        "ranges",
        "backend",
        "batch_writer fetcher membership",
        "fetching",
        "cursors group_offsets member_loop",
        "partition topic_lookup",
    ),
    "logstore.remote.sasl": (
        "mechanisms",
        "tokens",
    ),
    "logstore.remote.security": (
        "context transports",
        "keystores",
    ),
    "logstore.replication": (
        "node",
        "controller insync quorum",
        "deletion local placement table_registry",
        "commit_rules election facts fetch_messages log_copy waiting_appends",
        "api",
    ),
    "logstore.replication.controller": (
        "loop",
        "office",
        "controller",
        "claim cluster_view commands spread",
    ),
    "logstore.replication.local": ("local_registry", "facts_file"),
    "logstore.replication.node": (
        "node",
        "answers fetcher registry_loop replicas",
        "deletions moved_replicas",
        "member",
        "registration",
        "held_replicas notices",
    ),
    "logstore.spark": (
        "source",
        "pipelines writing",
        "reading",
        "functions jvm option_parser pickling",
    ),
    "logstore.spark.pipelines": (
        "stages",
        "activity files latest rollup surge",
        "archive input",
        "restore running",
        "output",
        "topics",
        "hadoop parameters reasons",
    ),
    "logstore.spark.pipelines.input": (
        "lines",
        "values",
    ),
    "logstore.spark.pipelines.output": (
        "outputs",
        "archives written",
    ),
    "logstore.spark.pipelines.running": ("queries session",),
    "logstore.spark.reading": (
        "group_progress partition triggers",
        "fetches",
        "plan schema",
        "offsets options pushdown",
    ),
    "logstore.spark.writing": (
        "sink",
        "bootstrap",
        "options",
        "rows",
        "columns",
    ),
    "logstore.store": (
        "commit_client ranges",
        "store",
        "backend",
        "batch_writer",
        "host",
        "requests",
        "admin committed_offsets fetcher",
        "descriptions lifecycle maintenance topic",
        "bulk_append catalog commit",
    ),
    "logstore.store.admin": (
        "rebuild",
        "kafka_directories",
        "diagnosis kafka_metadata snapshots transfer",
    ),
    "logstore.store.catalog": (
        "topics",
        "partitions",
        "layout reserve",
        "catalogue_file node_file",
        "topic_list",
        "change_blocks",
    ),
    "logstore.store.commit": (
        "ingest",
        "kept restore",
        "commit_log staged_reader",
        "staged_writer",
    ),
    "logstore.store.maintenance": (
        "disk_quota",
        "tasks",
        "scheduler",
    ),
    "logstore.store.requests": (
        "asking commit_server",
        "channel requests",
    ),
    "logstore.testing": (
        "conformance plugin",
        "cluster stores",
        "simdisk",
        "_simdisk",
        "_faults",
        "clock _disk _slow_sync strategies",
    ),
    "logstore.testing.cluster": (
        "life",
        "cluster",
        "node",
        "controllers member",
        "ledger",
        "contents steps",
        "scene",
        "network registry",
        "world",
    ),
    "logstore.testing.conformance": (
        "producers",
        "backends clocks databases file_tables high_watermark_policies partitioners readables registries "
        "transports",
        "replicas",
        "copies",
    ),
}

_VOCABULARY = {"clock", "config", "dropped", "errors", "metrics", "paths", "records", "renamed", "topic_names"}
_SEGMENT = _VOCABULARY | {"batch", "io", "_index", "_segment", "_segment_index", "_segment_scan"}
_LOG = _SEGMENT | {"accumulator", "columns", "log"}
_CLIENT = _LOG | {"groups", "client"}

#: Folder at the top -> what it may import of the others at the top; one that is not named may import any lower row.
REACH: dict[str, set[str]] = {
    "config": _VOCABULARY,
    "io": _VOCABULARY,
    "batch": _VOCABULARY,
    "columns": _VOCABULARY | {"batch"},
    "log": _LOG,
    "accumulator": _VOCABULARY | {"batch", "io"},
    "groups": _VOCABULARY | {"protocol"},
    "client": _CLIENT,
    "store": _CLIENT | {"protocol"},
    "protocol": _VOCABULARY | {"batch"},
    "remote": _VOCABULARY | {"accumulator", "batch", "client", "groups", "io", "protocol"},
    "spark": _VOCABULARY | {"batch", "client", "columns", "groups", "remote", "store"},
    "aio": _VOCABULARY | {"batch", "client", "io", "log", "remote", "store"},
    "replication": _LOG | {"protocol", "store"},
    "broker": _LOG | {"protocol", "replication", "store"},
    "testing": _CLIENT | {"replication", "store"},
}

#: The outermost: of the package, only the command line imports them.
OUTERMOST = {"aio", "broker", "cli", "spark", "testing"}

#: Folder -> what others may import of it: of a cluster its back end, its topics, and what is wrong with it.
#: Requests (`remote/client`) are its own affair.
FACES = {"remote": {"backend", "diagnosis", "topics"}}

#: typing_extensions stands for the stubs, which no program imports.
_NUMBERS_AND_CODECS = {"numpy", "lz4", "zstandard", "cramjam", "typing_extensions"}

#: Folder or module at the top -> the packages from elsewhere that it may import; none, if it is not named.
THIRD_PARTY: dict[str, set[str]] = dict.fromkeys(
    ("batch", "io", "columns", "log", "accumulator", "client", "store", "protocol"), _NUMBERS_AND_CODECS
)
THIRD_PARTY |= dict.fromkeys(("_index", "_segment", "_segment_index", "_segment_scan"), _NUMBERS_AND_CODECS)
THIRD_PARTY |= {folder: {"typing_extensions"} for folder in ("aio", "broker", "replication")}
THIRD_PARTY["broker"] |= {"prometheus_client"}

#: These may import any package.
FREE = {"cli", "remote", "spark", "testing"}

#: Packages that their own modules may import: they import none of these before they are asked for one.
BASES = {"logstore.spark", "logstore.spark.pipelines"}

#: Module -> packages whose types it names: it imports what a caller asks for, when it is asked for.
TYPES_OF = {"logstore.columns.tables": {"duckdb", "pandas", "polars", "pyarrow"}}

#: What Cython brings along for `cimport`.
CYTHON = {"cpython", "cython", "libc", "posix"}

#: Folders outside the package that may import compiled modules: they test and measure them.
MAY_IMPORT_COMPILED = {"tests", "benchmarks"}


class Rules(NamedTuple):
    """The tables above, or those of a made-up package."""

    levels: Mapping[str, tuple[str, ...]] = LEVELS
    reach: Mapping[str, set[str]] = REACH

    def level_of(self, folder: str, name: str) -> int | None:
        """The row of a module or folder, counted from the lowest; None if it stands in no row."""
        rows = self.levels.get(folder, ())
        return next((len(rows) - n for n, row in enumerate(rows) if name in row.split()), None)


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


def place_of(module: str, packages: Iterable[str]) -> list[str]:
    """The folders of a module and its own name; a package's ``__init__`` is a module of the package."""
    return [*module.split("."), *["__init__"] * (module in packages)]


def target_of(found: Import, known: Iterable[str]) -> str:
    """The module that an import means: a name taken from a package may be a module in it."""
    inner = f"{found.module}.{found.name}"
    return inner if found.name and inner in known else found.module


def unlisted(module: str, rules: Rules) -> str | None:
    """What is in no row: the module, or a folder that it stands in."""
    parts = module.split(".")
    for n in range(1, len(parts)):
        folder = ".".join(parts[:n])
        if rules.level_of(folder, parts[n]) is None:
            return f"{parts[n]} is in no row of {folder}"
    return None


def problem_of(module: str, target: str, packages: Iterable[str], rules: Rules) -> str | None:
    """Why a module may not import a target, or None if it may."""
    root = target.partition(".")[0]
    if module.startswith("pyspark_logstore"):
        return None if root != "logstore" or target.startswith("logstore.spark") else f"not Spark's: {target}"
    top = [*module.split("."), "logstore"][1]
    if root != "logstore":
        if root in sys.stdlib_module_names or root in CYTHON or top in FREE or root in TYPES_OF.get(module, ()):
            return None
        return None if root in THIRD_PARTY.get(top, ()) else f"{top} may not import the package {root}"
    importer, imported = place_of(module, packages), place_of(target, packages)
    common = next(n for n, pair in enumerate(zip(importer, imported, strict=False)) if len(set(pair)) == 2)
    folder, one, other = ".".join(importer[:common]), importer[common], imported[common]
    if one == "__init__":
        return None
    refused = f"{one} may not import {other} ({target})"
    if other == "__init__":
        return None if one == "cli" or folder in BASES else refused
    if folder == "logstore":
        is_outer = other in OUTERMOST and one not in ("__main__", "cli") and (one, other) != ("testing", "aio")
        if is_outer or other not in rules.reach.get(one, {other}):
            return refused
        if other in FACES and not FACES[other] & set(imported[common + 1 :][:1]):
            return f"{one} may import only {', '.join(sorted(FACES[other]))} of {other} ({target})"
    high, low = rules.level_of(folder, one), rules.level_of(folder, other)
    return None if high is None or low is None or low < high else refused


def violations(src: Path = SRC, rules: Rules | None = None) -> list[str]:
    """Every forbidden arrow, unlisted file, cycle and textual include, with file and line."""
    rules = rules or Rules()
    files = source_files(src)
    known = {module_of(path, src) for path in files}
    packages = {module_of(path, src) for path in files if path.stem == "__init__"}
    found: list[str] = []
    arrows: dict[str, dict[str, str]] = {module: {} for module in known}
    for path in files:
        module, place = module_of(path, src), path.relative_to(src)
        if module.startswith("logstore.") and (missing := unlisted(module, rules)):
            found.append(f"{place}: {missing}")
        for item in imports_of(path, src):
            target = target_of(item, known)
            if target != module and (problem := problem_of(module, target, packages, rules)):
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


def entries(folder: Path) -> int:
    """Modules and folders in a folder; the .pyx, .pxd and .pyi of one name are one module, ``__init__`` is none."""
    return len({path.stem for path in folder.iterdir() if path.suffix in (".py", ".pyi", ".pyx", ".pxd")} - _FACES)


_FACES = {"__init__", "__main__"}
MOST_MODULES = 12
MOST_ENTRIES = 41


def test_a_folder_can_be_taken_in_at_a_glance() -> None:
    folders = [path.parent for path in (SRC / "logstore").rglob("__init__.py")]
    crowded = {
        str(folder.relative_to(SRC)): entries(folder) for folder in folders if entries(folder) > MOST_MODULES
    }
    assert not crowded
    generated = {".so", ".c", ".html"}
    top = [
        path for path in (SRC / "logstore").iterdir() if path.suffix not in generated and path.name != "__pycache__"
    ]
    assert len(top) <= MOST_ENTRIES, sorted(path.name for path in top)
    # Generated code stands apart, also if it is one module.
    written = [folder for folder in folders if folder.name != "generated"]
    alone = [str(folder.relative_to(SRC)) for folder in written if entries(folder) + _folders(folder) < 2]
    assert not alone, "a folder with one module"


def _folders(folder: Path) -> int:
    return sum((path / "__init__.py").exists() for path in folder.iterdir())


#: Folders without one for their tests: generated code, and what only whole pipelines show.
WITHOUT_TESTS = {"config/generated", "protocol/generated", "spark/pipelines/input"}


def test_tests_stand_in_the_folders_of_what_they_test() -> None:
    package = SRC / "logstore"
    folders = {path.parent.relative_to(package).as_posix() for path in package.rglob("__init__.py")}
    missing = {name for name in folders if not any((ROOT / "tests" / name).rglob("test_*.py"))}
    assert missing == WITHOUT_TESTS


def test_arrows_run_only_downward() -> None:
    found = violations()
    assert not found, "\n" + "\n".join(found)


def test_compiled_modules_are_imported_by_no_module_outside() -> None:
    found = strangers()
    assert not found, "\n" + "\n".join(found)


def test_the_rows_name_what_there_is_and_nothing_twice() -> None:
    modules = {module_of(path) for path in source_files()}
    for folder, rows in LEVELS.items():
        names = " ".join(rows).split()
        assert sorted(set(names)) == sorted(names)
        there = {module.split(".")[folder.count(".") + 1] for module in modules if module.startswith(f"{folder}.")}
        assert set(names) == there, folder
    tops = set(" ".join(LEVELS["logstore"]).split())
    assert (set(REACH) | OUTERMOST | set().union(*REACH.values())) <= tops


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


MADE_UP = Rules(
    {
        "logstore": (
            "cli",
            "aio spark testing",
            "store remote",
            "log",
            "_segment",
            "batch",
            "config errors records",
        ),
        "logstore.log": ("log", "reader", "segments", "files"),
        "logstore.batch": ("_batch", "_crc32c"),
        "logstore.config": ("text", "schema"),
        "logstore.store": ("topics", "commit"),
        "logstore.store.commit": ("ingest", "letters"),
        "logstore.spark": ("source",),
        "logstore.testing": (),
        "logstore.remote": ("client",),
    },
    REACH | {"store": _CLIENT | {"log"}},
)

PLANTED = [
    ("log/reader.py", "from logstore.store import Store", "log may not import store"),
    ("log/reader.py", "from .. import store", "log may not import store"),
    ("log/reader.py", "def f():\n    import logstore.testing", "log may not import testing"),
    ("log/files.py", "from logstore.log import segments", "files may not import segments"),
    ("log/files.py", "from .log import Log", "files may not import log"),
    ("log/files.py", "from . import Log", "files may not import __init__"),
    ("log/files.py", "import pyarrow", "log may not import the package pyarrow"),
    ("log/files.pyi", "import pyarrow", "log may not import the package pyarrow"),
    ("log/files.py", "import logstore", "log may not import __init__"),
    ("batch/_crc32c.pyx", "from logstore.batch._batch cimport view", "_crc32c may not import _batch"),
    ("batch/_crc32c.pxd", "from . cimport _batch", "_crc32c may not import _batch"),
    ("batch/_batch.pyx", "from logstore._segment cimport (\n    Segment,\n)", "batch may not import _segment"),
    ("batch/_batch.pyx", "cdef f():\n    from logstore.log import files", "batch may not import log"),
    ("_segment.pyx", "from logstore.log.files cimport x", "_segment may not import log"),
    ("_segment.pyx", "import pandas as pd", "_segment may not import the package pandas"),
    ("_segment.pyx", 'include "shared.pxi"', "textual include"),
    ("errors.py", "from logstore import records", "errors may not import records"),
    ("errors.py", "import numpy", "errors may not import the package numpy"),
    ("config/schema.py", "from logstore.config import text", "schema may not import text"),
    ("config/text.py", "from logstore import batch", "config may not import batch"),
    ("store/topics.py", "from logstore.remote import client", "store may not import remote"),
    ("store/commit/letters.py", "from logstore.store import topics", "commit may not import topics"),
    ("store/commit/letters.py", "from logstore.store.commit.ingest import x", "letters may not import ingest"),
    ("remote/client.py", "from logstore.log import files", "remote may not import log"),
    ("spark/source.py", "from logstore.log import files", "spark may not import log"),
    ("spark/source.py", "from logstore.remote import client", "only backend, diagnosis, topics of remote"),
    ("spark/source.py", "import logstore.remote", "only backend, diagnosis, topics of remote"),
    ("aio.py", "from logstore.columns import tables", "aio may not import columns"),
    ("surprise.py", "", "surprise is in no row of logstore"),
    ("log/surprise.py", "", "surprise is in no row of logstore.log"),
]


def plant(root: Path, files: Mapping[str, str]) -> Path:
    """A package with every module that the examples need, and the given files."""
    house = ["__init__.py", "errors.py", "records.py", "aio.py", "_segment.pyx"]
    house += [
        f"{name}/__init__.py" for name in ("batch", "config", "log", "remote", "store", "store/commit", "testing")
    ]
    house += ["spark/source.py", "batch/_batch.pyx", "batch/_crc32c.pyx", "config/schema.py", "config/text.py"]
    house += [f"log/{name}.py" for name in ("files", "segments", "reader", "log")]
    house += ["remote/client.py", "store/topics.py", "store/commit/letters.py", "store/commit/ingest.py"]
    for name in {**dict.fromkeys(house, ""), **files}:
        path = root / "logstore" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(files.get(name, ""))
    return root


@pytest.mark.parametrize(("name", "source", "message"), PLANTED)
def test_a_planted_violation_is_reported_with_its_place(
    tmp_path: Path, name: str, source: str, message: str
) -> None:
    found = violations(plant(tmp_path, {name: source}), MADE_UP)
    assert len(found) == 1, found
    assert found[0].startswith(f"logstore/{name}:")
    assert message in found[0]


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("log/log.py", "from logstore.log import files, reader\nfrom logstore import errors\nimport numpy"),
        ("log/__init__.py", "from logstore.log.log import Log"),
        (
            "_segment.pyx",
            "from libc.stdint cimport int64_t\nfrom logstore.batch._batch cimport view\nimport lz4.block",
        ),
        ("batch/_batch.pxd", "from logstore.batch._crc32c cimport crc32c"),
        ("batch/_batch.pyx", "from logstore.batch._batch cimport BatchView"),
        ("store/topics.py", "from logstore.log import Log\nfrom logstore.store.commit import ingest"),
        ("testing/fakes.py", "import hypothesis\nfrom logstore.store import x\nfrom logstore import _segment"),
        ("spark/source.py", "import pyspark\nfrom logstore.store import open_store"),
    ],
)
def test_arrows_downward_are_no_violation(tmp_path: Path, name: str, source: str) -> None:
    levels = {**MADE_UP.levels, "logstore.testing": ("fakes",)}
    assert violations(plant(tmp_path, {name: source}), MADE_UP._replace(levels=levels)) == []


def test_a_cycle_is_reported(tmp_path: Path) -> None:
    files = {"store/a.py": "from logstore.store import b", "store/b.py": "def f():\n    from . import a"}
    levels = {**MADE_UP.levels, "logstore.store": ("topics", "commit", "a b")}
    assert violations(plant(tmp_path, files), MADE_UP._replace(levels=levels)) == [
        "logstore/store/a.py:1: a may not import b (logstore.store.b)",
        "logstore/store/b.py:2: b may not import a (logstore.store.a)",
        "cycle: logstore.store.a -> logstore.store.b -> logstore.store.a",
    ]


def test_a_compiled_module_imported_from_outside_is_reported(tmp_path: Path) -> None:
    for folder in ("examples", "tests"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.py").write_text("import logstore\nfrom logstore import _batch\n")
    assert strangers(tmp_path) == ["examples/x.py:2: logstore is compiled and ours alone"]
