"""``logstore config``: settings, their sources and meanings, and dangerous combinations."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import click

from logstore.cli import completion, output
from logstore.cli.advice import of_a_command
from logstore.cli.commands.offsets import known_group
from logstore.cli.param_types import F, setting_keys
from logstore.cli.store_option import LocalPath, StoreOptions, json_option, parse_settings, store_options
from logstore.config import client as client_config
from logstore.config import kafka_keys
from logstore.config import store as store_config
from logstore.config import text as config_text
from logstore.config.checks import ConfigFinding, GroupLag, Severity, check
from logstore.config.client import ConsumerConfig, ProducerConfig
from logstore.config.log import SCALED, SYNONYMS, WITHOUT_EFFECT, LogConfig
from logstore.config.schema import keys_of, nearest
from logstore.config.store import KEEPING, StoreConfig
from logstore.errors import UnknownSettingError
from logstore.io._files import LIBC


@click.group()
def config() -> None:
    """Show, explain, check and convert settings.

    Settings have Kafka's names. A value is taken from the first of these that gives one: the command line (--set),
    the environment (LOGSTORE_RETENTION_MS is retention.ms), a file (--config: TOML or a server.properties), the
    defaults.
    """


# --- show --------------------------------------------------------------------------------------


@config.command()
@click.option(
    "-t",
    "--topic",
    "name",
    shell_complete=completion.topics,
    help="Print the settings of a topic of the store.",
)
@click.option("--changed", is_flag=True, help="Print only values that differ from the default.")
@json_option
@store_options
def show(name: str | None, changed: bool, as_json: bool, options: StoreOptions) -> None:
    """Print every setting with its value and source.

    JSON: key, value, source, default.
    """
    settings = options.config()
    rows = list(_topic_rows(options, settings, name) if name is not None else _rows(settings))
    if changed:
        rows = [row for row in rows if row["value"] != row["default"]]
    output.print_rows(rows, as_json=as_json, columns=("key", "value", "source"))


def _rows(settings: StoreConfig) -> Iterator[dict[str, Any]]:
    for key, value in settings.items():
        yield _row(key, value, str(settings.source(key)))


def _row(key: str, value: Any, source: str) -> dict[str, Any]:
    return {"key": key, "value": value, "source": source, "default": store_config.DEFAULTS[key]}


def _topic_rows(options: StoreOptions, settings: StoreConfig, name: str) -> Iterator[dict[str, Any]]:
    with options.open(read_only=True) as store:
        described = store.describe_topic(name)
    said = settings.said_of_logs()
    for key, value in described.config.items():
        if key in described.settings:
            source = f"topic {name}"
        elif key in KEEPING and key not in said:
            source = "default" if value == store_config.DEFAULTS[key] else f"topic {name} (when it was made)"
        else:
            source = str(settings.source(key))
        yield _row(key, value, source)


# --- explain -----------------------------------------------------------------------------------


@config.command()
@click.argument(
    "keys",
    nargs=-1,
    required=True,
    shell_complete=setting_keys("topic", "broker", "producer", "consumer"),
)
@json_option
def explain(keys: tuple[str, ...], as_json: bool) -> None:
    """Explain a key: its effect here, type, default, range and other names.

    JSON: key, scope, class (honoured, without effect, refused, removed), type, default, kafka_default, allowed,
    also, meaning. Fields that do not apply to the class are missing.
    """
    found = {key: explained(key) for key in keys}
    unknown = {key: nearest(key, _every_key()) for key, entries in found.items() if not entries}
    if unknown:
        raise UnknownSettingError(unknown)
    for number, entry in enumerate(entry for entries in found.values() for entry in entries):
        if as_json:
            output.print_json(entry)
            continue
        if number:
            output.line()
        width = max(len(name) for name in entry)
        for name, value in entry.items():
            if value not in (None, [], ""):
                shown = ", ".join(value) if isinstance(value, list) else value
                output.line(f"{name.replace('_', ' ').ljust(width)}  {shown}")


def explained(key: str) -> list[dict[str, Any]]:
    """Return the facts about a key: one entry for each scope (topic, broker, producer, consumer) that has it."""
    dotted = key if "." in key else key.replace("_", ".")
    canonical_key = SYNONYMS.get(dotted) or (SCALED[dotted][0] if dotted in SCALED else dotted)
    rules = {"topic": keys_of(LogConfig), "broker": keys_of(StoreConfig)}
    rules |= {"producer": keys_of(ProducerConfig), "consumer": keys_of(ConsumerConfig)}
    entries = []
    for scope, honoured in rules.items():
        kafkas = kafka_keys.keys(scope).get(canonical_key)
        if canonical_key in honoured:
            rule = honoured[canonical_key]
            default = client_config.DEFAULTS.get(scope, store_config.DEFAULTS)[canonical_key]
            entries.append(
                {
                    "key": canonical_key,
                    "scope": scope,
                    "class": "honoured",
                    "type": kafkas.type if kafkas else None,
                    "default": default,
                    "kafka_default": kafkas.default if kafkas and not _same(kafkas.default, default) else None,
                    "allowed": rule.describe(),
                    "also": _also(canonical_key) if scope == "topic" else [],
                    "meaning": kafka_keys.meanings()[canonical_key],
                }
            )
        elif kafkas is not None and not (scope == "broker" and canonical_key in rules["topic"]):
            entries.append(_without_effect(kafkas))
    if not entries and (dotted in kafka_keys.REMOVED or dotted in WITHOUT_EFFECT):
        entries.append(
            {"key": dotted, "class": "removed", "meaning": "A key of an earlier Kafka; it has no effect."}
        )
    return entries


def _without_effect(kafkas: kafka_keys.KafkaKey) -> dict[str, Any]:
    clients: dict[str, type[client_config.ClientConfig]] = {"producer": ProducerConfig, "consumer": ConsumerConfig}
    client = clients.get(kafkas.scope)
    refusal = None if client is None else client.refusal(kafkas.key, "any")
    instead = {} if client is not None else store_config.unkept({kafkas.key: "any"})
    return {
        "key": kafkas.key,
        "scope": kafkas.scope,
        "class": "without effect" if refusal is None else "refused",
        "type": kafkas.type,
        "kafka_default": kafkas.default,
        "allowed": kafkas.valid,
        "meaning": (
            "Kafka's key; it is accepted and changes nothing here"
            + "".join(f". A warning names it: {reason}" for reason in instead.values())
            + "."
            if refusal is None
            else "Kafka's key; refused, unless its value is Kafka's default or describes what logstore does: "
            f"{refusal.removesuffix(' (found any)')}."
        ),
    }


def _same(theirs: str | None, ours: Any) -> bool:
    return theirs is None or theirs.lower() == str(ours).lower() or (theirs == "0.5" and ours == 0.5)


def _also(key: str) -> list[str]:
    plain = [synonym for synonym, meant in SYNONYMS.items() if meant == key]
    return plain + [synonym for synonym, (meant, _) in SCALED.items() if meant == key]


def _every_key() -> list[str]:
    scopes = [list(kafka_keys.keys(scope)) for scope in ("topic", "broker", "producer", "consumer")]
    return [*store_config.DEFAULTS, *(key for keys in scopes for key in keys)]


# --- check -------------------------------------------------------------------------------------


def _settings_of(client: str) -> Callable[[F], F]:
    """Add ``--producer`` or ``--consumer``."""
    return click.option(
        f"--{client}",
        multiple=True,
        callback=lambda _context, _parameter, values: parse_settings(values),
        metavar="KEY=VALUE",
        shell_complete=setting_keys(client, sign="="),
        help=f"A setting of a {client}.",
    )


@config.command("check")
@_settings_of("producer")
@_settings_of("consumer")
@click.option(
    "-g",
    "--group",
    "groups",
    multiple=True,
    shell_complete=completion.groups,
    help="Compare the lag of this group with retention, not of all; may be repeated.",
)
@json_option
@store_options
def check_settings(
    producer: Mapping[str, Any],
    consumer: Mapping[str, Any],
    groups: tuple[str, ...],
    as_json: bool,
    options: StoreOptions,
) -> int:
    """List combinations of settings that can lose data or have no effect, the worst first.

    With a directory, the settings of its topics, the lag of its groups and the size of its disk are checked, too.
    Each finding names a row of docs/rows.md, whose tests show the effect. The status is 1 if one is a danger.

    JSON: name, severity, row, where, keys, meaning, advice.
    """
    settings = options.config()
    facts = _facts(options, groups) if _has_store(options, settings) else {}
    found = check(
        settings,
        producer=ProducerConfig.of(producer) if producer else None,
        consumer=ConsumerConfig.of(consumer) if consumer else None,
        **facts,
    )
    found = [finding._replace(advice=of_a_command(finding.advice)) for finding in found]
    for finding in found if as_json else _together(found):
        output.print_item(finding, as_json=as_json)
    output.say(f"{len(found) or 'no'} finding(s)")
    return output.FAILED if any(finding.severity is Severity.DANGER for finding in found) else output.OK


def _together(found: list[ConfigFinding]) -> list[ConfigFinding]:
    """Merge findings that differ only in their topic or group."""
    places: dict[ConfigFinding, list[str]] = {}
    for finding in found:
        places.setdefault(finding._replace(where=""), []).append(finding.where)
    return [finding._replace(where=", ".join(where)) for finding, where in places.items()]


def _has_store(options: StoreOptions, settings: StoreConfig) -> bool:
    if options.directory is not None:
        options.existing()  # a missing directory that was named must be an error
        return True
    return bool(settings.log_dirs) and os.path.isdir(settings.directory())


def _facts(options: StoreOptions, groups: tuple[str, ...]) -> dict[str, Any]:
    """Return facts of the directory: the settings of its topics, the lag of groups, the size of its disk."""
    with options.open(read_only=True) as store:
        total, _free = LIBC.space(store.path)
        topics = {name: store[name].config for name in store.topics()}
        lags = [
            GroupLag(group, lag.partition.topic, int(lag.seconds * 1000))
            for group in [known_group(store, name) for name in groups] or store.offsets.groups()
            for lag in store.lag(group)
            if lag.records
        ]
    return {"topics": topics, "lags": lags, "disk_bytes": total}


# --- convert -----------------------------------------------------------------------------------


@config.command()
@click.argument("file", type=LocalPath(dir_okay=False))
@click.option(
    "--to", "form", type=click.Choice(["toml", "properties", "environment"]), default="toml", show_default=True
)
def convert(file: str, form: str) -> None:
    """Print the settings of a file in another form. Settings of topics get their topic keys, such as retention.ms.

    Keys of Kafka without effect here are left out and named on standard error. Unknown keys are refused.
    Retention settings of a server.properties, by default Kafka's 7 days, apply only to topics created with that
    file. In the other forms they apply to every topic without its own.
    """
    loaded = StoreConfig.load(file)
    values = {key: value for key, value in loaded.items() if key in loaded.sources}
    keeping: list[str] = []
    if loaded.broker_file and form != "properties":
        # Without the key, the other forms would keep records for ever.
        values.setdefault("retention.ms", loaded.log.retention_ms)
        keeping = [f"{key}={_plain(values[key])}" for key in store_config.KEEPING if key in values]
    with open(file, "rb") as opened:
        given = config_text.read_settings(opened.read(), file)
    # The file may give a setting under two names. The overridden name is a known key, but the source of no value.
    known = {*SYNONYMS, *SCALED, *store_config.DEFAULTS, *(source.name for source in loaded.sources.values())}
    dropped = sorted(key for key in given if key not in known)
    if form == "toml":
        if keeping:
            output.line(f"# Also of topics that are there, unless they have their own: {', '.join(keeping)}")
        output.lines_of(f'"{key}" = {_toml(value)}' for key, value in values.items())
    elif form == "properties":
        output.lines_of(f"{key}={_plain(value)}".replace("\\", "\\\\") for key, value in values.items())
    else:
        output.lines_of(f"{_variable(key)}={_plain(value)}" for key, value in values.items())
    if dropped:
        output.say(f"without effect here, left out: {', '.join(dropped)}")
    if keeping:
        output.say(
            f"{', '.join(keeping)}: in the file for topics that are made with it, in this form for all that have "
            "no settings of their own, also those that are there"
        )


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _toml(value: Any) -> str:
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return _plain(value)


def _variable(key: str) -> str:
    return config_text.PREFIX + key.removeprefix("logstore.").replace(".", "_").upper()
