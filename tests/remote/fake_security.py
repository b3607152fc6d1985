"""TLS and SASL for the brokers of `fake_cluster`: authorities and certificates made here, and logins of a server.

The certificates are of ``cryptography``, the server's side of SCRAM is of ``scramp``; a real Kafka is the other
side in tests/interop/test_security.py.
"""

from __future__ import annotations

import datetime
import ipaddress
import json
import ssl
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import scramp
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

from logstore.protocol.generated import messages as m
from tests.remote.fake_cluster import Guard, Session

PEM = serialization.Encoding.PEM
PKCS8 = serialization.PrivateFormat.PKCS8


class Issued(NamedTuple):
    """A certificate and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def chain(self) -> str:
        return self.certificate.public_bytes(PEM).decode()

    def key_pem(self, password: str = "") -> str:
        protection = (
            serialization.BestAvailableEncryption(password.encode()) if password else serialization.NoEncryption()
        )
        return self.key.private_bytes(PEM, PKCS8, protection).decode()

    def pem(self, password: str = "") -> str:
        return self.key_pem(password) + self.chain

    def write(self, path: Path, password: str = "") -> Path:
        path.write_text(self.pem(password))
        return path

    def pkcs12(self, password: str) -> bytes:
        return pkcs12.serialize_key_and_certificates(
            b"own", self.key, self.certificate, None, serialization.BestAvailableEncryption(password.encode())
        )


class Authority:
    """An authority of its own, which issues certificates."""

    def __init__(self, name: str = "authority of the test") -> None:
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        key = ec.generate_private_key(ec.SECP256R1())
        self.issued = Issued(self._signed(self._name, key, key, (), is_authority=True), key)

    @property
    def pem(self) -> str:
        return self.issued.chain

    def issue(self, *hosts: str, name: str = "broker", first: int = -1, days: int = 2) -> Issued:
        """A certificate for hosts, valid from ``first`` days after today on."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        return Issued(self._signed(subject, key, self.issued.key, hosts, first=first, days=days), key)

    def pkcs12(self, password: str) -> bytes:
        return pkcs12.serialize_key_and_certificates(
            None, None, None, [self.issued.certificate], serialization.BestAvailableEncryption(password.encode())
        )

    def _signed(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        signer: ec.EllipticCurvePrivateKey,
        hosts: tuple[str, ...],
        *,
        is_authority: bool = False,
        first: int = -1,
        days: int = 2,
    ) -> x509.Certificate:
        begin = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=first)
        made = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(begin)
            .not_valid_after(begin + datetime.timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        )
        if hosts:
            made = made.add_extension(x509.SubjectAlternativeName([_named(each) for each in hosts]), critical=False)
        return made.sign(signer, hashes.SHA256())


def _named(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


class TlsGuard(Guard):
    """A listener with TLS. ``clients``: the authority of certificates that clients must have."""

    def __init__(self, issued: Issued, folder: Path, clients: Authority | None = None) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(issued.write(folder / f"{issued.certificate.serial_number}.pem"))
        if clients is not None:
            self.context.verify_mode = ssl.CERT_REQUIRED
            self.context.load_verify_locations(cadata=clients.pem)

    def secured(self, connection: Any) -> Any:
        return self.context.wrap_socket(connection, server_side=True)


class SaslGuard(Guard):
    """A listener with SASL, over TLS if ``tls`` is given.

    ``lifetime_ms``: how long a login is accepted; an older one is closed at the next request. ``tokens``: the
    bearer tokens that are accepted.
    """

    def __init__(
        self,
        users: Mapping[str, str] | None = None,
        mechanisms: tuple[str, ...] = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"),
        *,
        tls: TlsGuard | None = None,
        lifetime_ms: int = 0,
        tokens: tuple[str, ...] = (),
    ) -> None:
        self.users = dict(users or {})
        self.mechanisms = mechanisms
        self.tls = tls
        self.lifetime_ms = lifetime_ms
        self.tokens = set(tokens)
        self.logins: list[tuple[str, str]] = []  #: mechanism and user, or the initial message of OAUTHBEARER
        self.refused = 0
        self.late = 0  #: requests after the end of a login's time
        self.echoes = ""  #: what a refusal says besides

    def secured(self, connection: Any) -> Any:
        return connection if self.tls is None else self.tls.secured(connection)

    def session(self) -> Session:
        return SaslSession(self)


class SaslSession(Session):
    """The login of one connection."""

    def __init__(self, guard: SaslGuard) -> None:
        self._guard = guard
        self._mechanism = ""
        self._until = 0.0
        self._is_in = False
        self._scram: Any = None
        self._user = ""

    def answer(self, request: Any) -> Any | None:
        if isinstance(request, m.SaslHandshakeRequest):
            self._mechanism, self._scram = request.mechanism, None
            known = request.mechanism in self._guard.mechanisms
            return m.SaslHandshakeResponse(error_code=0 if known else 33, mechanisms=self._guard.mechanisms)
        if isinstance(request, m.SaslAuthenticateRequest):
            return self._authenticate(request.auth_bytes)
        if isinstance(request, m.ApiVersionsRequest):
            return None
        if not self._is_in:
            raise ConnectionError
        if self._guard.lifetime_ms and time.monotonic() > self._until:
            self._guard.late += 1
            raise ConnectionError
        return None

    def _authenticate(self, said: bytes) -> Any:
        if self._mechanism == "PLAIN":
            _, user, password = said.decode().split("\0")
            return self._ended(user) if self._guard.users.get(user) == password else self._refused()
        if self._mechanism == "OAUTHBEARER":
            if said == b"\x01":
                return self._refused()
            token = said.decode().split("auth=Bearer ")[1].split("\x01")[0]
            if token in self._guard.tokens:
                return self._ended(said.decode())
            return m.SaslAuthenticateResponse(auth_bytes=json.dumps({"status": "invalid_token"}).encode())
        return self._scrammed(said)

    def _scrammed(self, said: bytes) -> Any:
        guard = self._guard
        try:
            if self._scram is None:
                mechanism = scramp.ScramMechanism(self._mechanism)

                def known(user: str) -> Any:
                    self._user = user
                    return mechanism.make_auth_info(guard.users[user])

                self._scram = mechanism.make_server(known)
                self._scram.set_client_first(said.decode())
                return m.SaslAuthenticateResponse(auth_bytes=self._scram.get_server_first().encode())
            self._scram.set_client_final(said.decode())
        except (scramp.ScramException, KeyError):
            return self._refused()
        return self._ended(self._user, self._scram.get_server_final().encode())

    def _ended(self, user: str, last: bytes = b"") -> Any:
        self._is_in = True
        self._until = time.monotonic() + self._guard.lifetime_ms / 1000
        self._guard.logins.append((self._mechanism, user))
        return m.SaslAuthenticateResponse(auth_bytes=last, session_lifetime_ms=self._guard.lifetime_ms)

    def _refused(self) -> Any:
        self._guard.refused += 1
        return m.SaslAuthenticateResponse(
            error_code=58, error_message=f"Authentication failed: invalid credentials{self._guard.echoes}"
        )
