"""Public names: the file that lists them, and how many a user meets."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator
from pathlib import Path

import logstore
from tests.project import public_names

FILE = public_names.ROOT / "docs/public-names.txt"


def test_the_public_names_are_those_of_the_file() -> None:
    changes = difflib.unified_diff(
        FILE.read_text("utf-8").splitlines(),
        public_names.text().splitlines(),
        "promised",
        "there",
        n=0,
        lineterm="",
    )
    assert not [*changes], (
        "public names or signatures have changed: keep the former ones importable with a DeprecationWarning, "
        "say so in news/, and run: python -m tests.project.public_names > docs/public-names.txt"
    )


def names_of(thing: object) -> list[str]:
    """Return the public names of an object, attributes that its constructor sets included."""
    return [name for name in dir(thing) if not name.startswith("_")]


def test_a_user_meets_few_names(tmp_path: Path) -> None:
    with logstore.open(tmp_path / "store") as store, logstore.Log.open(tmp_path / "logs/flights-0") as log:
        with store.producer() as producer, store.consumer() as consumer:
            # A log is opened in one step or in two; a store makes topics singly and together; a consumer gets its
            # partitions by name or from its group.
            for thing, most in ((log, 23), (store, 23), (producer, 8), (consumer, 22)):
                assert len(names_of(thing)) <= most, names_of(thing)


#: Classes with more public methods: one for each, and why.
WITH_MANY_METHODS = {
    "logstore.log.state.State": "as many of its own as of its base, `PartitionLog`",
    "logstore.log.transactions.Transactions": "one for each event of a log: batch, marker, roll, cut, swap, sync",
    "logstore.testing._faults.FaultyFiles": "as many for the faults of a test as of its base, `Files`",
    "logstore.testing._simdisk.SimFiles": "one method for each operation of a disk's table, and those of a test",
    "logstore.testing.simdisk.SimDisk": "as its base `SimFiles`",
}


def classes() -> Iterator[tuple[str, ast.ClassDef]]:
    """Return every class below src/, compiled ones by their stubs, and its module's name."""
    for path in sorted((public_names.ROOT / "src").rglob("*.py*")):
        if path.suffix in (".py", ".pyi") and "generated" not in path.parts:
            module = ".".join(path.relative_to(public_names.ROOT / "src").with_suffix("").parts)
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.ClassDef):
                    yield module, node


def test_no_class_has_more_than_25_public_methods() -> None:
    large = {}
    for module, node in classes():
        members = public_names.members(public_names.Found(module, node))
        methods = [name for name, text in members.items() if name and text.startswith("(")]
        if len(methods) > 25:
            large[f"{module}.{node.name}"] = methods
    assert large.keys() <= WITH_MANY_METHODS.keys(), large


def test_the_package_has_few_names() -> None:
    assert len(logstore.__all__) <= 24


def test_a_changed_signature_is_seen() -> None:
    before = {name: found for name, found in public_names.wanted().items() if name == "logstore.TopicPartition"}
    ((name, found),) = before.items()
    assert isinstance(found.node, ast.ClassDef)
    changed = ast.parse(ast.unparse(found.node).replace("partition: int", "partition: str")).body[0]
    described = public_names.described
    assert [*described(name, found)] != [*described(name, found._replace(node=changed))]
