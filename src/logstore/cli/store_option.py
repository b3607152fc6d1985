"""Options for what a command works on: the directory and settings of a store, or a cluster's brokers."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import click

from logstore.cli.param_types import F, all_of, setting_keys
from logstore.config import log as log_config
from logstore.config.broker import BrokerConfig
from logstore.config.log import Setting
from logstore.config.store import StoreConfig
from logstore.config.text import is_toml, read_environment, read_properties, read_toml
from logstore.errors import LogstoreError, NotALogError
from logstore.paths import local_path
from logstore.store import Store, open_store

if TYPE_CHECKING:
    from logstore.remote.topics.store import RemoteStore


class LocalPath(click.Path):
    """A path on the command line, parsed by `local_path`; ``-`` is standard input or output where allowed."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not (self.allow_dash and value in ("-", b"-")):
            try:
                value = local_path(value)
            except NotALogError as error:
                self.fail(str(error), param, ctx)
        return super().convert(value, param, ctx)


class StoreOptions(NamedTuple):
    """The directory or the brokers, and the settings, given on a command line; each may be missing."""

    directory: str | None
    file: str | None
    settings: Mapping[str, Setting]
    of_topic: Mapping[str, Setting] = {}  #: the topic's own, from `topic_options`
    bootstrap: str | None = None  #: brokers, in the place of a directory
    profile: str | None = None  #: a file with settings of the connection to them

    def config(self) -> StoreConfig:
        """Return the settings; the order of precedence is command line, environment, file, defaults."""
        base = None if self.file is None else StoreConfig.load(self.file)
        return StoreConfig.layered(base, environ=os.environ, arguments=self.settings)

    def broker_config(self) -> BrokerConfig:
        """Return the settings of a broker; from the same places as those of the store, which `config` checks."""
        file = {} if self.file is None else settings_of(self.file, option="--config")
        environment = {name: value for name, (_, value) in read_environment(os.environ).items()}
        return BrokerConfig.among(file, environment, self.settings)

    def path(self) -> str:
        """Return the directory: ``--dir``, else ``log.dirs``.

        Raises:
            click.UsageError: neither is given, or a profile for brokers is.
        """
        self.refuse_profile()
        config = self.config()
        if self.directory is None and not config.log_dirs:
            raise click.UsageError("--dir is missing: give --dir DIR, or set LOGSTORE_DIR")
        return config.directory(self.directory)

    def existing(self) -> str:
        """Return the directory, which must exist.

        Raises:
            NotALogError: the directory does not exist.
        """
        path = self.path()
        if not os.path.isdir(path):
            raise NotALogError("the directory does not exist; check --dir", path=path)
        return path

    def open(self, *, read_only: bool, create: bool = False) -> Store:
        """Open the store; with ``read_only`` another process may have it open for writing."""
        path = self.path() if create else self.existing()
        return open_store(path, self.config(), read_only=read_only, create=create)

    def reach(self, *, read_only: bool, create: bool = False) -> Store | RemoteStore:
        """Connect to the brokers if some are given, else `open` the store.

        Raises:
            click.UsageError: both are given on the command line, or a profile without brokers.
        """
        if self.bootstrap is None:
            return self.open(read_only=read_only, create=create)
        from logstore.remote.topics.store import connect  # here: only a cluster needs a client of brokers

        return connect(*self.connection())

    def refuse_profile(self) -> None:
        """Raise `click.UsageError` if a profile is given, of a command that works on files."""
        if self.profile is not None:
            raise click.UsageError("--profile is for a cluster; give --bootstrap HOST:PORT too")

    def connection(self) -> tuple[str, dict[str, Setting]]:
        """Return the brokers, which must be given, and the settings of the connection to them.

        Raises:
            click.UsageError: settings of a store are given too, or the profile cannot be read.
        """
        assert self.bootstrap is not None
        if self.file is not None:
            raise click.UsageError("--config has settings of a store; give those of a cluster by --profile FILE")
        settings = {} if self.profile is None else settings_of(self.profile)
        return self.bootstrap, {**settings, **self.settings}


def settings_of(path: str, *, option: str = "--profile") -> dict[str, Setting]:
    """Return the settings in a file: TOML, or properties as Kafka's ``--command-config`` has them.

    Raises:
        click.UsageError: the file cannot be read, or is malformed.
    """
    try:
        with open(path, "rb") as file:
            data = file.read()
        return dict(read_toml(data, path) if is_toml(data, path) else read_properties(data, path))
    except (OSError, LogstoreError) as error:
        raise click.UsageError(f"{option} {path}: {error}") from error


