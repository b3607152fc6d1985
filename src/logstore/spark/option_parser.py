"""Parser for options of ``format("logstore")``: known names, and values of the right type.

Spark gives options as text, with their names in lower case. They are looked up in a table of known options, so
one error lists every problem, each with the nearest known name. The readers and writers define the table. Knows
no Spark: imports the vocabulary only. Any thread may use it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from logstore.config import kafka_keys
from logstore.config.quantities import size_bytes
from logstore.config.schema import Rule, nearest
from logstore.errors import ConfigError, NotALogError, SparkOptionError
from logstore.paths import local_path
from logstore.records import INT64_MAX

KAFKA_PREFIX = "kafka."

#: How settings of TLS and SASL begin, behind the prefix.
SECURITY = ("security.", "ssl.", "sasl.")

#: Settings of the client of brokers that Kafka itself does not have.
_OF_OUR_CLIENT = ("sasl.username", "sasl.password")

#: Options that Spark adds to those of a stream.
_OF_SPARK = ("checkpointlocation", "queryname")

#: Options that Spark gives for a table in its catalogue.
_OF_A_TABLE = ("provider", "owner", "location")

#: Kafka settings that Spark's Kafka source refuses too, since an option or the query replaces them.
_REFUSED = {
    "auto.offset.reset": "where a query begins is said by startingOffsets",
    "enable.auto.commit": "the checkpoint of the query keeps its offsets",
    "interceptor.classes": "interceptors are Java classes; there is no Java here",
    "key.deserializer": "keys are given as binary; use cast and from_json, or valueSchema for values",
    "value.deserializer": "values are given as binary; use cast, from_json or the option valueSchema",
    "key.serializer": "keys are written as binary or string columns",
    "value.serializer": "values are written as binary or string columns",
}


# --- one option --------------------------------------------------------------------------------


def text_of(value: str) -> str:
    if not value.strip():
        raise ValueError("expected a text, found none")
    return value.strip()


boolean_of = Rule(boolean=True).parse


def number_of(least: int, most: int = INT64_MAX) -> Callable[[str], Any]:
    """Return a parser for a whole number in [least, most]."""
    return Rule(least, most).parse


def word_of(*words: str) -> Callable[[str], str]:
    """Return a parser for one of some words, in any case."""

    def parse(value: str) -> str:
        word = value.strip().lower()
        if word not in words:
            raise ValueError(f"expected {' or '.join(words)}, found {value!r}")
        return word

    return parse


def list_of(value: str) -> tuple[str, ...]:
    """Parse names separated by commas."""
    names = tuple(name.strip() for name in value.split(",") if name.strip())
    if not names:
        raise ValueError(f"expected names with commas between, found {value!r}")
    return tuple(dict.fromkeys(names))


def size_of(value: str) -> int:
    """Parse a size in bytes of at least one, as `quantities.size_bytes` does."""
    size = size_bytes(value)
    if not 1 <= size <= INT64_MAX:
        raise ValueError(f"expected a number of bytes from 1 to {INT64_MAX}, found {value!r}")
    return size


# --- all of them -------------------------------------------------------------------------------


def option(name: str, parse: Callable[[str], Any], default: Any = None) -> Any:
    """Define a field of a dataclass of options that is set by one option of Spark's."""
    return dataclasses.field(default=default, metadata={"option": name, "parse": parse})


def parsers_of(kind: type) -> dict[str, Callable[[str], Any]]:
    """Return the options that set fields of a dataclass, with their parsers."""
    declared = (each.metadata for each in dataclasses.fields(kind) if each.metadata)
    return {each["option"]: each["parse"] for each in declared}


