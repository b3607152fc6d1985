"""Signatures of compiled functions, read from the stubs beside them: the machine code itself knows none."""

from __future__ import annotations

import ast
import functools
import importlib.util
from pathlib import Path
from typing import Any

#: Made by a function of ours, or with more settings than a line holds: their own signature tells nothing.
MADE_FOR_YOU = {
    "Appender",
    "BatchView",
    "Batches",
    "Consumer",
    "ConsumerConfig",
    "Log",
    "LogConfig",
    "LogReader",
    "Producer",
    "ProducerConfig",
    "Record",
    "Scan",
    "Store",
    "StoreConfig",
    "Topic",
    "TopicScan",
}


@functools.cache
def _functions_of(module: str) -> dict[str, ast.FunctionDef]:
    """Qualified name -> function, of the stub of a compiled module; empty for others."""
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None or not spec.origin.endswith(".so"):
        return {}
    stub = Path(spec.origin).with_name(module.rpartition(".")[2] + ".pyi")
    found: dict[str, ast.FunctionDef] = {}
    for node in ast.parse(stub.read_text("utf-8")).body if stub.exists() else []:
        if isinstance(node, ast.FunctionDef):
            found[node.name] = node
        elif isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{part.name}": part for part in node.body if isinstance(part, ast.FunctionDef)}
    return found


def process(
    app: Any, what: str, name: str, obj: Any, options: Any, signature: str | None, returns: str | None
) -> tuple[str | None, str | None] | None:
    """Sphinx's hook: the signature as it shall be shown."""
    if what in ("class", "exception"):
        # Sphinx takes an answer only where it has found a signature itself.
        return ("", None) if signature and getattr(obj, "__name__", "") in MADE_FOR_YOU else None
    if what not in ("function", "method"):
        return None
    owner = getattr(obj, "__objclass__", None)
    module = getattr(owner, "__module__", None) or getattr(obj, "__module__", None)
    inner = f"{owner.__name__}.{obj.__name__}" if owner else getattr(obj, "__qualname__", "")
    function = _functions_of(module).get(inner) if module else None
    if function is None:
        return None
    arguments = ast.unparse(function.args).removeprefix("self, ").removeprefix("self")
    return f"({arguments})", ast.unparse(function.returns) if function.returns else None
