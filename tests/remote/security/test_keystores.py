"""Files of certificates and keys: what each format is told by its content, and what is refused."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from logstore.config.remote import WireConfig
from logstore.errors import InvalidSettingError, MissingLibraryError
from logstore.remote.security.context import client_context
from logstore.remote.security.keystores import authorities, key_pair
from tests.remote.fake_security import Authority


def problem(**settings: Any) -> dict[str, str]:
    with pytest.raises(InvalidSettingError) as caught:
        client_context(WireConfig(security_protocol="ssl", **settings))
    return caught.value.problems


def test_jks_is_refused_with_the_line_that_converts_it(tmp_path: Path) -> None:
    store = tmp_path / "trust.jks"
    store.write_bytes(bytes.fromhex("feedfeed00000002"))
    for key in ("truststore", "keystore"):
        found = problem(**{f"ssl_{key}_location": str(store), f"ssl_{key}_password": "s3cr3t"})
        assert found[f"ssl.{key}.location"].endswith(
            f"convert it by: keytool -importkeystore -srckeystore {store} "
            f"-destkeystore {tmp_path}/trust.p12 -deststoretype PKCS12"
        )
        assert "s3cr3t" not in str(found)


@pytest.mark.skipif(shutil.which("keytool") is None, reason="no keytool (apt install openjdk-17-jre-headless)")
def test_the_line_converts_a_store_of_java(authority: Authority, tmp_path: Path) -> None:
    pem, jks = tmp_path / "ca.pem", tmp_path / "trust.jks"
    pem.write_text(authority.pem)
    words = ["-storepass", "changeit", "-noprompt"]
    subprocess.run(
        ["keytool", "-importcert", "-alias", "ca", "-file", pem, "-keystore", jks, "-storetype", "JKS", *words],
        check=True, capture_output=True,
    )  # fmt: skip
    settings: dict[str, Any] = {"ssl_truststore_location": str(jks), "ssl_truststore_password": "changeit"}
    line = problem(**settings)["ssl.truststore.location"].partition("convert it by: ")[2].split()
    passwords = ["-srcstorepass", "changeit", "-deststorepass", "changeit"]
    subprocess.run([*line, *passwords], check=True, capture_output=True)
    settings["ssl_truststore_location"] = str(tmp_path / "trust.p12")
    assert authorities(WireConfig(**settings)) == authority.pem


@pytest.mark.skipif(shutil.which("keytool") is None, reason="no keytool (apt install openjdk-17-jre-headless)")
def test_a_key_store_that_keytool_makes_is_read_whatever_its_name(tmp_path: Path) -> None:
    store = tmp_path / "own.jks"  # PKCS12 since Java 9, as jobs have it
    subprocess.run(
        ["keytool", "-genkeypair", "-alias", "a", "-keyalg", "EC", "-dname", "CN=a", "-keystore", store,
         "-storepass", "changeit"],
        check=True, capture_output=True,
    )  # fmt: skip
    config = WireConfig(ssl_keystore_location=str(store), ssl_keystore_password="changeit", ssl_keystore_type="JKS")
    found = key_pair(config)
    assert found is not None
    assert found.chain.startswith("-----BEGIN CERTIFICATE-----")
    assert "PRIVATE" not in repr(found)
    client_context(config)


def test_files_that_are_no_stores_are_named_without_their_content(authority: Authority, tmp_path: Path) -> None:
    own = authority.issue(name="a")
    binary, text, p12 = tmp_path / "binary", tmp_path / "text", tmp_path / "own.p12"
    binary.write_bytes(b"\xffs3cr3t")
    text.write_text("s3cr3t")
    p12.write_bytes(own.pkcs12("changeit"))
    cases: list[tuple[dict[str, Any], str, str]] = [
        ({"ssl_truststore_location": str(binary)}, "ssl.truststore.location", "is neither PEM nor PKCS12"),
        ({"ssl_truststore_location": str(text)}, "ssl.truststore.location", "holds no certificate in PEM"),
        ({"ssl_truststore_location": "/absent"}, "ssl.truststore.location", "cannot be read: No such file"),
        ({"ssl_truststore_certificates": "s3cr3t"}, "ssl.truststore.certificates", "holds no certificate in PEM"),
        (
            {"ssl_truststore_certificates": authority.pem.replace("M", "s3cr3t", 1)},
            "ssl.truststore.certificates",
            "a certificate cannot be read",
        ),
        ({"ssl_keystore_location": str(text)}, "ssl.keystore.location", "holds 0 private keys"),
        ({"ssl_keystore_location": str(p12)}, "ssl.keystore.password", "missing, or"),
        (
            {"ssl_keystore_location": str(p12), "ssl_keystore_password": "s3cr3t"},
            "ssl.keystore.password",
            "wrong, or",
        ),
        (
            {"ssl_keystore_key": own.key_pem() * 2, "ssl_keystore_certificate_chain": own.chain},
            "ssl.keystore.key",
            "holds 2 private keys",
        ),
        ({"ssl_key_password": "{env:ABSENT_OF_THE_TEST}"}, "ssl.key.password", "ABSENT_OF_THE_TEST is not set"),
    ]
    for settings, key, meaning in cases:
        found = problem(**settings)
        assert meaning in found[key], settings
        assert "s3cr3t" not in str(found)
    store = tmp_path / "trust.p12"
    store.write_bytes(authority.pkcs12("changeit"))
    found = problem(ssl_keystore_location=str(store), ssl_keystore_password="changeit")
    assert "holds no private key with a certificate" in found["ssl.keystore.location"]


def test_pkcs12_without_its_library_names_the_extra(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "trust.p12"
    store.write_bytes(authority.pkcs12("changeit"))
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.serialization", None)
    with pytest.raises(
        MissingLibraryError, match=r"needs the package cryptography: install logstore with its extra"
    ):
        authorities(WireConfig(ssl_truststore_location=str(store)))