def fields_of(kind: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a dataclass that given options set."""
    names = {each.metadata.get("option"): each.name for each in dataclasses.fields(kind)}
    return {names[option]: value for option, value in given.items() if option in names}


def take(
    options: Mapping[str, str], known: Mapping[str, Callable[[str], Any]], scope: str, problems: dict[str, str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Parse options by a table of known ones: return values by our spelling, Kafka's settings without their prefix.

    Of the values ``path`` and ``bootstrap``, exactly one is not None. What is wrong with any option is added to
    ``problems``. ``scope`` is ``consumer`` or ``producer``: the client whose settings may follow ``kafka.``.
    """
    spelled = {name.lower(): name for name in known}
    if any(name.lower() in _OF_A_TABLE for name in options):
        raise SparkOptionError(
            {
                "create table": "Spark keeps no options for a table of a source in Python, so none could be read; "
                "make a view: CREATE TEMPORARY VIEW name USING logstore OPTIONS (path '...', subscribe '...')"
            }
        )
    values: dict[str, Any] = {}
    kafka: dict[str, str] = {}
    for given, value in options.items():
        name = given.lower()
        if name in _OF_SPARK:
            continue
        if name.startswith(KAFKA_PREFIX):
            kafka[name.removeprefix(KAFKA_PREFIX)] = value
        elif name not in spelled:
            problems[given] = _nearest(name, spelled)
        else:
            try:
                values[spelled[name]] = known[spelled[name]](value)
            except ValueError as error:
                problems[spelled[name]] = str(error)
    kafka = _kafka_settings(kafka, scope, problems)
    path, bootstrap = values["path"], values["bootstrap"] = _place_of(values, kafka, problems)
    if path is None and bootstrap is not None:
        _check_connection(bootstrap, kafka, problems)
    return values, kafka


def _kafka_settings(given: Mapping[str, str], scope: str, problems: dict[str, str]) -> dict[str, str]:
    """Return client settings in Kafka's spelling; refuse unknown ones, and those that an option replaces."""
    if not given:
        return {}  # saves loading the table of Kafka's keys
    spelled = {key.lower(): key for key in kafka_keys.keys(scope)}
    settings = {}
    for name, value in given.items():
        if name in _REFUSED:
            problems[f"{KAFKA_PREFIX}{name}"] = _REFUSED[name]
        elif name in spelled or name in _OF_OUR_CLIENT or kafka_keys.is_kafkas(name, scope):
            settings[spelled.get(name, name)] = value
        else:
            problems[f"{KAFKA_PREFIX}{name}"] = _nearest(name, spelled, KAFKA_PREFIX)
    return settings


def _check_connection(bootstrap: str, kafka: Mapping[str, str], problems: dict[str, str]) -> None:
    """Add what is wrong with the settings of the connection to brokers, and what is missing for security.

    The client would find it later, after all else is right. No value that may be a secret is shown.
    """
    from logstore.config import security  # here: files need neither
    from logstore.config.remote import WireConfig

    found: dict[str, str] = {}
    left = {**kafka, "bootstrap.servers": bootstrap}
    config = None
    while config is None:
        try:
            config = WireConfig.of(left)
        except ConfigError as error:
            # Without the settings that are refused, the others are checked too.
            found |= error.problems
            if not error.problems.keys() & left.keys():
                break
            left = {key: value for key, value in left.items() if key not in error.problems}
    if config is not None:
        found |= security.check(config)
        try:
            _ = config.addresses
        except ConfigError as error:
            found |= error.problems
    for key, what in found.items():
        is_ours = key == "bootstrap.servers" and key not in kafka
        problems.setdefault("bootstrap" if is_ours else f"{KAFKA_PREFIX}{key}", what)


def _nearest(name: str, spelled: Mapping[str, str], prefix: str = "") -> str:
    """Suggest a name as `settings.nearest` does among lower-case names, in our spelling and with a prefix."""
    guess = nearest(name, list(spelled))
    head, found, tail = guess.rpartition("the nearest name is ")
    return f"{head}{found}{prefix}{spelled[tail]}" if found else guess


def _place_of(
    given: Mapping[str, Any], kafka: Mapping[str, str], problems: dict[str, str]
) -> tuple[str | None, str | None]:
    """Return (path, bootstrap), of which one is None: where the records are stored, or are to be written."""
    path, ours, kafkas = given.get("path"), given.get("bootstrap"), kafka.get("bootstrap.servers")
    if path is not None:
        try:
            path = local_path(path)  # absolute: executors run in other directories than the driver
        except NotALogError as error:
            problems["path"] = (
                f"{error}. The driver and all executors have to see it under one path; else read and write through "
                "a broker (option bootstrap)"
            )
    if ours is not None and kafkas is not None and ours != kafkas:
        problems["bootstrap"] = f"{ours}, but kafka.bootstrap.servers is {kafkas}; set one of them"
    bootstrap = ours if ours is not None else kafkas
    if path is not None and bootstrap is not None:
        problems["path"] = (
            f"{path}, and {'bootstrap' if ours else 'kafka.bootstrap.servers'} too; a store is reached by one"
        )
    if path is None and bootstrap is None and not {"path", "bootstrap"} & set(problems):
        problems["path"] = "missing: give the directory of a store, or bootstrap with the address of a broker"
    return path, bootstrap
