"""TLS of a client: the context that its connections share, and what a failed handshake means.

The context verifies certificates and host names, unless ``ssl.endpoint.identification.algorithm`` is empty: then
only host names are not verified, as in Kafka. `explained` turns an error of OpenSSL into one of logstore's, in one
sentence. Any thread may use a context.
"""

from __future__ import annotations

import os
import ssl

from logstore.config.remote import WireConfig
from logstore.errors import (
    AuthenticationError,
    BrokerUnreachableError,
    InvalidSettingError,
    LogstoreError,
    ProtocolError,
)
from logstore.remote.security.keystores import KeyPair, authorities, key_pair

#: Results of OpenSSL's verification (X509_V_ERR), as in `ssl.SSLCertVerificationError.verify_code`.
_NOT_YET_VALID, _EXPIRED, _SELF_SIGNED, _SELF_SIGNED_IN_CHAIN, _NO_ISSUER = 9, 10, 18, 19, 20
_WRONG_HOST, _WRONG_ADDRESS = 62, 64

_TRUST = "add its authority to ssl.truststore.location or ssl.truststore.certificates"
_MEANINGS = {
    _NOT_YET_VALID: "is not valid yet; check the clocks of both machines",
    _EXPIRED: "has expired; renew it on the broker, or check the clock of this machine",
    _SELF_SIGNED: f"is self-signed and not trusted; {_TRUST}",
    _SELF_SIGNED_IN_CHAIN: f"is of an authority that is not trusted; {_TRUST}",
    _NO_ISSUER: f"is of an authority that is not trusted; {_TRUST}",
}
_HOST_ADVICE = (
    "connect by a name of the certificate, or correct the broker's advertised.listeners or certificate (an empty "
    "ssl.endpoint.identification.algorithm would accept any host)"
)

#: Reasons of OpenSSL, which show that the other side speaks no TLS.
_NO_TLS = (
    "WRONG_VERSION_NUMBER",
    "UNKNOWN_PROTOCOL",
    "HTTP_REQUEST",
    "PACKET_LENGTH_TOO_LONG",
    "RECORD_LAYER_FAILURE",
)
#: Alerts by which a broker refuses the certificate of a client, or the lack of one.
_REFUSALS = ("CERTIFICATE", "UNKNOWN_CA", "ACCESS_DENIED", "HANDSHAKE_FAILURE")


def client_context(config: WireConfig) -> ssl.SSLContext:
    """Return the TLS context of a client with these settings.

    Raises:
        InvalidSettingError: a certificate, a key, a password or a file is wrong.
        MissingLibraryError: a file is PKCS12, and the extra ``[security]`` is not installed.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    versions = config.ssl_enabled_protocols.split(",")
    context.minimum_version = ssl.TLSVersion.TLSv1_2 if "tlsv1.2" in versions else ssl.TLSVersion.TLSv1_3
    context.maximum_version = ssl.TLSVersion.TLSv1_3 if "tlsv1.3" in versions else ssl.TLSVersion.TLSv1_2
    context.check_hostname = bool(config.ssl_endpoint_identification_algorithm)
    trusted = authorities(config)
    if trusted:
        try:
            context.load_verify_locations(cadata=trusted)
        except (ssl.SSLError, ValueError):
            key = "certificates" if config.ssl_truststore_certificates else "location"
            raise InvalidSettingError(
                {f"ssl.truststore.{key}": "a certificate cannot be read; expected X.509 in PEM"}
            ) from None
    else:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    own = key_pair(config)
    if own is not None:
        _load(context, own, "key" if config.ssl_keystore_key else "location")
    return context


def _load(context: ssl.SSLContext, own: KeyPair, key: str) -> None:
    """Give the context this client's key. OpenSSL reads it from a file, which here is one in memory."""
    asked = False

    def password() -> str:
        # Without a function of ours, OpenSSL would ask for the password on the terminal.
        nonlocal asked
        asked = True
        return own.password or ""

    memory = os.memfd_create("logstore", os.MFD_CLOEXEC)
    try:
        with open(memory, "wb", closefd=False) as file:
            file.write((own.key.written() + own.chain).encode("ascii"))
        context.load_cert_chain(f"/proc/self/fd/{memory}", password=password)
    except (ssl.SSLError, ValueError) as error:
        if asked:
            problem = "wrong" if own.password else "missing"
            raise InvalidSettingError(
                {"ssl.key.password": f"{problem}; the private key of ssl.keystore.{key} is encrypted"}
            ) from None
        reason = getattr(error, "reason", None)
        why = "the key is not that of the first certificate" if reason == "KEY_VALUES_MISMATCH" else "expected PEM"
        raise InvalidSettingError(
            {f"ssl.keystore.{key}": f"the private key or its certificates cannot be used: {why}"}
        ) from None
    finally:
        os.close(memory)


def explained(error: OSError, peer: str, host: str) -> LogstoreError:
    """Return the error for a TLS handshake, or a read over TLS, that failed; ``peer`` names the broker."""
    if isinstance(error, ssl.SSLCertVerificationError):
        meaning = _MEANINGS.get(error.verify_code)
        if error.verify_code in (_WRONG_HOST, _WRONG_ADDRESS):
            meaning = f"is not for the host {host}; {_HOST_ADVICE}"
        return AuthenticationError(
            f"{peer}: the broker's certificate {meaning or f'is not accepted: {error.verify_message}'}"
        )
    reason = getattr(error, "reason", None) or ""
    if reason in _NO_TLS:
        return ProtocolError(
            f"{peer}: what answers there does not speak TLS; check that this is the port of an SSL or SASL_SSL "
            "listener, or set security.protocol to PLAINTEXT or SASL_PLAINTEXT"
        )
    if "ALERT" in reason and any(each in reason for each in _REFUSALS):
        return AuthenticationError(
            f"{peer}: the broker refuses this client's certificate, or wants one ({_words(reason)}); check "
            "ssl.keystore.location, or ssl.keystore.key with ssl.keystore.certificate.chain"
        )
    if "PROTOCOL_VERSION" in reason or reason in ("UNSUPPORTED_PROTOCOL", "NO_SHARED_CIPHER"):
        return AuthenticationError(
            f"{peer}: client and broker have no version of TLS in common ({_words(reason)}); check "
            "ssl.enabled.protocols of both"
        )
    if isinstance(error, ssl.SSLError) and reason and "EOF" not in reason:
        return ProtocolError(f"{peer}: TLS failed: {_words(reason)}")
    return BrokerUnreachableError(
        f"{peer}: the connection was closed in the TLS handshake or just after it; check that this is the port of "
        "an SSL or SASL_SSL listener, and that the broker takes this client's certificate"
    )


def _words(reason: str) -> str:
    return reason.lower().replace("_", " ")
