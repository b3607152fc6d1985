"""What protocols and mechanisms need: everything that is missing is named at once, and no secret is shown."""

from __future__ import annotations

from typing import Any

import pytest

from logstore.config.remote import WireConfig
from logstore.config.security import check, login_of, parse_jaas, shown_url
from logstore.errors import InvalidSettingError

KAFKAS = "org.apache.kafka.common.security."
PLAIN = f"{KAFKAS}plain.PlainLoginModule required"
SCRAM = f"{KAFKAS}scram.ScramLoginModule required"
BEARER = f"{KAFKAS}oauthbearer.OAuthBearerLoginModule required"


def config(protocol: str = "SASL_SSL", **settings: Any) -> WireConfig:
    return WireConfig.of({"security.protocol": protocol, **{k.replace("_", "."): v for k, v in settings.items()}})


# --- sasl.jaas.config ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "username", "password"),
    [
        (f'{PLAIN} username="alice" password="a b;c=d";', "alice", "a b;c=d"),
        (f"{PLAIN} username=alice password=b-1_c.d$;", "alice", "b-1_c.d$"),
        (f"{PLAIN} username='alice' password='it\"s';", "alice", 'it"s'),
        (f'{PLAIN} username="a\\"l\\\\ice" password="\\t";', 'a"l\\ice', "\t"),
        (
            f'  {PLAIN.replace("required", "REQUIRED")}\n  username="a" // the user\n /* and */ password="b"\n;\n',
            "a",
            "b",
        ),
        (f'{PLAIN} username="ä" password="ключ";', "ä", "ключ"),
        ('PlainLoginModule required username="a" password="b";', "a", "b"),
    ],
)
def test_user_and_password_are_read_as_java_reads_them(text: str, username: str, password: str) -> None:
    login = login_of(config(sasl_mechanism="PLAIN", sasl_jaas_config=text))
    assert login is not None
    assert (login.username.reveal(), login.password.reveal()) == (username, password)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('username="alice" password="s3cr3t";', "expected a login module"),
        (f'{PLAIN} username="alice" password="s3cr3t"', "expected a semicolon"),
        (f'{PLAIN} username="alice" password="s3cr3t;', "a quote is not closed"),
        (f'{PLAIN} username="alice" password=s3cr3t!;', "is not quoted"),
        (f'{PLAIN} username="alice" s3cr3t;', "expected NAME=VALUE"),
        (f'{PLAIN} username "s3cr3t" =;', "option 1 is not NAME=VALUE"),
        (f'{PLAIN} password="s3cr3t" password="s3cr3t";', "option password is given twice"),
        (f'{PLAIN} password="s3cr3t"; {SCRAM} password="s3cr3t";', "expected one login module"),
        ("", "expected a login module"),
        (";;;", "expected a login module"),
    ],
)
def test_a_jaas_value_of_another_shape_is_refused_without_showing_it(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem) as caught:
        parse_jaas(text)
    assert "s3cr3t" not in str(caught.value)


@pytest.mark.parametrize(
    "module",
    [
        "com.sun.security.auth.module.JndiLoginModule",
        "com.sun.security.auth.module.Krb5LoginModule",
        "software.amazon.msk.auth.iam.IAMLoginModule",
        "com.evil.PlainLoginModule",
        "PlainLoginModule2",
    ],
)
def test_only_kafkas_own_login_modules_are_understood(module: str) -> None:
    text = f'{module} required username="a" password="s3cr3t" user.provider.url="ldap://evil";'
    problems = check(config(sasl_mechanism="PLAIN", sasl_jaas_config=text))
    assert set(problems) == {"sasl.jaas.config"}
    assert (
        f"the login module {module} is a class of Java, and no setting names code" in problems["sasl.jaas.config"]
    )
    assert "s3cr3t" not in str(problems)


