"""Modules by the names that they had before they stood in folders."""

from __future__ import annotations

import importlib
import sys

import pytest

import logstore
import logstore.aio
import logstore.errors
from logstore.renamed import NAMES

SPARKS = {name for name in NAMES if name.startswith("logstore.spark")}


@pytest.mark.parametrize("name", sorted(NAMES.keys() - SPARKS))
def test_an_old_name_gives_the_same_objects_and_says_the_new_one(name: str) -> None:
    for loaded in [each for each in sys.modules if each == name or each.startswith(f"{name}.")]:
        del sys.modules[loaded]
    with pytest.warns(DeprecationWarning, match=f"{name} is {NAMES[name]} now"):
        old = importlib.import_module(name)
    new = importlib.import_module(NAMES[name])
    public = [each for each in vars(new) if not each.startswith("_")]
    assert public
    assert all(getattr(old, each) is getattr(new, each) for each in public)


@pytest.mark.parametrize("old", sorted(logstore._RENAMED))
def test_a_former_name_of_the_package_gives_the_same_object(old: str) -> None:
    home, new = logstore._RENAMED[old]
    with pytest.warns(DeprecationWarning, match=rf"logstore\.{old} is {home}\.{new} now"):
        assert getattr(logstore, old) is getattr(importlib.import_module(home), new)
    assert old not in dir(logstore)


def test_an_old_name_of_aio_is_the_new_one() -> None:
    with pytest.warns(DeprecationWarning, match=r"logstore\.aio\.Coming is logstore\.aio\.Pending now"):
        assert logstore.aio.Coming is logstore.aio.Pending
    with pytest.raises(AttributeError, match="Surprise"):
        logstore.aio.Surprise  # noqa: B018


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("ArchiveIncompleteError", "CheckpointMismatchError", -1),
        ("BudgetTooSmallError", "InvalidSettingError", 40),
        ("DecompressedTooLargeError", "RecordTooLargeError", 10),
        ("UnsupportedSecurityError", "InvalidSettingError", 40),
    ],
)
def test_an_old_error_is_the_one_that_it_was_merged_with(old: str, new: str, code: int) -> None:
    with pytest.warns(DeprecationWarning, match=rf"logstore\.errors\.{old} is {new} now"):
        merged = getattr(logstore.errors, old)
    assert merged is getattr(logstore.errors, new)
    assert merged.code == code
    with pytest.raises(AttributeError, match="SurpriseError"):
        logstore.errors.SurpriseError  # noqa: B018


@pytest.mark.filterwarnings("ignore:logstore.wire is:DeprecationWarning")  # if no test before has imported it
def test_what_was_never_there_is_not_found() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"logstore\.surprise"):
        importlib.import_module("logstore.surprise")
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("logstore.wire.surprise")
