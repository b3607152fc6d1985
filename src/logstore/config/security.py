"""Settings of security that belong together: what a protocol needs, and what is missing.

`check` names everything that is missing or contradicts at once. `login_of` reads the user and the password, from
``sasl.jaas.config`` as jobs of Java have it, or from ``sasl.username`` and ``sasl.password``. Kafka's own login
modules are names here and nothing is loaded: no setting names code. Problems are returned or raised by key; they
never show a value that may be a secret. Files are read where references of values are followed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from logstore.config.remote import WireConfig
from logstore.config.secrets import Secret
from logstore.errors import InvalidSettingError

PLAIN, OAUTHBEARER = "PLAIN", "OAUTHBEARER"
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS = (PLAIN, *SCRAM, OAUTHBEARER)

#: Last names of Kafka's login modules, with the mechanisms that each serves.
_MODULES: dict[str, tuple[str, ...]] = {
    "PlainLoginModule": (PLAIN,),
    "ScramLoginModule": SCRAM,
    "OAuthBearerLoginModule": (OAUTHBEARER,),
}
_PACKAGES = tuple(
    f"org.apache.kafka.common.security.{name}." for name in ("plain", "scram", "oauthbearer", "oauthbearer.secured")
)

#: Hosts of this machine: what is sent to them crosses no network.
_LOOPBACK = ("localhost", "127.0.0.1", "::1")

_ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
_CLIENT = "sasl.oauthbearer.client.credentials.client.id"
_SECRET = "sasl.oauthbearer.client.credentials.client.secret"


class Jaas(NamedTuple):
    """One login module of ``sasl.jaas.config`` with its options. No output shows the options."""

    module: str
    options: Mapping[str, Secret]

    def option(self, *names: str) -> Secret:
        """Return the first given of some options; empty if there is none."""
        return next((self.options[name] for name in names if self.options.get(name)), Secret(""))


class Login(NamedTuple):
    """What a mechanism proves itself with; which fields are empty depends on the mechanism."""

    mechanism: str
    username: Secret = Secret("")
    password: Secret = Secret("")
    endpoint: Secret = Secret("")  #: of tokens: a URL, or ``file:`` and a path
    client: Secret = Secret("")
    client_secret: Secret = Secret("")
    scope: str = ""
    extensions: tuple[tuple[str, Secret], ...] = ()


def uses_tls(protocol: str) -> bool:
    return protocol in ("ssl", "sasl_ssl")


def uses_sasl(protocol: str) -> bool:
    return protocol.startswith("sasl_")


def login_of(config: WireConfig, *, has_token: bool = False) -> Login | None:
    """Return what the client logs in with; None without SASL.

    ``has_token``: the caller's own function returns the tokens, so no endpoint is needed.

    Raises:
        InvalidSettingError: `check` finds problems; all are named.
    """
    problems, login = _checked(config, has_token)
    if problems:
        raise InvalidSettingError(problems)
    return login


def check(config: WireConfig, *, has_token: bool = False) -> dict[str, str]:
    """Return what is missing or contradicts in the settings of security, by key; empty if nothing is."""
    return _checked(config, has_token)[0]


def _checked(config: WireConfig, has_token: bool) -> tuple[dict[str, str], Login | None]:
    problems: dict[str, str] = {}
    login = None
    if uses_sasl(config.security_protocol):
        login = _login(config, has_token, problems)
    elif has_token:
        problems["security.protocol"] = (
            f"oauth_token= is given, and {config.security_protocol.upper()} sends no token; "
            "expected SASL_SSL, with sasl.mechanism=OAUTHBEARER"
        )
    if uses_tls(config.security_protocol):
        problems |= dict(_stores(config))
    return problems, login


# --- TLS -----------------------------------------------------------------------------------------


def _stores(config: WireConfig) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with the settings of certificates and keys."""
    if config.ssl_truststore_location and config.ssl_truststore_certificates:
        yield "ssl.truststore.certificates", "given beside ssl.truststore.location; expected one of the two"
    inline = config.ssl_keystore_key or config.ssl_keystore_certificate_chain
    if config.ssl_keystore_location and inline:
        given = "key" if config.ssl_keystore_key else "certificate.chain"
        yield f"ssl.keystore.{given}", "given beside ssl.keystore.location; expected one of the two"
    elif inline and not config.ssl_keystore_key:
        yield "ssl.keystore.key", "missing; ssl.keystore.certificate.chain needs the private key, in PEM"
    elif inline and not config.ssl_keystore_certificate_chain:
        yield "ssl.keystore.certificate.chain", "missing; ssl.keystore.key needs its certificates, in PEM"
    has_keystore = config.ssl_keystore_location or inline
    if not has_keystore and (config.ssl_keystore_password or config.ssl_key_password):
        yield (
            "ssl.keystore.location",
            "missing; a password of a key is given and no key; or set ssl.keystore.key with "
            "ssl.keystore.certificate.chain",
        )
    if config.ssl_truststore_password and not (
        config.ssl_truststore_location or config.ssl_truststore_certificates
    ):
        yield "ssl.truststore.location", "missing; ssl.truststore.password is given"
    algorithm = config.ssl_endpoint_identification_algorithm.lower()
    if algorithm not in ("https", ""):
        yield (
            "ssl.endpoint.identification.algorithm",
            f"expected https, or empty to accept a certificate of any host, found {algorithm!r}",
        )


