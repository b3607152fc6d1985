"""Benchmarks import only names that exist: `make bench` is not part of `make test`, which would not notice."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "benchmarks").rglob("*.py"))


def exists(module: str, name: str) -> bool:
    if hasattr(importlib.import_module(module), name):
        return True
    try:
        importlib.import_module(f"{module}.{name}")
    except ImportError:
        return False
    return True


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_benchmark_imports_only_names_that_exist(path: Path) -> None:
    missing = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "logstore":
            if node.module is None or node.module.startswith("logstore.spark"):
                continue  # needs PySpark
            missing += [f"{node.module}.{name.name}" for name in node.names if not exists(node.module, name.name)]
    assert not missing