def test_a_module_of_another_mechanism_is_named() -> None:
    text = f'{PLAIN} username="a" password="b";'
    problems = check(config(sasl_mechanism="SCRAM-SHA-512", sasl_jaas_config=text))
    assert "expected ScramLoginModule" in problems["sasl.jaas.config"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("sasl.login.class", "com.example.Login"),
        ("sasl.login.callback.handler.class", "software.amazon.msk.auth.iam.IAMClientCallbackHandler"),
        ("sasl.client.callback.handler.class", "com.example.Handler"),
        ("ssl.engine.factory.class", "com.example.Engines"),
        ("security.providers", "com.example.Provider"),
        ("sasl.oauthbearer.jwt.retriever.class", "com.example.Retriever"),
        ("sasl.oauthbearer.assertion.private.key.file", "/key"),
        ("ssl.cipher.suites", "TLS_AES_128_GCM_SHA256"),
    ],
)
def test_a_key_that_names_code_or_is_not_honoured_is_refused(key: str, value: str) -> None:
    with pytest.raises(InvalidSettingError) as caught:
        WireConfig.of({key: value})
    assert set(caught.value.problems) == {key}


def test_kafkas_own_classes_are_accepted() -> None:
    handler = f"{KAFKAS}oauthbearer.OAuthBearerLoginCallbackHandler"
    WireConfig.of({"sasl.login.callback.handler.class": handler, "ssl.trustmanager.algorithm": "PKIX"})


# --- what is missing ---------------------------------------------------------------------------------


def test_all_that_is_missing_is_named_at_once() -> None:
    found = config(
        ssl_keystore_key="-----BEGIN", ssl_truststore_password="s3cr3t", ssl_endpoint_identification_algorithm="ftp"
    )
    with pytest.raises(InvalidSettingError) as caught:
        login_of(found)
    assert set(caught.value.problems) == {
        "sasl.mechanism", "sasl.username", "sasl.password", "ssl.keystore.certificate.chain",
        "ssl.truststore.location", "ssl.endpoint.identification.algorithm",
    }  # fmt: skip
    assert "s3cr3t" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "problems"),
    [
        ({}, {"sasl.mechanism", "sasl.username", "sasl.password"}),
        ({"sasl_mechanism": "PLAIN"}, {"sasl.username", "sasl.password"}),
        ({"sasl_mechanism": "scram-sha-256", "sasl_username": "a"}, {"sasl.password"}),
        ({"sasl_mechanism": "PLAIN", "sasl_jaas_config": f'{PLAIN} username="a";'}, {"sasl.jaas.config"}),
        ({"sasl_mechanism": "GSSAPI"}, {"sasl.mechanism"}),
        ({"sasl_mechanism": "AWS_MSK_IAM"}, {"sasl.mechanism"}),
        ({"sasl_mechanism": "SCRAM-SHA-1", "sasl_username": "a", "sasl_password": "b"}, {"sasl.mechanism"}),
        (
            {"sasl_mechanism": "PLAIN", "sasl_username": "a",
             "sasl_jaas_config": f"{PLAIN} username=a password=b;"},
            {"sasl.jaas.config"},
        ),
        (
            {"sasl_mechanism": "OAUTHBEARER"},
            {
                "sasl.oauthbearer.token.endpoint.url",
                "sasl.oauthbearer.client.credentials.client.id",
                "sasl.oauthbearer.client.credentials.client.secret",
            },
        ),
        (
            {"sasl_mechanism": "OAUTHBEARER", "sasl_jaas_config": f"{BEARER} clientId=a clientSecret=b;"},
            {"sasl.oauthbearer.token.endpoint.url"},
        ),
        ({"sasl_mechanism": "OAUTHBEARER", "sasl_jaas_config": f"{BEARER} unsecuredLoginStringClaim_sub=a;",
          "sasl_oauthbearer_token_endpoint_url": "file:/t"}, {"sasl.jaas.config"}),
        ({"sasl_mechanism": "SCRAM-SHA-256", "sasl_jaas_config": f"{SCRAM} username=a password=b tokenauth=true;"},
         {"sasl.jaas.config"}),
    ],
)  # fmt: skip
def test_half_a_login_is_named_by_its_keys(settings: dict[str, Any], problems: set[str]) -> None:
    assert set(check(config("SASL_PLAINTEXT", **settings))) == problems


