"""Rules, names and parsing of settings classes.

`LogConfig`, `StoreConfig`, `ProducerConfig` and `ConsumerConfig` are frozen dataclasses whose fields
carry a `Rule` and their key. This module parses their values, finds a field by any of its names and
suggests a known key for an unknown one. It defines no key itself. Any thread may use it.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import field
from typing import Any, NamedTuple, ParamSpec, Self, TypeVar

from logstore.config.quantities import duration_ms, is_in_words, size_bytes
from logstore.config.secrets import Secret
from logstore.errors import InvalidSettingError, UnknownSettingError
from logstore.records import INT64_MAX, Codec

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C")

Setting = str | int | float | bool | Secret | None
Value = int | float | bool | str | Secret

MILLISECONDS, MINUTES, BYTES = "ms", "minutes", "bytes"  #: units of numbers that may be written in words

_EXAMPLES = {MILLISECONDS: "a time such as 7d", MINUTES: "a time such as 7d", BYTES: "a size such as 10GiB"}

#: A share of the file system, such as ``80%``.
_SHARE = re.compile(r"(\d{1,3}(?:\.\d+)?)\s*%")


class Rule(NamedTuple):
    """Accepted values of a key: a range of numbers, one of some words, true or false, or any text."""

    least: int | float | None = None
    most: int | float | None = None
    words: tuple[str, ...] = ()
    several: bool = False  #: a comma-separated list of the words
    boolean: bool = False
    text: bool = False  #: anything; only surrounding blanks are removed
    share: bool = False  #: a number of bytes within the range, or a share such as ``80%``
    aliases: tuple[tuple[str, str], ...] = ()  #: other spellings of the words
    pattern: str = ""  #: regular expression of values allowed beside the words
    unit: str = ""  #: unit of a number, which may also be written as ``7d`` or ``10GiB``
    secret: bool = False  #: any text, which no output shows

    def parse(self, value: Setting) -> Value:
        """Return the value in its own type; ValueError says what is allowed."""
        if self.boolean:
            return self._boolean(value)
        if self.words:
            return self._words(value)
        if self.text:
            return self._text(value)
        if self.secret:
            return self._secret(value)
        if self.share and isinstance(value, str) and (found := _SHARE.fullmatch(value.strip())):
            if float(found[1]) > 100:
                raise ValueError(f"expected at most 100%, found {value!r}")
            return f"{found[1]}%"
        return self._number(value)

    def describe(self) -> str:
        """Describe the allowed values for people."""
        if self.boolean:
            return "true or false"
        if self.words:
            return ("any of " if self.several else "one of ") + ", ".join(self.words)
        if self.text:
            return "text"
        if self.secret:
            return "text, which is never shown"
        return ", or ".join([f"{self.least} to {self.most}", *self._also()])

    def _also(self) -> list[str]:
        """Describe the other forms of a number."""
        return ([_EXAMPLES[self.unit]] if self.unit else []) + ["a share such as 80%"] * self.share

    def _boolean(self, value: Setting) -> bool:
        if isinstance(value, bool):
            return value
        word = str(value).strip().lower()
        if word in ("true", "false"):
            return word == "true"
        raise ValueError(f"expected true or false, found {value!r}")

    def _words(self, value: Setting) -> str:
        word = str(value).strip()
        if self.pattern and re.fullmatch(self.pattern, word):
            return word
        aliases = dict(self.aliases)
        parts = [part.strip() for part in word.split(",")] if self.several else [word]
        parts = [aliases.get(part, part).lower() for part in parts]
        if not all(part in self.words for part in parts) or (self.several and not word):
            raise ValueError(f"expected one of {', '.join(self.words)}, found {value!r}")
        return ",".join(parts)

    def _text(self, value: Setting) -> str:
        if not isinstance(value, str):
            raise ValueError(f"expected text, found {value!r}")
        return value.strip()

    def _secret(self, value: Setting) -> Secret:
        if isinstance(value, Secret):
            return value
        if not isinstance(value, str):
            # The value may be part of a secret, so it is not shown.
            raise ValueError(f"expected text, found a value of type {type(value).__name__}")
        return Secret(value.strip())

    def _number(self, value: Setting) -> int | float:
        floating = isinstance(self.most, float)
        try:
            if isinstance(value, bool) or not isinstance(value, str | int | float):
                raise ValueError
            number: int | float
            if self.unit and isinstance(value, str) and is_in_words(value):
                number = _counted(value, self.unit)
                number = float(number) if floating else number
            elif floating:
                number = float(value)
                if number != number:  # NaN would pass every bound
                    raise ValueError
            elif isinstance(value, float):
                number = int(value)
                if number != value:
                    raise ValueError
            else:
                number = int(value)
        except (ValueError, OverflowError):
            expected = " or ".join([f"a {'' if floating else 'whole '}number", *self._also()])
            raise ValueError(f"expected {expected}, found {value!r}") from None
        if (self.least is not None and number < self.least) or (self.most is not None and number > self.most):
            raise ValueError(f"expected {self.least} to {self.most}, found {value!r}")
        return number


def _counted(words: str, unit: str) -> int:
    if unit == BYTES:
        return size_bytes(words)
    ms = duration_ms(words)
    return ms if unit == MILLISECONDS else -(-ms // 60_000)


class Refusal(NamedTuple):
    """A refused key of Kafka, or a family of keys with that prefix, for a feature that is not supported here."""

    key: str
    instead: str  #: what to do
    accepted: tuple[str, ...] = ()  #: values that ask for the behaviour here; classes by their last name

    def is_about(self, key: str) -> bool:
        """Return whether a key is this one, or of this family."""
        return key == self.key or (self.key.endswith(".") and key.startswith(self.key))

    def refuses(self, key: str, value: Setting, default: str | None) -> bool:
        """Return whether a key with this value is refused; Kafka's own default never is."""
        if not self.is_about(key):
            return False
        said = "" if value is None else str(value).strip().lower()
        if said in ("", (default or "").lower()):
            return False
        return said.rpartition(".")[2] not in (name.lower() for name in self.accepted)


