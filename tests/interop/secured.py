"""A real Kafka whose listeners have TLS and SASL, with users and ACLs.

`secured` makes the authority, the certificates, the users and the key for tokens, and writes the settings of one
broker or more. Every user may do nothing until `Cluster.allow` lets it; the plain listener of the test's own tools
may do all.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tests.interop.broker import Broker
from tests.interop.cluster import RACKS, Cluster
from tests.remote.fake_security import Authority

#: One password has signs that JAAS treats apart.
USERS = {"alice": "p=ss w0rd;", "bob": "bob-secret", "carol": "carol-secret"}

#: Listener -> its protocol. ``MTLS`` wants certificates of clients; ``SASL_PLAINTEXT`` wants a login every few
#: seconds.
LISTENERS = {"SSL": "SSL", "MTLS": "SSL", "SASL_PLAINTEXT": "SASL_PLAINTEXT", "SASL_SSL": "SASL_SSL"}
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")

#: How long a login at SASL_PLAINTEXT is accepted.
LOGIN_MS = 3_000

ISSUER, AUDIENCE = "https://login.test", "kafka-test"

_MODULES = "org.apache.kafka.common.security."
_BEARER = f"{_MODULES}oauthbearer.OAuthBearer"


class Signer:
    """Signs tokens (JWT, RS256) with a key that the broker knows."""

    def __init__(self) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def jwks(self) -> str:
        numbers = self._key.public_key().public_numbers()
        key = {"kty": "RSA", "kid": "one", "use": "sig", "alg": "RS256", "n": _b64(numbers.n), "e": _b64(numbers.e)}
        return json.dumps({"keys": [key]})

    def token(self, user: str, lives_s: float = 3_600, **claims: Any) -> str:
        now = int(time.time())
        payload = {
            "sub": user,
            "iss": ISSUER,
            "aud": AUDIENCE,
            "iat": now,
            "exp": now + int(lives_s),
            "scope": "all",
        }
        parts = ({"alg": "RS256", "kid": "one", "typ": "JWT"}, payload | claims)
        signed = ".".join(_b64(json.dumps(each).encode()) for each in parts)
        return f"{signed}.{_b64(self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


def _b64(value: int | bytes) -> str:
    data = value.to_bytes((value.bit_length() + 7) // 8, "big") if isinstance(value, int) else value
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


class Secured(NamedTuple):
    """A cluster and what its clients need."""

    cluster: Cluster
    authority: Authority
    signer: Signer
    folder: Path

    @property
    def broker(self) -> Broker:
        """The first one."""
        return self.cluster.brokers[1]

    def tls(self) -> dict[str, Any]:
        """Settings of a client that trusts the brokers, by Kafka's keys."""
        return {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.folder / "ca.pem")}

    def login(self, mechanism: str, user: str = "alice") -> dict[str, Any]:
        """Settings of a login, as jobs have them; a token is left to the caller."""
        if mechanism == "OAUTHBEARER":
            return {"sasl.mechanism": mechanism}
        password = USERS[user].replace("\\", "\\\\").replace('"', '\\"')
        module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
        jaas = f'{_MODULES}{module} required username="{user}" password="{password}";'
        return {"sasl.mechanism": mechanism, "sasl.jaas.config": jaas}


def secured(directory: Path, *, racks: Iterable[str] = RACKS, **settings: str | int) -> Secured:
    """Brokers, one a rack, with each listener of `LISTENERS` and mechanism of `MECHANISMS`, not started yet."""
    folder = directory.with_name(f"{directory.name}-keys")
    folder.mkdir(parents=True)
    authority, signer = Authority(), Signer()
    own = authority.issue("127.0.0.1", name="broker").write(folder / "broker.pem")
    (folder / "ca.pem").write_text(authority.pem)
    (folder / "jwks.json").write_text(signer.jwks())
    jwks = (folder / "jwks.json").as_uri()
    properties: dict[str, object] = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": own,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": folder / "ca.pem",
        "listener.name.mtls.ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^CN=(.*?)$/$1/,DEFAULT",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:carol",
    }
    for listener in ("sasl_plaintext", "sasl_ssl"):
        properties |= _logins(f"listener.name.{listener}.", jwks)
    for mechanism in MECHANISMS:
        properties[f"listener.name.sasl_plaintext.{mechanism.lower()}.connections.max.reauth.ms"] = LOGIN_MS
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={jwks}"
    cluster = Cluster(
        directory,
        racks=racks,
        listeners=LISTENERS,
        properties=properties,
        users=USERS,
        options=[allowed],
        **settings,
    )
    return Secured(cluster, authority, signer, folder)


def run_beside(command: list[str]) -> int:
    """Run a command beside a broker to which alice logs in over TLS.

    The words BOOTSTRAP and PROFILE in it become the address and a file with the settings of the connection.
    """
    with tempfile.TemporaryDirectory(prefix="kafka-") as folder:
        made = secured(Path(folder) / "cluster", racks=["alone"])
        settings = {"security.protocol": "SASL_SSL", **made.tls(), **made.login("SCRAM-SHA-512")}
        profile = Path(folder) / "alice.properties"
        profile.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        with made.cluster as cluster:
            cluster.allow("alice", "All", topic="*")
            words = {"BOOTSTRAP": cluster.address("SASL_SSL"), "PROFILE": str(profile)}
            return subprocess.run([words.get(word, word) for word in command]).returncode


def _logins(prefix: str, jwks: str) -> Mapping[str, object]:
    """Settings of one listener: its login modules, and how tokens are checked."""
    users = " ".join(f'user_{user}="{password}"' for user, password in USERS.items())
    return {
        f"{prefix}plain.sasl.jaas.config": f"{_MODULES}plain.PlainLoginModule required {users};",
        f"{prefix}scram-sha-256.sasl.jaas.config": f"{_MODULES}scram.ScramLoginModule required;",
        f"{prefix}scram-sha-512.sasl.jaas.config": f"{_MODULES}scram.ScramLoginModule required;",
        f"{prefix}oauthbearer.sasl.jaas.config": f"{_BEARER}LoginModule required;",
        f"{prefix}oauthbearer.sasl.server.callback.handler.class": f"{_BEARER}ValidatorCallbackHandler",
        f"{prefix}oauthbearer.sasl.oauthbearer.jwks.endpoint.url": jwks,
        f"{prefix}oauthbearer.sasl.oauthbearer.expected.audience": AUDIENCE,
        f"{prefix}oauthbearer.sasl.oauthbearer.expected.issuer": ISSUER,
    }


if __name__ == "__main__":
    sys.exit(run_beside(sys.argv[1:]))