# --- SASL ----------------------------------------------------------------------------------------


def _login(config: WireConfig, has_token: bool, problems: dict[str, str]) -> Login | None:
    """Return what the client logs in with; add what is missing to ``problems``."""
    mechanism = config.sasl_mechanism.upper()
    if not mechanism:
        problems["sasl.mechanism"] = f"missing; expected one of {', '.join(MECHANISMS)}"
    elif mechanism not in MECHANISMS:
        problems["sasl.mechanism"] = f"{_unsupported(mechanism)}; expected one of {', '.join(MECHANISMS)}"
    jaas = None
    if config.sasl_jaas_config:
        try:
            jaas = parse_jaas(config.sasl_jaas_config.written())
        except ValueError as error:
            problems["sasl.jaas.config"] = str(error)
        else:
            problem = _mismatch(jaas, mechanism, config)
            if problem:
                problems["sasl.jaas.config"] = problem
    if mechanism == OAUTHBEARER:
        return _bearer(config, jaas, has_token, problems)
    if has_token and mechanism in MECHANISMS:
        problems["sasl.mechanism"] = f"oauth_token= is given, and {mechanism} sends no token; expected OAUTHBEARER"
    return _with_password(config, mechanism, jaas, problems)


def _unsupported(mechanism: str) -> str:
    if mechanism == "GSSAPI":
        return "GSSAPI (Kerberos) is not supported"
    if mechanism == "AWS_MSK_IAM":
        return "AWS_MSK_IAM is a mechanism of a Java class; use OAUTHBEARER with oauth_token="
    return f"{mechanism!r} is not supported"


def _with_password(config: WireConfig, mechanism: str, jaas: Jaas | None, problems: dict[str, str]) -> Login | None:
    username, password = Secret(config.sasl_username), config.sasl_password
    if jaas is not None:
        username, password = jaas.option("username"), jaas.option("password")
    if "sasl.jaas.config" in problems:
        return None
    if mechanism in (*SCRAM, PLAIN) or not mechanism:
        absent = [name for name, given in (("username", username), ("password", password)) if not given]
        if jaas is not None and absent:
            problems["sasl.jaas.config"] = f"{' and '.join(absent)} missing among the options of {jaas.module}"
        elif absent:
            for name in absent:
                problems[f"sasl.{name}"] = "missing; or give sasl.jaas.config with username and password"
    return Login(mechanism, username, password)


def _bearer(config: WireConfig, jaas: Jaas | None, has_token: bool, problems: dict[str, str]) -> Login | None:
    """Return where tokens come from: a function of the caller, a file, or an endpoint with client credentials."""
    options = jaas or Jaas("", {})
    extensions = tuple(
        (name.removeprefix("extension_"), value)
        for name, value in options.options.items()
        if name.startswith("extension_")
    )
    for name, value in extensions:
        if not re.fullmatch(r"[A-Za-z]+", name) or name == "auth" or not _is_sayable(value):
            problems["sasl.jaas.config"] = (
                f"extension_{name}: expected a name of letters other than auth, and a value of printable ASCII"
            )
    if has_token:
        return Login(OAUTHBEARER, extensions=extensions)
    try:
        endpoint = config.sasl_oauthbearer_token_endpoint_url.reveal()
    except ValueError as error:
        problems[_ENDPOINT] = str(error)
        return None
    client = Secret(config.sasl_oauthbearer_client_credentials_client_id) or options.option("clientId")
    client_secret = config.sasl_oauthbearer_client_credentials_client_secret or options.option("clientSecret")
    if not endpoint:
        problems[_ENDPOINT] = "missing; expected a URL, or file:PATH for a file with a token"
    elif problem := _endpoint_problem(endpoint, config.security_protocol):
        problems[_ENDPOINT] = problem
    if not endpoint.startswith("file:"):
        if not client:
            problems[_CLIENT] = f"missing; {_ENDPOINT} needs it"
        if not client_secret:
            problems[_SECRET] = f"missing; {_ENDPOINT} needs it"
    scope = config.sasl_oauthbearer_scope or options.option("scope").written()
    return Login(OAUTHBEARER, endpoint=Secret(endpoint), client=client, client_secret=client_secret, scope=scope,
                 extensions=extensions)  # fmt: skip


def _is_sayable(value: Secret) -> bool:
    try:
        return re.fullmatch(r"[\x20-\x7e\t\r\n]+", value.reveal()) is not None
    except ValueError:
        return True  # an absent file or variable is named when the client logs in