# --- fields ------------------------------------------------------------------------------------


def setting(default: Value, rule: Rule, key: str = "") -> Any:
    """Make a dataclass field; its key is ``key``, or its name with dots for underscores."""
    return field(default=default, metadata={"rule": rule, "key": key})


def number(default: int, least: int, most: int, key: str = "") -> Any:
    return setting(default, Rule(least, most), key)


def duration(default: int, least: int, most: int, key: str = "", unit: str = MILLISECONDS) -> Any:
    return setting(default, Rule(least, most, unit=unit), key)


def size(default: int, least: int, most: int, key: str = "") -> Any:
    return setting(default, Rule(least, most, unit=BYTES), key)


def ratio(default: float, least: float, most: float, key: str = "") -> Any:
    return setting(default, Rule(float(least), float(most)), key)


def word(default: str, *words: str, several: bool = False, key: str = "") -> Any:
    return setting(default, Rule(words=words, several=several), key)


def boolean(default: bool, key: str = "") -> Any:
    return setting(default, Rule(boolean=True), key)


def text(default: str, key: str = "") -> Any:
    return setting(default, Rule(text=True), key)


def secret(key: str = "") -> Any:
    return setting(Secret(""), Rule(secret=True), key)


def size_or_share(default: int, key: str) -> Any:
    """Make a field for bytes or a share of the file system; -1 for none."""
    return setting(default, Rule(-1, INT64_MAX, share=True, unit=BYTES), key)


def fields_of(cls: Any) -> tuple[dataclasses.Field[Any], ...]:
    """Return the fields of a class that are settings."""
    return tuple(spec for spec in dataclasses.fields(cls) if "rule" in spec.metadata)


def key_of(spec: dataclasses.Field[Any]) -> str:
    return str(spec.metadata["key"]) or spec.name.replace("_", ".")


def keys_of(cls: Any) -> dict[str, Rule]:
    """Return every key of a class with its rule."""
    return {key_of(spec): spec.metadata["rule"] for spec in fields_of(cls)}


def parse_fields(config: Any) -> None:
    """Parse every field of a frozen dataclass to its own type; call it first in ``__post_init__``.

    Raises:
        InvalidSettingError: naming every key whose value is not allowed.
    """
    problems = {}
    for name, key, rule, default in _rules_of(config.__class__):
        given = getattr(config, name)
        if given is default:
            # Parsing the defaults again would slow every opening of a log.
            continue
        try:
            object.__setattr__(config, name, rule.parse(given))
        except ValueError as error:
            problems[key] = str(error)
    if problems:
        raise InvalidSettingError(problems)


@functools.cache
def _rules_of(cls: Any) -> tuple[tuple[str, str, Rule, Any], ...]:
    """Return name, key and rule of every field, and its default if that needs no parsing."""
    found = []
    for spec in fields_of(cls):
        rule: Rule = spec.metadata["rule"]
        parsed = spec.default is not dataclasses.MISSING and rule.parse(spec.default)
        is_parsed = type(parsed) is type(spec.default) and parsed == spec.default
        found.append((spec.name, key_of(spec), rule, spec.default if is_parsed else dataclasses.MISSING))
    return tuple(found)


