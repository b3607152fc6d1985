"""`help()` shows what the methods of compiled classes take and return, as their stubs say."""

from __future__ import annotations

import ast
import importlib
import inspect
import pydoc
from pathlib import Path

import pytest

import logstore
from logstore._segment import Segment
from logstore.accumulator._batcher import FastAppend, FastSend, SendFuture
from logstore.batch._batch import Batches, BatchView, Record
from logstore.batch._encode import Encoder
from logstore.io._file_region import FileRegion
from logstore.log.append.appender import Appender
from logstore.testing import FaultyFiles

#: The compiled classes whose methods a user calls.
CLASSES = [
    Batches, BatchView, Encoder, FastAppend, FastSend, FaultyFiles, FileRegion, Record, Segment,
    SendFuture,
]  # fmt: skip


def methods_of(kind):
    """Return the stub's public methods of a compiled class; plumbing between compiled and Python code is none."""
    module = importlib.import_module(kind.__module__)
    stub = ast.parse(Path(module.__file__).with_name(kind.__module__.rpartition(".")[2] + ".pyi").read_text())
    body = next(node.body for node in stub.body if isinstance(node, ast.ClassDef) and node.name == kind.__name__)
    plumbing = {"use", "forget", "known"} if kind is FastSend else set()
    return [
        node
        for node in body
        if isinstance(node, ast.FunctionDef)
        and not node.name.startswith("_")
        and not node.decorator_list
        and node.name not in plumbing
    ]


def written(annotation):
    return None if annotation is inspect.Signature.empty else ast.unparse(ast.parse(annotation))


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_signatures_have_the_annotations_of_the_stub(kind):
    methods = methods_of(kind)
    assert methods
    for method in methods:
        found = inspect.signature(getattr(kind, method.name))
        arguments = method.args.posonlyargs + method.args.args + method.args.kwonlyargs
        expected = {one.arg: ast.unparse(one.annotation) for one in arguments if one.annotation}
        shown = {name: written(one.annotation) for name, one in found.parameters.items() if name != "self"}
        assert shown == expected, f"{kind.__name__}.{method.name}"
        assert written(found.return_annotation) == ast.unparse(method.returns), f"{kind.__name__}.{method.name}"


@pytest.mark.parametrize(
    ("method", "parts"),
    [
        (logstore.Producer.send, ("topic: 'str'", "value: 'Buffer | None'", "headers: 'Headers | None' = None")),
        (Appender.append, ("value: 'Buffer | None'", "timestamp_ms: 'Timestamp | None' = None", "-> 'None'")),
        (logstore.Log.append, ("records: 'Records'", "ack: 'Ack | str | None' = None", "-> 'AppendResult'")),
        (logstore.Topic.append, ("value: 'Buffer | None'", "headers: 'Headers | None' = None")),
        (logstore.log.Batches.between, ("start: 'int'", "stop: 'int'", "-> 'Batches'")),
    ],
    ids=lambda value: getattr(value, "__qualname__", ""),
)
def test_help_shows_names_and_annotations(method, parts):
    text = pydoc.render_doc(method, renderer=pydoc.plaintext)
    for part in parts:
        assert part in text
