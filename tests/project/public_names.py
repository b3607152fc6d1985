"""Public names of the library with their signatures, read from its sources and stubs.

    python -m tests.project.public_names > docs/public-names.txt

Public is what the reference's pages name, what `__all__` of `logstore`, `logstore.aio`, `logstore.log` and
`logstore.spark` lists, and the public names of these classes, inherited ones included.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import logstore

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs/reference"
PACKAGES = ("logstore", "logstore.aio", "logstore.log", "logstore.spark")

_DIRECTIVE = re.compile(r"^\.\. auto(class|function|module):: (\S+)", re.MULTILINE)

Node = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


class Found(NamedTuple):
    """A definition, and the module that it stands in."""

    module: str
    node: ast.stmt


@functools.cache
def tree(module: str) -> ast.Module | None:
    """Return the source of a module, the stub of a compiled one; None if there is no such module."""
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        return None
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin)
    if path.suffix == ".so":
        path = path.with_name(module.rpartition(".")[2] + ".pyi")
    return ast.parse(path.read_text("utf-8")) if path.exists() else None


@functools.cache
def names(module: str) -> dict[str, ast.stmt]:
    """Return what a module defines or imports at its top level, by name."""
    found: dict[str, ast.stmt] = {}
    body = list(getattr(tree(module), "body", ()))
    while body:
        node = body.pop(0)
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                found.setdefault(node.name, node)
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                found.setdefault(name, node)
            case ast.ImportFrom() | ast.Import():
                found |= {alias.asname or alias.name: node for alias in node.names}
            case ast.If():
                body = [*node.body, *node.orelse, *body]
    return found


def resolve(module: str, name: str) -> Found | None:
    """Return the definition that a name of a module leads to; None if it is not one of ours."""
    node = names(module).get(name)
    if isinstance(node, ast.ImportFrom):
        if node.level or not (node.module or "").startswith("logstore"):
            return None
        (alias,) = [each for each in node.names if (each.asname or each.name) == name]
        return resolve(node.module or "", alias.name)
    return None if node is None or isinstance(node, ast.Import) else Found(module, node)


def exported(module: str) -> list[str]:
    """Return the names of `__all__`, else those that are defined in the module and have no underscore."""
    node = names(module).get("__all__")
    if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
        return [str(each) for each in ast.literal_eval(node.value)]
    return [
        name
        for name, each in names(module).items()
        if not name.startswith("_") and isinstance(each, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def signature(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"({ast.unparse(node.args)}){returns}"


#: Made by a function of ours, such as `logstore.open`: their constructors are not public.
MADE_BY_FUNCTIONS = {
    *("Adopted", "Appender", "BatchView", "Batches", "Consumer", "HandBack", "Log", "LogReader", "MessageStream"),
    *("Producer", "Record", "Scan", "Store", "Topic", "TopicScan"),
}


def attributes(init: ast.FunctionDef) -> dict[str, str]:
    """Return the public attributes that a constructor sets, with their types as far as it says them."""
    types = {each.arg: each.annotation for each in (*init.args.args, *init.args.kwonlyargs)}
    listed: dict[str, str] = {}
    for node in ast.walk(init):
        match node:
            case ast.AnnAssign(target=ast.Attribute(value=ast.Name(id="self"), attr=name), annotation=annotation):
                listed[name] = f": {ast.unparse(annotation)}"
            case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)], value=value):
                known = types.get(value.id) if isinstance(value, ast.Name) else None
                listed.setdefault(name, "" if known is None else f": {ast.unparse(known)}")
    return {name: text for name, text in listed.items() if not name.startswith("_")}


def members(found: Found) -> dict[str, str]:
    """Return the public names of a class with their signatures, those of its bases of ours included.

    An error's constructor, and its attributes, are those of `LogstoreError` unless it has its own.
    """
    assert isinstance(found.node, ast.ClassDef)
    listed: dict[str, str] = {}
    for base in found.node.bases:
        stem = base.value if isinstance(base, ast.Subscript) else base
        inherited = resolve(found.module, stem.id) if isinstance(stem, ast.Name) else None
        if inherited is not None and isinstance(inherited.node, ast.ClassDef):
            listed |= {} if inherited.module == "logstore.errors" else members(inherited)
    for node in found.node.body:
        match node:
            case ast.FunctionDef(name="__init__"):
                listed |= {name: text or listed.get(name, "") for name, text in attributes(node).items()}
                if found.node.name not in MADE_BY_FUNCTIONS:
                    listed[""] = signature(node)
            case ast.FunctionDef() | ast.AsyncFunctionDef() if not node.name.startswith("_"):
                marks = {ast.unparse(each) for each in node.decorator_list}
                if "property" in marks:
                    listed[node.name] = f": {ast.unparse(node.returns) if node.returns else 'Any'}"
                elif not any(mark.endswith(".setter") for mark in marks):
                    kinds = [mark for mark in ("classmethod", "staticmethod") if mark in marks]
                    kinds += ["async"] if isinstance(node, ast.AsyncFunctionDef) else []
                    listed[node.name] = signature(node) + "".join(f" [{kind}]" for kind in kinds)
            case ast.AnnAssign(target=ast.Name(id=name)) if not name.startswith("_"):
                default = f" = {ast.unparse(node.value)}" if node.value is not None else ""
                listed[name] = f": {ast.unparse(node.annotation)}{default}"
            case ast.Assign(targets=[ast.Name(id=name)]) if not name.startswith("_"):
                listed[name] = f" = {ast.unparse(node.value)}"
    return listed


def described(name: str, found: Found) -> Iterator[str]:
    node = found.node
    if isinstance(node, ast.ClassDef):
        bases = ", ".join(ast.unparse(each) for each in node.bases)
        listed = members(found)
        yield f"class {name}({bases}){' takes ' + listed.pop('') if '' in listed else ''}"
        for member, text in sorted(listed.items()):
            yield f"    {member}{text}"
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        yield f"def {name}{signature(node)}"
    else:
        yield ast.unparse(node)


def wanted() -> dict[str, Found]:
    """Return every public name and its definition."""
    paths: dict[str, tuple[str, str]] = {}
    for name in [*logstore.__all__, "connect", "open"]:
        home = logstore._HOMES[name]
        paths[f"logstore.{name}"] = (home, name)
    for package in PACKAGES[1:]:
        paths |= {f"{package}.{name}": (package, name) for name in exported(package)}
    for page in sorted(PAGES.glob("*.md")):
        for kind, path in _DIRECTIVE.findall(page.read_text("utf-8")):
            if kind == "module":
                paths |= {f"{path}.{name}": (path, name) for name in exported(path)}
            elif path not in paths:
                module, _, name = path.rpartition(".")
                paths[path] = (module, name)
    found = {path: resolve(*place) for path, place in paths.items()}
    # One that is public in two places is described in the shorter one.
    first: dict[int, str] = {}
    for path in sorted(found, key=lambda each: (each.count("."), each)):
        if (definition := found[path]) is not None:
            first.setdefault(id(definition.node), path)
    return {path: each for path, each in found.items() if each is not None and first[id(each.node)] == path}


def text() -> str:
    """Return all public names with their signatures, a line each."""
    lines = [line for name, found in sorted(wanted().items()) for line in described(name, found)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(text())