# --- names -------------------------------------------------------------------------------------


class Name(NamedTuple):
    """A name of a field. Of several in one source, that with the smallest rank takes precedence, as in Kafka."""

    field: str
    rank: int = 0
    scale: int = 1  #: factor of a number, such as hours to milliseconds


#: Another name -> the key, and the factor of its value.
Synonyms = Mapping[str, tuple[str, int]]


def names_of(cls: Any, synonyms: Synonyms) -> dict[str, Name]:
    """Return every name of the fields of a class: the field's, its key, and synonyms in falling precedence."""
    names = {spec.name: Name(spec.name) for spec in fields_of(cls)}
    names |= {key_of(spec): Name(spec.name) for spec in fields_of(cls)}
    for rank, (synonym, (key, scale)) in enumerate(synonyms.items(), 1):
        names.setdefault(synonym, Name(names[key].field, rank, scale))
        names.setdefault(synonym.replace(".", "_"), Name(names[key].field, rank, scale))
    return names


class Sorted(NamedTuple):
    """Settings sorted by their fields."""

    fields: dict[str, Setting]
    given_as: dict[str, str]  #: field -> the name it was given by
    others: list[str]  #: keys that name no field
    problems: dict[str, str]  #: name -> why its value cannot be scaled


def sort_out(given: Mapping[str, Setting], names: Mapping[str, Name]) -> Sorted:
    """Find the field of each setting; of several names for one field, use the one that Kafka prefers."""
    out = Sorted({}, {}, [], {})
    ranks: dict[str, int] = {}
    for key, value in given.items():
        name = names.get(key)
        if name is None:
            out.others.append(key)
            continue
        if name.rank > ranks.get(name.field, name.rank):
            continue
        try:
            out.fields[name.field] = _scaled(value, name.scale)
        except ValueError as error:
            out.problems[key] = str(error)
        ranks[name.field] = name.rank
        out.given_as[name.field] = key
    return out


class Collector:
    """Settings of one class, collected layer by layer, and everything that is wrong with them."""

    def __init__(self) -> None:
        self.fields: dict[str, Any] = {}  # __post_init__ parses every value
        self.problems: dict[str, str] = {}
        self.unknown: dict[str, str] = {}
        self.ignored: set[str] = set()

    def take(self, layer: Mapping[str, Setting], names: Mapping[str, Name]) -> list[str]:
        """Take a layer of settings, which overrides those before; return the keys that name no field."""
        found = sort_out(layer, names)
        self.fields |= found.fields
        self.problems |= found.problems
        return found.others

    def make(self, cls: type[C]) -> C:
        """Return the settings, or raise all problems in one error."""
        try:
            made = cls(**self.fields)
        except InvalidSettingError as error:
            self.problems |= error.problems
        self.check(cls.__module__)
        return made

    def check(self, module: str) -> None:
        """Raise all problems in one error; log the keys without effect, as ``module``."""
        if self.unknown:
            raise UnknownSettingError(self.unknown | self.problems)
        if self.problems:
            raise InvalidSettingError(self.problems)
        if self.ignored:
            logging.getLogger(module).info("settings without effect here: %s", ", ".join(sorted(self.ignored)))


class BaseConfig(ABC):
    """Base of settings classes: made of keys and fields, read as pairs."""

    __slots__ = ()

    def __post_init__(self) -> None:
        parse_fields(self)

    @classmethod
    @abstractmethod
    def of(cls, settings: Mapping[str, Setting] | Self | None = None, /, **fields: Setting) -> Self:
        """Make settings from Kafka's dotted keys and fields by name; ``fields`` override ``settings``."""

    def items(self) -> Iterator[tuple[str, Value]]:
        """Yield every key with its value, in the order of the fields."""
        for spec in fields_of(self):
            yield key_of(spec), getattr(self, spec.name)

    def changed(self) -> dict[str, Value]:
        """Return the keys that differ from their defaults."""
        defaults = defaults_of(type(self))
        return {key: value for key, value in self.items() if value != defaults[key]}

    def _said(self) -> dict[str, Value]:
        """Return the keys that were given, as far as that is known; else those that differ from their defaults."""
        return self.changed()

    def replace(self, **fields: Setting) -> Self:
        """Return a copy with some fields or keys changed; raises as `of` does."""
        return self.of(self, **fields)


@functools.cache
def _names_without_synonyms(cls: type[BaseConfig]) -> Mapping[str, Name]:
    return names_of(cls, {})


