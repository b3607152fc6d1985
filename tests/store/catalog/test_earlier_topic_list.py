"""A catalogue that is an earlier copy of itself, restored without the rest of the store."""

from __future__ import annotations

import dataclasses
import re
import shutil

import pytest

import logstore
from logstore.client.backend.findings import Level
from logstore.errors import DamagedCatalogueError
from logstore.log.directory.files import Directory
from logstore.store.admin.diagnosis import diagnose
from logstore.store.catalog.topic_list import CATALOGUE, NEWEST, Catalogue

pytestmark = pytest.mark.row("S20", part="what is missing is told")


@pytest.fixture
def store_with_an_earlier_catalogue(tmp_path):
    """A store whose catalogue knows of no producer id that was given, and of no change of settings."""
    root = tmp_path / "data"
    with logstore.open(root) as store:
        store.create_topic("t", 1, {"retention.ms": 1_000})
    earlier = (root / CATALOGUE).read_bytes()
    with logstore.open(root) as store:
        store.alter_topic("t", {"retention.ms": -1})
        store._host.next_producer_id()
    (root / CATALOGUE).write_bytes(earlier)
    return root


@pytest.mark.parametrize("read_only", [False, True])
def test_an_earlier_catalogue_is_refused_and_nothing_changes(store_with_an_earlier_catalogue, read_only):
    root = store_with_an_earlier_catalogue
    before = (root / CATALOGUE).read_bytes()
    with pytest.raises(DamagedCatalogueError, match="an earlier copy, number 3, and 6 was written since"):
        logstore.open(root, read_only=read_only)
    assert (root / CATALOGUE).read_bytes() == before
    assert [found.name for found in diagnose(root) if found.level is Level.PROBLEM] == ["catalogue-damaged"]


def test_a_caller_that_means_an_earlier_catalogue_can_have_it(store_with_an_earlier_catalogue):
    (store_with_an_earlier_catalogue / NEWEST).unlink()
    with logstore.open(store_with_an_earlier_catalogue) as store:
        assert store["t"].config.retention_ms == 1_000


def test_an_earlier_catalogue_is_made_again_with_ids_that_were_never_given(store_with_an_earlier_catalogue):
    logstore.rebuild(store_with_an_earlier_catalogue)
    with logstore.open(store_with_an_earlier_catalogue) as store:
        assert store["t"].config.retention_ms == -1


def test_a_copy_of_the_whole_store_is_no_earlier_one(tmp_path):
    root = tmp_path / "data"
    with logstore.open(root) as store:
        store.create_topic("t", 1)
        store.snapshot(tmp_path / "snapshot")
    shutil.copytree(root, tmp_path / "copy")
    with logstore.open(root) as store:
        store._host.next_producer_id()
    for copy in ("copy", "snapshot"):
        with logstore.open(tmp_path / copy) as store:
            assert store.topics() == ["t"]
            store._host.next_producer_id()
        with logstore.open(tmp_path / copy, read_only=True) as store:
            assert store.topics() == ["t"]


def test_a_number_that_was_lost_or_damaged_is_none(tmp_path):
    root = tmp_path / "data"
    with logstore.open(root) as store:
        store.create_topic("t", 1)
    whole = (root / NEWEST).read_bytes()
    for data in (b"", whole[:-1], whole.replace(b"3 ", b"9 "), whole + b"\n"):
        (root / NEWEST).write_bytes(data)
        with logstore.open(root) as store:
            assert store.topics() == ["t"]
    (root / NEWEST).unlink()
    with logstore.open(root) as store:
        store.create_topic("u", 1)
    assert re.match(rb"logstore newest 1\n0{17}\d ", (root / NEWEST).read_bytes())


def test_a_catalogue_of_before_they_were_numbered_is_the_newest(tmp_path):
    root = tmp_path / "data"
    with logstore.open(root) as store:
        store.create_topic("t", 1)
    directory = Directory(root)
    found = Catalogue.load(directory)
    assert found is not None
    directory.replace(CATALOGUE, dataclasses.replace(found, number=0).to_bytes(), durable=False)
    directory.remove(NEWEST)
    with logstore.open(root) as store:
        assert store.topics() == ["t"]
        store.create_topic("u", 1)