def _pairs(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> dict[str, Setting]:
    return parse_settings(values)


def parse_settings(values: tuple[str, ...]) -> dict[str, Setting]:
    """Parse ``key=value`` words as settings.

    Raises:
        click.BadParameter: a word has no ``=``, or no key before it.
    """
    settings: dict[str, Setting] = {}
    for value in values:
        key, sign, rest = value.partition("=")
        if not sign or not key.strip():
            raise click.BadParameter(f"expected KEY=VALUE, found {value!r}")
        settings[key.strip()] = rest.strip()
    return settings


def _file_and_pairs(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> tuple[str | None, dict[str, Setting]]:
    """Split the values of ``--config`` into a file and KEY=VALUE pairs: Kafka's own tools take pairs there."""
    pairs = tuple(value for value in values if "=" in value and not os.path.exists(value))
    named = [value for value in values if value not in pairs] or [os.environ.get("LOGSTORE_CONFIG", "")]
    if len(named) > 1:
        raise click.BadParameter(f"expected one file, or KEY=VALUE, found {' and '.join(named)}")
    file = LocalPath(dir_okay=False).convert(named[0], param, ctx) if named[0] else None
    return file, parse_settings(pairs)


_CONFIG = click.option(
    "--config",
    "config_file",
    envvar="LOGSTORE_CONFIG",
    metavar="FILE",
    type=LocalPath(dir_okay=False),
    help="Settings: TOML, or a server.properties of Kafka. [env: LOGSTORE_CONFIG]",
)
_CONFIG_OR_PAIR = click.option(
    "--config",
    "config_file",
    multiple=True,
    callback=_file_and_pairs,
    metavar="FILE|KEY=VALUE",
    help="A setting of the topic; or a file with settings of the store: TOML, or a server.properties of Kafka. "
    "[env: LOGSTORE_CONFIG]",
)


def store_options(command: F) -> F:
    """Add ``--dir``, ``--config`` and ``--set``, passed as ``options``."""
    return _store_options(command, of_topic=False)


def reach_options(command: F) -> F:
    """Add what `store_options` adds, and ``--bootstrap`` and ``--profile``; see `StoreOptions.reach`."""
    return _brokers(_store_options(command, of_topic=False))


def topic_options(command: F) -> F:
    """Add what `reach_options` adds; settings of the command's topic are passed in ``options.of_topic``."""
    return _brokers(_store_options(command, of_topic=True))


_brokers = all_of(
    click.option(
        "--bootstrap",
        envvar="LOGSTORE_BOOTSTRAP",
        metavar="HOST:PORT",
        help="Brokers of a Kafka cluster, with commas, in the place of --dir. [env: LOGSTORE_BOOTSTRAP]",
    ),
    click.option(
        "--profile",
        envvar="LOGSTORE_PROFILE",
        metavar="FILE",
        type=LocalPath(exists=True, dir_okay=False),
        help="Settings of the connection, such as security.protocol: properties or TOML. [env: LOGSTORE_PROFILE]",
    ),
)


def measured_options(command: F) -> F:
    """Add ``--bootstrap``, ``--profile`` and ``--set`` to a command with the argument ``directory``.

    They are passed as ``options``.
    """

    @functools.wraps(command)
    def with_options(*args: Any, **kwargs: Any) -> Any:
        bootstrap, directory = _one_of(kwargs.pop("bootstrap"), kwargs.pop("directory"))
        options = StoreOptions(
            directory, None, kwargs.pop("store_settings"), bootstrap=bootstrap, profile=kwargs.pop("profile")
        )
        return command(*args, options=options, **kwargs)

    setting = click.option(
        "--set",
        "store_settings",
        multiple=True,
        callback=_pairs,
        metavar="KEY=VALUE",
        help="A setting of the store or of the connection, by Kafka's key; may be repeated.",
    )
    return _brokers(setting(cast(F, with_options)))


def _one_of(bootstrap: str | None, directory: str | None) -> tuple[str | None, str | None]:
    """Return the brokers or the directory: what the command line says wins over variables of the environment.

    Raises:
        click.UsageError: both are given in the same place.
    """
    if bootstrap is None or directory is None:
        return bootstrap, directory
    source = click.get_current_context().get_parameter_source
    line = click.core.ParameterSource.COMMANDLINE
    said = (source("bootstrap") is line, line in (source("directory"), source("named_directory")))
    if said == (True, False):
        return bootstrap, None
    if said == (False, True):
        return None, directory
    raise click.UsageError("--dir and --bootstrap exclude each other; give one of them")


def _store_options(command: F, *, of_topic: bool) -> F:
    @functools.wraps(command)
    def with_options(*args: Any, **kwargs: Any) -> Any:
        directory, given, said = (kwargs.pop(name) for name in ("directory", "config_file", "store_settings"))
        bootstrap, directory = _one_of(kwargs.pop("bootstrap", None), directory)
        profile = kwargs.pop("profile", None)
        file, pairs = given if of_topic else (given, {})
        topics = {key: value for key, value in said.items() if of_topic and _is_of_logs(key)} | pairs
        stores = {key: value for key, value in said.items() if key not in topics}
        options = StoreOptions(directory, file, stores, topics, bootstrap, profile)
        return command(*args, options=options, **kwargs)

    return all_of(
        click.option(
            "-d",
            "--dir",
            "directory",
            envvar="LOGSTORE_DIR",
            metavar="DIR",
            type=LocalPath(file_okay=False),
            help="The directory of the store. [env: LOGSTORE_DIR]",
        ),
        _CONFIG_OR_PAIR if of_topic else _CONFIG,
        click.option(
            "--set",
            "store_settings",
            multiple=True,
            callback=_pairs,
            metavar="KEY=VALUE",
            shell_complete=setting_keys("broker", sign="="),
            help=f"A setting of the {'topic, or of the ' * of_topic}store, by Kafka's key; may be repeated.",
        ),
    )(cast(F, with_options))


def _is_of_logs(key: str) -> bool:
    return key in log_config.NAMES or key in log_config.WITHOUT_EFFECT


def directory_argument(command: F) -> F:
    """Add ``[DIRECTORY]``, another form of ``--dir``. The decorator stands above `store_options`."""

    @functools.wraps(command)
    def with_directory(*args: Any, **kwargs: Any) -> Any:
        named, other = kwargs.pop("named_directory"), kwargs["directory"]
        if named is not None:
            source = click.get_current_context().get_parameter_source("directory")
            if source is click.core.ParameterSource.COMMANDLINE and other != named:
                raise click.UsageError(f"--dir {other} and the directory {named} differ; give one of them")
            kwargs["directory"] = named
        return command(*args, **kwargs)

    argument = click.argument(
        "named_directory", metavar="[DIRECTORY]", required=False, type=LocalPath(file_okay=False)
    )
    return argument(cast(F, with_directory))


def json_option(command: F) -> F:
    """Add ``--json``: one object a line instead of a table."""
    return click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")(command)