class OneLevelConfig(BaseConfig):
    """Base of settings classes whose fields are all their own: no settings inside settings."""

    __slots__ = ()

    @classmethod
    def of(cls, settings: Mapping[str, Setting] | Self | None = None, /, **fields: Setting) -> Self:
        """Make settings from Kafka's dotted keys and fields by name; ``fields`` override ``settings``.

        Kafka's keys without effect here are accepted and named in one log line. If a setting has several names,
        the topic's takes precedence over the broker's, and milliseconds over minutes over hours, as in Kafka.

        Raises:
            UnknownSettingError: a key is unknown; all such keys are named, with the nearest known key, and so is
                every value outside its range.
            InvalidSettingError: a value is outside its range, or a key of Kafka asks for an unsupported feature;
                all such keys are named.
        """
        check_settings(settings)
        if isinstance(settings, cls):
            settings = settings._said()
        found, names = Collector(), cls._names()
        for layer in (dict(settings.items()) if settings is not None else {}, fields):
            for key in found.take(layer, names):
                cls._take_other(key, layer[key], found)
        made = found.make(cls)
        made._check_given(found.fields.keys())
        return made

    def _check_given(self, given: Collection[str]) -> None:
        """Refuse values that cannot go with others, where it matters which fields were given."""

    @classmethod
    def _names(cls) -> Mapping[str, Name]:
        """Return every name of a setting; a class with synonyms adds them."""
        return _names_without_synonyms(cls)

    @classmethod
    @abstractmethod
    def _take_other(cls, key: str, value: Setting, found: Collector) -> None:
        """Add a key that names no field to those that are ignored, refused or unknown."""


class Compression:
    """Part of a settings class with fields for the compression levels."""

    __slots__ = ()

    def level_of(self, codec: Codec) -> int:
        """Return the configured compression level of a codec; 0 for codecs without levels."""
        return int(getattr(self, f"compression_{codec.name.lower()}_level", 0))


@functools.cache
def defaults_of(cls: type[BaseConfig]) -> dict[str, Any]:
    """Return every key of a class with its default."""
    return dict(cls().items())


def _scaled(value: Setting, scale: int) -> Setting:
    if scale == 1:
        return value
    whole = Rule(-INT64_MAX, INT64_MAX, unit=MILLISECONDS).parse(value)
    assert isinstance(whole, int)
    if is_in_words(value):
        return whole  # the words include the unit
    return whole * scale if whole >= 0 else -1


def nearest(key: str, known: Iterable[str], names: Mapping[str, Name] | None = None, cutoff: float = 0.6) -> str:
    """Return ``unknown`` and the known name that is nearest to a key.

    If ``key`` is a key of ``names`` with underscores for dots, its keyword is the nearest name.
    """
    dotted = key.replace("_", ".")
    if names is not None and dotted != key and dotted in names:
        return f"unknown; the nearest name is {names[dotted].field}=, the keyword of {dotted}"
    import difflib  # it would slow down `import logstore`, and only errors need it

    near = difflib.get_close_matches(key, list(known), n=1, cutoff=cutoff)
    return f"unknown; the nearest name is {near[0]}" if near else "unknown"


def with_arguments(
    error: UnknownSettingError, call: Callable[..., object], given: Mapping[str, object]
) -> UnknownSettingError:
    """Return the error, extended by the arguments of the call that unknown keywords probably meant."""
    import inspect  # only errors need it, as above

    parameters = inspect.signature(call).parameters.values()
    names = [each.name for each in parameters if each.kind is not each.VAR_KEYWORD]
    said = {key: nearest(key, names) if key in given else "unknown" for key in error.problems}
    meant = {key: f"{what}=" for key, what in said.items() if what != "unknown"}
    return type(error)(error.problems | meant)


def naming_arguments(call: Callable[P, R]) -> Callable[P, R]:
    """Decorate a call that takes settings as keywords: its error names an argument similar to an unknown one."""

    @functools.wraps(call)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return call(*args, **kwargs)
        except UnknownSettingError as error:
            raise with_arguments(error, call, kwargs) from None

    return called


def check_settings(settings: object) -> None:
    """Refuse settings that are not a mapping, such as a file mode.

    Raises:
        InvalidSettingError: it has no keys and values.
    """
    if settings is not None and not hasattr(settings, "items"):
        found = f"expected keys and their values, found {settings!r}{about_modes(settings)}"
        raise InvalidSettingError({"settings": found})


def about_modes(settings: object) -> str:
    """Return advice about a mode such as ``"w"``; empty for anything else."""
    if not isinstance(settings, str) or not re.fullmatch(r"[rwax]\+?[bt]?\+?", settings):
        return ""
    return "; there are no modes: open(path) reads and writes, open(path, read_only=True) only reads"
