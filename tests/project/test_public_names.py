"""Public names: the file that lists them, and how many a user meets."""

from __future__ import annotations

import ast
import difflib

import pytest

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


@pytest.mark.parametrize(
    ("path", "most"),
    [("logstore.Log", 22), ("logstore.Store", 20), ("logstore.Producer", 8), ("logstore.Consumer", 20)],
)
def test_a_user_meets_few_names(path: str, most: int) -> None:
    kind = getattr(logstore, path.removeprefix("logstore."))
    names = [name for name in dir(kind) if not name.startswith("_")]
    assert len(names) <= most, names


def test_the_package_has_few_names() -> None:
    assert len(logstore.__all__) <= 24


def test_a_changed_signature_is_seen() -> None:
    before = {name: found for name, found in public_names.wanted().items() if name == "logstore.TopicPartition"}
    ((name, found),) = before.items()
    assert isinstance(found.node, ast.ClassDef)
    changed = ast.parse(ast.unparse(found.node).replace("partition: int", "partition: str")).body[0]
    described = public_names.described
    assert [*described(name, found)] != [*described(name, found._replace(node=changed))]
