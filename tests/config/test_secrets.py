"""Secrets stay out of output, and references are followed when a value is used."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path

import pytest

from logstore.config.remote import WireConfig
from logstore.config.secrets import MOST_BYTES, Secret, follow
from logstore.errors import InvalidSettingError


def test_a_secret_shows_itself_in_no_format() -> None:
    secret = Secret("s3cr3t")
    shown = [
        repr(secret),
        str(secret),
        f"{secret}",
        f"{secret!s:>20}",
        "".join(map(str, [secret])),
        repr([secret]),
        ascii(secret),
    ]
    assert not any("s3cr3t" in each for each in shown)
    with pytest.raises(TypeError):
        json.dumps(secret)
    assert secret.reveal() == "s3cr3t"


def test_secrets_are_compared_copied_and_pickled() -> None:
    secret = Secret("a")
    assert secret == Secret("a") != Secret("b")
    assert len({secret, Secret("a")}) == 1
    assert secret
    assert not Secret("")
    for twin in (copy.deepcopy(secret), pickle.loads(pickle.dumps(secret))):
        assert twin == secret


def test_references_are_followed_when_the_value_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "password"
    secret = Secret(f"{{env:KIND}}-{{file:{file}}}")
    monkeypatch.setenv("KIND", "x")
    file.write_text("one\n")
    assert secret.reveal() == "x-one"
    file.write_text("two\r\n")
    assert secret.reveal() == "x-two"
    assert pickle.loads(pickle.dumps(secret)).written() == f"{{env:KIND}}-{{file:{file}}}"


def test_what_a_reference_finds_is_taken_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONE", "{env:TWO}{file:/etc/passwd}")
    assert follow("{env:ONE}") == "{env:TWO}{file:/etc/passwd}"
    assert follow("{other:x} {} {env} ${env.X}") == "{other:x} {} {env} ${env.X}"


def test_a_reference_to_nothing_names_it_and_shows_no_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ABSENT", raising=False)
    with pytest.raises(ValueError, match="environment variable ABSENT is not set"):
        follow("{env:ABSENT}")
    with pytest.raises(ValueError, match=r"absent cannot be read: No such file"):
        follow(f"{{file:{tmp_path / 'absent'}}}")
    with pytest.raises(ValueError, match=r"expected \{file:PATH\} or \{env:NAME\}"):
        follow("{env:}")
    binary = tmp_path / "binary"
    binary.write_bytes(b"s3cr3t\xff")
    with pytest.raises(ValueError, match="is not text in UTF-8") as caught:
        follow(f"{{file:{binary}}}")
    assert "s3cr3t" not in repr(caught.value) + repr(caught.value.__cause__)
    assert caught.value.__suppress_context__
    with pytest.raises(ValueError, match=f"more than {MOST_BYTES} bytes"):
        follow("{file:/dev/zero}")


def test_a_configuration_shows_no_secret() -> None:
    config = WireConfig.of(
        {"sasl.jaas.config": "jaas-s3cr3t", "ssl.key.password": "key-s3cr3t"}, sasl_password="s3cr3t"
    )
    assert "s3cr3t" not in repr(config) + str(dict(config.items())) + str(config.changed())
    assert config.sasl_password.reveal() == "s3cr3t"
    assert WireConfig.of(config, client_id="x").sasl_password == config.sasl_password
    assert pickle.loads(pickle.dumps(config)) == config
    with pytest.raises(
        InvalidSettingError, match=r"sasl\.password: expected text, found a value of type int"
    ) as caught:
        WireConfig.of({"sasl.password": 12345})
    assert "12345" not in str(caught.value)
