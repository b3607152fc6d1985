"""Paths that callers give: a URL is no directory of this machine, and nothing is no path."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

import logstore
import logstore.aio
from logstore import Log
from logstore.cli.main import cli
from logstore.config.store import StoreConfig
from logstore.errors import NotALogError
from logstore.log.tools import verify
from logstore.paths import local_path
from logstore.store import commit_client
from logstore.store.admin import diagnosis
from logstore.store.admin.kafka_directories import adopt_kafka_directory, release_to_kafka
from logstore.store.store import open_briefly
from logstore.testing import temporary_store

URLS = [
    "s3://bucket/x-0",
    "gs://bucket/x-0",
    "hdfs://name:8020/x-0",
    "http://host/x-0",
    "abfss://c@account.dfs.core.windows.net/x-0",
    "dbfs:/x-0",
    "C:/x-0",
    "s3:",
    Path("s3://bucket/x-0"),
    "file://host/x-0",
    "file:",
    "",
    b"",
    "~no such user/x-0",
    "x\0-0",
]


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty current directory, in which a wrong path would be made."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def read_settings(path):
    return StoreConfig.load(path)


async def open_aio(path):
    async with logstore.aio.open(path):
        pass


OPENINGS = {
    "open": lambda path: logstore.open(path, environ={}).close(),
    "open to read": lambda path: logstore.open(path, read_only=True, environ={}).close(),
    "briefly": lambda path: open_briefly(path, create=True).close(),
    "aio": lambda path: asyncio.run(open_aio(path)),
    "log": lambda path: Log.open(path).close(),
    "log to read": lambda path: Log.open(path, read_only=True).close(),
    "log.dirs": lambda path: StoreConfig.of(log_dirs=os.fsdecode(path) or ",").directory(),
    "settings": read_settings,
    "adopt": adopt_kafka_directory,
    "hand back": release_to_kafka,
    "inbox": commit_client.check,
    "doctor": lambda path: list(diagnosis.diagnose(path)),
    "segments": verify.find,
    "testing": lambda path: temporary_store(path=path).__enter__(),
}


@pytest.mark.parametrize("opening", OPENINGS.values(), ids=OPENINGS)
@pytest.mark.parametrize("path", URLS, ids=repr)
def test_what_is_no_path_of_this_machine_is_refused_and_nothing_is_made(here, opening, path):
    with pytest.raises((NotALogError, logstore.errors.InvalidSettingError)):
        opening(path)
    assert os.listdir(here) == []


def test_the_error_names_the_url_and_says_what_to_do():
    with pytest.raises(NotALogError, match=r"^s3://bucket/x is a URL; a store is a directory of this machine"):
        local_path("s3://bucket/x")


def test_a_snapshot_goes_to_no_url(here):
    with logstore.open(here / "data") as store:
        for target in ("s3://bucket/copy", "", Path("gs://bucket/copy")):
            with pytest.raises(NotALogError):
                store.snapshot(target)
        store.snapshot(f"file://{here}/copy")
    assert sorted(os.listdir(here)) == ["copy", "data"]


@pytest.mark.parametrize("form", ["file://{}/a%20b", "file://localhost{}/a%20b", "file:{}/a%20b", "FILE://{}/a b"])
def test_a_file_url_is_the_local_path(here, form):
    with logstore.open(form.format(here)) as store:
        assert store.path == f"{here}/a b"
    logstore.open(Path(f"file://{here}/a b"), create=False).close()


def test_a_tilde_is_a_home_directory(here, monkeypatch):
    monkeypatch.setenv("HOME", str(here / "home"))
    with logstore.open("~/data") as store:
        assert store.path == f"{here}/home/data"
    with logstore.open(environ={"LOGSTORE_LOG_DIRS": "~/data"}, create=False) as store:
        assert store.path == f"{here}/home/data"
    assert local_path("~root") == os.path.expanduser("~root") != "~root"


def test_a_name_that_only_looks_like_one_of_these_can_be_meant(here):
    for given, meant in (
        ("./s3:/x", "s3:/x"),
        ("./~", "~"),
        ("a:b", "a:b"),
        ("data/~x", "data/~x"),
        (".", ""),
        (b"bytes", "bytes"),
    ):
        assert local_path(given) == os.path.normpath(here / meant)


@pytest.mark.parametrize("given", ["s3://bucket/x", "", "~no such user/x"])
def test_the_command_line_takes_none_either(here, given):
    for arguments in (
        ["topic", "create", "t", "--dir", given],
        ["snapshot", given, "--dir", "data"],
        ["segment", "list", given],
        ["import", "t", given, "--dir", "data", "--create"],
        ["topic", "list", "--config", given, "--dir", "data"],
    ):
        result = CliRunner().invoke(cli, arguments, env={"LOGSTORE_DIR": None, "LOGSTORE_CONFIG": None})
        assert result.exit_code != 0, arguments
    assert os.listdir(here) == []


def test_an_empty_variable_is_no_directory(here):
    result = CliRunner().invoke(cli, ["topic", "create", "t"], env={"LOGSTORE_DIR": ""})
    assert (result.exit_code, os.listdir(here)) == (2, [])
    with pytest.raises(logstore.errors.InvalidSettingError):
        logstore.open(environ={"LOGSTORE_LOG_DIRS": ""})
    assert os.listdir(here) == []


def test_the_command_line_takes_a_file_url(here):
    for arguments in (["topic", "create", "t", "--dir", f"file://{here}/shop"], ["topic", "list", "-d", "shop"]):
        result = CliRunner().invoke(cli, arguments)
        assert result.exit_code == 0, result.output
    assert os.listdir(here) == ["shop"]