@pytest.mark.parametrize(
    ("settings", "problems"),
    [
        ({"ssl_truststore_location": "/a", "ssl_truststore_certificates": "b"}, {"ssl.truststore.certificates"}),
        ({"ssl_keystore_location": "/a", "ssl_keystore_key": "b"}, {"ssl.keystore.key"}),
        ({"ssl_keystore_certificate_chain": "a"}, {"ssl.keystore.key"}),
        ({"ssl_key_password": "a"}, {"ssl.keystore.location"}),
        ({"ssl_keystore_password": "a"}, {"ssl.keystore.location"}),
        ({"ssl_truststore_location": "/a", "ssl_keystore_location": "/b"}, set()),
        ({"ssl_endpoint_identification_algorithm": ""}, set()),
    ],
)
def test_half_a_store_is_named_by_its_keys(settings: dict[str, Any], problems: set[str]) -> None:
    assert set(check(config("SSL", **settings))) == problems


@pytest.mark.parametrize(
    ("url", "protocol", "is_used"),
    [
        ("https://login.example/token?x=1", "SASL_SSL", True),
        ("http://login.example/token", "SASL_PLAINTEXT", True),
        ("http://localhost:8080/token", "SASL_SSL", True),
        ("http://login.example/token", "SASL_SSL", False),
        ("https://user:s3cr3t@login.example/token", "SASL_SSL", False),
        ("file:/run/token", "SASL_SSL", True),
        ("file:///run/token", "SASL_SSL", True),
        ("file:token", "SASL_SSL", False),
        ("file://other/token", "SASL_SSL", False),
        ("ftp://login.example/", "SASL_SSL", False),
        ("https:///token", "SASL_SSL", False),
        ("https://[::1/token", "SASL_SSL", False),
        ("https://login.example:port/", "SASL_SSL", False),
    ],
)
def test_an_endpoint_of_tokens_is_https_or_a_file(url: str, protocol: str, is_used: bool) -> None:
    found = check(
        config(
            protocol,
            sasl_mechanism="OAUTHBEARER",
            sasl_oauthbearer_token_endpoint_url=url,
            sasl_oauthbearer_client_credentials_client_id="a",
            sasl_oauthbearer_client_credentials_client_secret="b",
        )
    )
    assert set(found) == (set() if is_used else {"sasl.oauthbearer.token.endpoint.url"})
    assert "s3cr3t" not in str(found)


def test_a_function_for_tokens_needs_oauthbearer() -> None:
    assert set(check(config("SSL"), has_token=True)) == {"security.protocol"}
    with_password = config(sasl_mechanism="PLAIN", sasl_username="a", sasl_password="b")
    assert set(check(with_password, has_token=True)) == {"sasl.mechanism"}
    extended = config(sasl_mechanism="OAUTHBEARER", sasl_jaas_config=f"{BEARER} extension_logicalCluster=lkc-1;")
    login = login_of(extended, has_token=True)
    assert login is not None
    assert [(name, value.reveal()) for name, value in login.extensions] == [("logicalCluster", "lkc-1")]
    for name in ("auth", "a1"):
        wrong = config(sasl_mechanism="OAUTHBEARER", sasl_jaas_config=f"{BEARER} extension_{name}=x;")
        assert set(check(wrong, has_token=True)) == {"sasl.jaas.config"}


def test_a_url_is_shown_without_what_may_be_secret() -> None:
    assert shown_url("https://a.example:8/b?key=s3cr3t#s3cr3t") == "https://a.example:8/b"
