"""Certificates and private keys of settings: PEM, inline or in a file, and PKCS12.

The content of a file tells what it is, as it does for Java. PKCS12 is read by the package ``cryptography``, of the
extra ``[security]``. The format JKS is refused with the ``keytool`` command that converts it. Everything becomes
PEM in memory: no key is written to a disk. Errors name the setting and the file, and show no content. Any thread
may use these functions.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from logstore.config.remote import WireConfig
from logstore.config.secrets import Secret, follow, read_bytes
from logstore.errors import InvalidSettingError, MissingLibraryError

_JKS = (bytes.fromhex("feedfeed"), bytes.fromhex("cececece"))
#: The first byte of DER: PKCS12, or a certificate that is not in PEM.
_DER = b"\x30"

_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)


class KeyPair(NamedTuple):
    """A private key and its certificates, in PEM. ``password`` decrypts the key; None: it is not encrypted."""

    key: Secret
    chain: str
    password: str | None

    def __repr__(self) -> str:
        return "KeyPair([hidden])"


def authorities(config: WireConfig) -> str:
    """Return the certificates of the trusted authorities in PEM; empty: those of the system are trusted.

    Raises:
        InvalidSettingError: a file, its format or its password is wrong.
        MissingLibraryError: it is PKCS12, and the extra ``[security]`` is not installed.
    """
    if config.ssl_truststore_certificates:
        key = "ssl.truststore.certificates"
        return _certificates(key, _revealed(key, config.ssl_truststore_certificates), "the value")
    if not config.ssl_truststore_location:
        return ""
    key = "ssl.truststore.location"
    path, data = _read(key, config.ssl_truststore_location)
    if not data.startswith(_DER):
        return _certificates(key, _pem(key, path, data), path)
    password = _revealed("ssl.truststore.password", config.ssl_truststore_password)
    store = _pkcs12(path, data, password, "ssl.truststore")
    found = [each.certificate for each in store.additional_certs]
    if store.cert is not None:
        found.append(store.cert.certificate)
    if not found:
        raise InvalidSettingError({key: f"{path} holds no certificate"})
    return "".join(_as_pem(each) for each in found)


def key_pair(config: WireConfig) -> KeyPair | None:
    """Return this client's key and certificates; None: it proves itself with none. Raises as `authorities`."""
    password = _revealed("ssl.key.password", config.ssl_key_password) or None
    if config.ssl_keystore_key:
        key, chain_key = "ssl.keystore.key", "ssl.keystore.certificate.chain"
        text = _revealed(key, config.ssl_keystore_key)
        chain = _revealed(chain_key, config.ssl_keystore_certificate_chain)
        return KeyPair(_private_key(key, text, "the value"), _certificates(chain_key, chain, "the value"), password)
    if not config.ssl_keystore_location:
        return None
    key = "ssl.keystore.location"
    path, data = _read(key, config.ssl_keystore_location)
    store_password = _revealed("ssl.keystore.password", config.ssl_keystore_password)
    if not data.startswith(_DER):
        text = _pem(key, path, data)
        # Kafka names the password of a key in a PEM file by ssl.key.password; jobs also give the file's.
        return KeyPair(
            _private_key(key, text, path), _certificates(key, text, path), password or store_password or None
        )
    store = _pkcs12(path, data, store_password, "ssl.keystore")
    if store.key is None or store.cert is None:
        raise InvalidSettingError({key: f"{path} holds no private key with a certificate"})
    chain = "".join(_as_pem(each.certificate) for each in (store.cert, *store.additional_certs))
    from cryptography.hazmat.primitives import serialization

    opened = store.key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return KeyPair(Secret(opened.decode("ascii")), chain, None)


def _revealed(key: str, secret: Secret) -> str:
    try:
        return secret.reveal()
    except ValueError as error:
        raise InvalidSettingError({key: str(error)}) from None


def _read(key: str, location: str) -> tuple[str, bytes]:
    """Return the path that a location names, and the content of the file."""
    try:
        path = follow(location)
        return path, read_bytes(path)
    except ValueError as error:
        raise InvalidSettingError({key: str(error)}) from None


def _pem(key: str, path: str, data: bytes) -> str:
    if data.startswith(_JKS):
        advice = f"keytool -importkeystore -srckeystore {path} -destkeystore {_p12(path)} -deststoretype PKCS12"
        raise InvalidSettingError({key: f"{path} is a JKS store, which only Java reads; convert it by: {advice}"})
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidSettingError({key: f"{path} is neither PEM nor PKCS12"}) from None


def _p12(path: str) -> str:
    return f"{path.removesuffix('.jks')}.p12"


def _blocks(text: str) -> list[tuple[str, str]]:
    """Return the kind and the PEM of each block. A setting may hold them in one line, with blanks for its ends."""
    found = []
    for kind, body in _BLOCK.findall(text):
        if ":" not in body:  # an encrypted key of OpenSSL's old format begins with headers, which are lines
            joined = "".join(body.split())
            body = "\n" + "\n".join(joined[start : start + 64] for start in range(0, len(joined), 64)) + "\n"
        found.append((kind, f"-----BEGIN {kind}-----{body}-----END {kind}-----\n"))
    return found


def _certificates(key: str, text: str, where: str) -> str:
    found = [pem for kind, pem in _blocks(text) if kind == "CERTIFICATE"]
    if not found:
        raise InvalidSettingError({key: f"{where} holds no certificate in PEM (-----BEGIN CERTIFICATE-----)"})
    return "".join(found)


def _private_key(key: str, text: str, where: str) -> Secret:
    found = [pem for kind, pem in _blocks(text) if kind.endswith("PRIVATE KEY")]
    if len(found) != 1:
        raise InvalidSettingError({key: f"{where} holds {len(found)} private keys in PEM; expected one"})
    return Secret(found[0])


def _pkcs12(path: str, data: bytes, password: str, prefix: str) -> Any:
    try:
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError as error:
        raise MissingLibraryError(
            f"{prefix}.location: {path} is PKCS12, which needs the package cryptography: install logstore with its "
            "extra [security], or convert the file to PEM (openssl pkcs12 -in FILE -out FILE.pem -nodes)"
        ) from error
    try:
        return pkcs12.load_pkcs12(data, password.encode("utf-8") if password else None)
    except ValueError:
        # The error of the library says the same for a wrong password and a damaged file.
        problem = "missing" if not password else "wrong"
        raise InvalidSettingError({f"{prefix}.password": f"{problem}, or {path} is no PKCS12 store"}) from None


def _as_pem(certificate: Any) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    pem: bytes = certificate.public_bytes(Encoding.PEM)
    return pem.decode("ascii")
