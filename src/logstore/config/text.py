"""Settings as text: a TOML file, Java's properties or the environment, parsed into keys and values.

Only the format is checked here, not keys or values. A TOML file may have dotted keys as tables or in quotes,
and lists for comma-separated values. A ``server.properties`` is parsed as Java parses it
(`java.util.Properties.load`: ISO 8859-1, escapes, continued lines). No I/O.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from logstore.config.schema import Setting
from logstore.errors import InvalidSettingError

#: Prefix of environment variables that are settings.
PREFIX = "LOGSTORE_"

#: Variables with that prefix that are not settings: the command line, or the build, tests and fuzzers of
#: the package use them.
NOT_SETTINGS = frozenset(
    {
        "LOGSTORE_BOOTSTRAP",
        "LOGSTORE_CONFIG",
        "LOGSTORE_DIR",
        "LOGSTORE_PROFILE",
        "LOGSTORE_ABUSE",
        "LOGSTORE_AIO_ROUNDS",
        "LOGSTORE_CUTS",
        "LOGSTORE_DROPS",
        "LOGSTORE_FLIPS",
        "LOGSTORE_FUZZ_SLICE",
        "LOGSTORE_GROUP_KILLS",
        "LOGSTORE_HAND_BACK_EVERY",
        "LOGSTORE_INTERRUPT_LINES",
        "LOGSTORE_KILLS",
        "LOGSTORE_REWRITE_SCENARIOS",
        "LOGSTORE_SIMULATED_S",
        "LOGSTORE_SIMULATIONS",
        "LOGSTORE_LOST_PAIRS",
        "LOGSTORE_PIPELINE_KILLS",
        "LOGSTORE_SEED",
        "LOGSTORE_SERVED_TOPICS",
        "LOGSTORE_STATES",
        "LOGSTORE_STEADY_RATE",
        "LOGSTORE_STEADY_S",
        "LOGSTORE_STORM_S",
    }
)
NOT_SETTINGS_PREFIXES = ("LOGSTORE_BUILD_", "LOGSTORE_COMPLETE", "_LOGSTORE_")

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read_settings(data: bytes, name: str) -> dict[str, Setting]:
    """Return the settings in a file's bytes, parsed as TOML (see `is_toml`) or as Java's properties.

    Raises:
        InvalidSettingError: the text is malformed; the message names the file and the line.
    """
    return read_toml(data, name) if is_toml(data, name) else dict(read_properties(data, name))


def is_toml(data: bytes, name: str) -> bool:
    """Return whether `read_settings` parses a file's bytes as TOML: by the suffix of ``name``, else by trial."""
    if name.endswith((".toml", ".properties", ".conf", ".cfg")):
        return name.endswith(".toml")
    try:
        read_toml(data, name)
    except InvalidSettingError:
        return False
    return True


# --- TOML --------------------------------------------------------------------------------------


def read_toml(data: bytes, name: str) -> dict[str, Setting]:
    """Parse TOML; tables, dotted keys and quoted keys all become dotted keys.

    Raises:
        InvalidSettingError: the text is not TOML, or a value has a type that no setting has.
    """
    import tomllib  # it would slow down the import of the package

    try:
        found = tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        advice = ""
        if "overwrite" in str(error):
            advice = '; where one key begins another, write it in quotes: "logstore.tail" = "memory"'
        raise InvalidSettingError({name: f"no TOML: {error}{advice}"}) from None
    problems: dict[str, str] = {}
    settings = dict(_flattened(found, "", problems))
    if problems:
        raise InvalidSettingError(problems)
    return settings


def _flattened(table: Mapping[str, object], before: str, problems: dict[str, str]) -> Iterator[tuple[str, Setting]]:
    for name, value in table.items():
        key = f"{before}{name}"
        if isinstance(value, dict):
            yield from _flattened(value, f"{key}.", problems)
        elif isinstance(value, list) and all(isinstance(part, str | int) for part in value):
            yield key, ",".join(str(part) for part in value)
        elif isinstance(value, str | int | float | bool):
            yield key, value
        else:
            problems[key] = f"expected text, a number, true, false or a list, found {value!r}"


# --- Java's properties -------------------------------------------------------------------------


def read_properties(data: bytes, name: str) -> dict[str, str]:
    """Parse properties as `java.util.Properties.load` does, and strip blanks around values as Kafka does.

    Raises:
        InvalidSettingError: a ``\\u`` is not followed by four hexadecimal digits.
    """
    settings = {}
    for number, line in _logical_lines(data.decode("latin-1")):
        try:
            key, value = _split(line)
            settings[_unescaped(key)] = _unescaped(value).strip()
        except ValueError as error:
            raise InvalidSettingError({f"{name} line {number}": str(error)}) from None
    return settings


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield lines that are not empty or comments, joined where one ends in an odd number of backslashes."""
    held, start = "", 0
    for number, raw in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 1):
        line = raw.lstrip(" \t\f")
        if not held and (not line or line[0] in "#!"):
            continue
        start = start if held else number
        if (len(line) - len(line.rstrip("\\"))) % 2:
            held += line[:-1]
            continue
        yield start, held + line
        held = ""
    if held:
        yield start, held


def _split(line: str) -> tuple[str, str]:
    """Return key and value, still escaped: the key ends at the first unescaped ``=``, ``:`` or blank."""
    at = 0
    while at < len(line) and line[at] not in "=: \t\f":
        at += 2 if line[at] == "\\" else 1
    key, rest = line[:at], line[at:].lstrip(" \t\f")
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(" \t\f")
    return key, rest


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    out, at = [], 0
    while at < len(text):
        if text[at] != "\\":
            out.append(text[at])
            at += 1
            continue
        following = text[at + 1 : at + 2]
        if following == "u":
            digits = text[at + 2 : at + 6]
            if len(digits) < 4 or not all(digit in "0123456789abcdefABCDEF" for digit in digits):
                raise ValueError(f"expected four hexadecimal digits behind \\u, found {digits!r}")
            out.append(chr(int(digits, 16)))
            at += 6
        else:
            out.append(_ESCAPES.get(following, following))
            at += 2
    return "".join(out)


# --- the environment ---------------------------------------------------------------------------


def read_environment(environ: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Return the variables of settings: name in lower case with underscores -> (variable, value)."""
    return {
        name.removeprefix(PREFIX).lower(): (name, value)
        for name, value in environ.items()
        if name.startswith(PREFIX) and name not in NOT_SETTINGS and not name.startswith(NOT_SETTINGS_PREFIXES)
    }
