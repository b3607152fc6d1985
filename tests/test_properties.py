"""Settings as text: Java's properties, TOML and the environment, each in its own form."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from logstore.config.text import read_environment, read_properties, read_settings, read_toml
from logstore.errors import InvalidSettingError

#: What is special in a properties file; Java reads the same lines in tests/interop/test_settings.py.
AWKWARD = [
    b"a=1\nb: 2\nc 3\nd\n",
    b"  # comment\n! comment\n\n\t\x0c\n a = 1  \n",
    b"listeners=PLAINTEXT://:9092,\\\n    CONTROLLER://:9093\nnext=1",
    b"a=one\\\\\nb=two\\\\\\\n  three\n",
    b"key\\ with\\=signs\\:x = value with = and : inside\n",
    b"tab=a\\tb\nline=a\\nb\nsnowman=\\u2603\nother=\\q\n",
    b"dos=1\r\nmac=2\rlast=3\\",
    b"=no key\n:also none\n",
    b"latin=\xe9t\xe9\n",
    b"a\\\n  b=1\n# c\\\nd=2\n",
    b"empty=\nspaces=   \ntwice=1\ntwice=2\n",
    b"comment=1\\\n# not a comment\n",
    b"blank=1\\\n\nnext=2\n",
]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (AWKWARD[0], {"a": "1", "b": "2", "c": "3", "d": ""}),
        (AWKWARD[2], {"listeners": "PLAINTEXT://:9092,CONTROLLER://:9093", "next": "1"}),
        (AWKWARD[3], {"a": "one\\", "b": "two\\three"}),
        (AWKWARD[4], {"key with=signs:x": "value with = and : inside"}),
        (AWKWARD[5], {"tab": "a\tb", "line": "a\nb", "snowman": "☃", "other": "q"}),
        (AWKWARD[6], {"dos": "1", "mac": "2", "last": "3"}),
        (AWKWARD[9], {"ab": "1", "d": "2"}),
        (AWKWARD[10], {"empty": "", "spaces": "", "twice": "2"}),
        (AWKWARD[11], {"comment": "1# not a comment"}),
        (AWKWARD[12], {"blank": "1", "next": "2"}),
    ],
)
def test_properties_are_read_as_java_reads_them(text, expected):
    assert read_properties(text, "x") == expected


@pytest.mark.parametrize("text", [b"a=\\u12", b"a=\\u12zz", b"ok=1\na=\\u"])
def test_a_broken_escape_is_named_with_its_line(text):
    with pytest.raises(
        InvalidSettingError, match=rf"x.properties line {text.count(bytes([10])) + 1}: .*hexadecimal"
    ):
        read_properties(text, "x.properties")


def test_toml_keys_may_stand_in_tables_dotted_or_in_quotes():
    text = b'retention.ms = 5\n"segment.bytes" = 100\n[log.cleaner]\nenable = false\nthreads = 2\n'
    assert read_toml(text, "x") == {
        "retention.ms": 5,
        "segment.bytes": 100,
        "log.cleaner.enable": False,
        "log.cleaner.threads": 2,
    }
    assert read_toml(b'cleanup.policy = ["compact", "delete"]', "x") == {"cleanup.policy": "compact,delete"}


def test_toml_that_cannot_be_read_is_named_with_what_to_do():
    with pytest.raises(InvalidSettingError, match="in quotes"):
        read_toml(b'logstore.tail = "memory"\nlogstore.tail.bytes = 5\n', "x.toml")
    with pytest.raises(InvalidSettingError, match=r"x\.toml: no TOML"):
        read_toml(b"retention.ms=", "x.toml")
    with pytest.raises(InvalidSettingError, match="released: expected text"):
        read_toml(b"released = 2026-11-21", "x.toml")
    with pytest.raises(InvalidSettingError, match="no TOML"):
        read_toml(b"\xff", "x.toml")


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.toml", b'retention.ms = "5"', {"retention.ms": "5"}),
        ("server.properties", b"retention.ms = 5", {"retention.ms": "5"}),
        ("settings", b"retention.ms = 5", {"retention.ms": 5}),
        ("settings", b"log.dirs=/tmp/x\nretention.ms=5", {"log.dirs": "/tmp/x", "retention.ms": "5"}),
    ],
)
def test_the_form_is_chosen_by_the_ending_or_else_by_the_text(name, text, expected):
    assert read_settings(text, name) == expected


def test_variables_that_build_and_test_the_project_are_no_settings():
    root = Path(__file__).resolve().parent.parent
    named = set()
    for path in (*root.glob("tests/**/*.py"), *root.glob("*.py"), *root.glob("tools/*.py"), root / "Makefile"):
        named |= set(re.findall(r"os\.environ[^\n]*?(LOGSTORE_[A-Z_]+)", path.read_text()))
    assert {"LOGSTORE_SEED", "LOGSTORE_BUILD_DEBUG"} <= named
    assert read_environment(dict.fromkeys(named, "x")) == {}


def test_variables_of_other_purposes_are_no_settings():
    environ = {
        "HOME": "/",
        "LOGSTORE_RETENTION_MS": "5",
        "LOGSTORE_DIR": "/data",
        "LOGSTORE_BUILD_DEBUG": "1",
        "_LOGSTORE_COMPLETE": "bash_source",
    }
    assert read_environment(environ) == {"retention_ms": ("LOGSTORE_RETENTION_MS", "5")}