def _endpoint_problem(endpoint: str, protocol: str) -> str:
    """Return why the URL of tokens is not used; empty if it is. It may hold a secret, so it is not shown."""
    try:
        url = urlsplit(endpoint)
        _ = url.port
    except ValueError:
        return "expected a URL, found something else"
    if url.scheme == "file":
        return "" if url.path.startswith("/") and url.netloc in ("", "localhost") else "expected file:/PATH"
    if url.scheme not in ("https", "http") or not url.hostname:
        return "expected a URL with https://, or file:/PATH for a file with a token"
    if url.username is not None or url.password is not None:
        return "a user stands in the URL; give it as the client's id and secret"
    if url.scheme == "http" and url.hostname not in _LOOPBACK and uses_tls(protocol):
        return "http:// would send the client's secret in plain text; expected https://"
    return ""


def shown_url(url: str) -> str:
    """Return a URL as messages show it: without its query, which may hold a secret.

    >>> shown_url("https://login.example/token?key=1")
    'https://login.example/token'
    """
    found: SplitResult = urlsplit(url)
    return found._replace(query="", fragment="").geturl()


# --- sasl.jaas.config --------------------------------------------------------------------------------


def _mismatch(jaas: Jaas, mechanism: str, config: WireConfig) -> str:
    """Return why a login module is not used here; empty if it is."""
    package, _, name = jaas.module.rpartition(".")
    served = _MODULES.get(name, ())
    if not served or (package and f"{package}." not in _PACKAGES):
        return (
            f"the login module {jaas.module} is a class of Java, and no setting names code here; expected Kafka's "
            f"{', '.join(_MODULES)}"
        )
    if mechanism in MECHANISMS and mechanism not in served:
        return f"{name} is not for sasl.mechanism={mechanism}; expected {_module_of(mechanism)}"
    if config.sasl_username or config.sasl_password:
        return "given beside sasl.username and sasl.password; expected one of the two"
    if any(option.startswith("unsecuredLogin") for option in jaas.options):
        return "unsigned tokens are not made here; leave out the unsecuredLogin options, and give oauth_token="
    if name == "ScramLoginModule" and jaas.option("tokenauth").written().lower() == "true":
        return "delegation tokens (tokenauth) are not supported; give the user and the password"
    return ""


def _module_of(mechanism: str) -> str:
    return next(name for name, served in _MODULES.items() if mechanism in served)


_TOKEN = re.compile(
    r"""\s*(?:
      (?P<comment>//[^\n]*|/\*.*?\*/)
    | (?P<quoted>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    | (?P<word>[A-Za-z0-9_.$\-\u00a0-\U0010ffff]+)
    | (?P<sign>[=;])
    | (?P<end>\Z)
    )""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_FLAGS = ("required", "requisite", "sufficient", "optional")
_SHAPE = 'expected MODULE required NAME="VALUE" ... ;'


def parse_jaas(text: str) -> Jaas:
    """Parse the value of ``sasl.jaas.config``: one login module, a flag, its options and a semicolon.

    Raises:
        ValueError: it is something else. The message shows no value.

    >>> found = parse_jaas('org.apache.kafka.common.security.plain.PlainLoginModule required username="a";')
    >>> found.module.rpartition(".")[2], list(found.options)
    ('PlainLoginModule', ['username'])
    """
    tokens = list(_tokens(text))
    if len(tokens) < 3 or tokens[0][0] != "word" or tokens[1][1].lower() not in _FLAGS:
        raise ValueError(f"expected a login module with a flag at the beginning; {_SHAPE}")
    module, rest = tokens[0][1], tokens[2:]
    if ("sign", ";") not in rest:
        raise ValueError(f"expected a semicolon at the end; {_SHAPE}")
    end = rest.index(("sign", ";"))
    if rest[end + 1 :]:
        raise ValueError(f"expected one login module, found more; {_SHAPE}")
    options: dict[str, Secret] = {}
    parts = rest[:end]
    if len(parts) % 3:
        raise ValueError(f"expected NAME=VALUE for each option; {_SHAPE}")
    for (kind, name), sign, (value_kind, value) in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        if kind != "word" or sign != ("sign", "=") or value_kind == "sign":
            raise ValueError(
                f"option {len(options) + 1} is not NAME=VALUE; quote a value with other signs; {_SHAPE}"
            )
        if name in options:
            raise ValueError(f"option {name} is given twice")
        options[name] = Secret(value)
    return Jaas(module, options)


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    position = 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise ValueError(
                f"character {position + 1} and what follows cannot be read: a quote is not closed, or a value with "
                f"other signs than letters, digits, dots and dashes is not quoted; {_SHAPE}"
            )
        position = found.end()
        kind = str(found.lastgroup)
        if kind == "quoted":
            yield "quoted", re.sub(r"\\(.)", _unescaped, found[kind][1:-1], flags=re.DOTALL)
        elif kind not in ("comment", "end"):
            yield kind, found[kind]


def _unescaped(escape: re.Match[str]) -> str:
    return _ESCAPES.get(escape[1], escape[1])
