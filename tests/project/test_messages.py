"""Every message that the library can raise, read from its sources.

A message begins with its object or setting, asks nothing, and names what to do in the words of its reader: calls
for a program, commands on the command line. `messages` finds them all; a rule returns what is wrong with one.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import pytest

from logstore.cli.advice import of_a_command

PACKAGE = Path(__file__).parents[2] / "src" / "logstore"

#: Errors of Python's own protocols and of the program itself: no user reads their text.
_NOT_FOR_USERS = {
    "AssertionError",
    "FileExistsError",
    "FileNotFoundError",
    "IndexError",
    "KeyError",
    "MemoryError",
    "NotImplementedError",
    "OSError",
    "StopIteration",
    "SystemError",
}

#: Names of classes of errors, as they are called; `over` and `to` are constructors of two of them.
_ERROR = re.compile(r"(?:^|\.)_?[A-Z]\w*(?:Error|Exception|Warning)(?:\.over|\.to)?$|\.(?:BadParameter|fail)$")


class Message(NamedTuple):
    where: str  #: file and line
    kind: str  #: the class, or the function that makes the error
    text: str  #: with ``{...}`` for values
    is_part: bool = False  #: put behind an object or a setting by what catches or makes the error

    def __str__(self) -> str:
        return f"{self.where} {self.kind}: {self.text}"


def reduced(node: ast.expr) -> str | None:
    """Return a text with ``{}`` for each value in it; None if the expression holds no text."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = reduced(node.left), reduced(node.right)
        return None if left is None and right is None else f"{left or '{}'}{right or '{}'}"
    return None


def _alternatives(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.IfExp):
        yield from _alternatives(node.body)
        yield from _alternatives(node.orelse)
    else:
        yield node


def in_python(
    source: str,
    where: str,
    makers: frozenset[str] = frozenset(),
    texts: Mapping[str, list[tuple[str, str]]] = MappingProxyType({}),
) -> Iterator[Message]:
    """Yield the messages in a module: of each error that is made, of each text given to a maker of errors.

    A text that a function returns (one of ``texts``) is a message where an error is made of it.
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
            # problems[key] = text
            name = ast.unparse(node.targets[0].value).rpartition(".")[2]
            for text in map(reduced, _alternatives(node.value)):
                if text is not None and name in ("problems", "unknown", "refused"):
                    yield Message(f"{where}:{node.lineno}", name, text, is_part=True)
        if not (isinstance(node, ast.Call) and node.args):
            continue
        kind = ast.unparse(node.func)
        is_maker = kind.rpartition(".")[2] in makers
        if not (_ERROR.search(kind) or is_maker) or kind in _NOT_FOR_USERS or kind.endswith("._fail"):
            continue
        for given in _alternatives(node.args[0]):
            if isinstance(given, ast.Dict):  # a setting and what is wrong with it
                for value in given.values:
                    for text in map(reduced, _alternatives(value)):
                        if text is not None:
                            yield Message(f"{where}:{node.lineno}", kind, text, is_part=True)
            elif isinstance(given, ast.Call) and (name := ast.unparse(given.func).rpartition(".")[2]) in texts:
                for place, text in texts[name]:
                    yield Message(place, kind, text)
            elif (text := reduced(given)) is not None:
                part = is_maker or kind.endswith((".fail", ".BadParameter", ".to"))
                yield Message(f"{where}:{node.lineno}", kind, text, is_part=part)


_LITERAL = r'f?"(?:[^"\\\n]|\\.)*"'
_MADE = re.compile(rf"\b(\w+Error(?:\.to)?)\(\s*((?:{_LITERAL}\s*)+)")


def in_cython(source: str, where: str) -> Iterator[Message]:
    """Yield the messages in a compiled module, which no parser of Python reads."""
    for found in _MADE.finditer(source):
        if found[1] in _NOT_FOR_USERS:
            continue
        literals = re.findall(_LITERAL, found[2])
        text = "".join(
            re.sub(r"\{[^{}]*\}", "{}", each[2:-1]) if each[0] == "f" else each[1:-1] for each in literals
        )
        line = source.count("\n", 0, found.start()) + 1
        yield Message(f"{where}:{line}", found[1], text, is_part=found[1].endswith(".to"))


def makers_in(source: str) -> Iterator[str]:
    """Yield the names of functions that return an error or one text of it, by their annotations."""
    for node in ast.walk(ast.parse(source)):
        returns = node.returns if isinstance(node, ast.FunctionDef) else None
        if returns is not None and _ERROR.search(ast.unparse(returns)):
            yield node.name


def texts_of(modules: dict[str, str]) -> dict[str, list[tuple[str, str]]]:
    """Return the texts that functions return, by the name of the function, with their places."""
    found: dict[str, list[tuple[str, str]]] = {}
    for where, source in modules.items():
        for node in ast.walk(ast.parse(source)):
            if (
                isinstance(node, ast.FunctionDef)
                and node.returns is not None
                and ast.unparse(node.returns) == "str"
            ):
                for each in ast.walk(node):
                    if isinstance(each, ast.Return) and each.value is not None:
                        for text in map(reduced, _alternatives(each.value)):
                            if text is not None:
                                found.setdefault(node.name, []).append((f"{where}:{each.lineno}", text))
    return found


def messages() -> list[Message]:
    suffixes = (".py", ".pyx", ".pxd")
    paths = sorted(path for path in PACKAGE.rglob("*.p*") if path.suffix in suffixes)
    sources = {path: path.read_text("utf-8") for path in paths}
    modules = {_shown(path): text for path, text in sources.items() if path.suffix == ".py"}
    compiled = {_shown(path): text for path, text in sources.items() if path.suffix in (".pyx", ".pxd")}
    makers = frozenset(name for text in modules.values() for name in makers_in(text)) - {"of"}
    texts = texts_of(modules)
    found = [message for where, text in modules.items() for message in in_python(text, where, makers, texts)]
    return found + [message for where, text in compiled.items() for message in in_cython(text, where)]


def _shown(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


# --- rules -------------------------------------------------------------------------------------

#: Words that a message may begin with: an article, or an object of the library.
_OBJECTS = re.compile(
    r"(?:an?|the|each|every|one|two|another|base|batch|broker|bytes|catalogue|character|checkpoint|codec|columns?|"
    r"drivers|entry|environment|"
    r"fields?|file|format|groups?|gzip|headers?|keys?|line|login|magic|module|node|offsets?|option|partitions?|pid|position|"
    r"producer|query|records?|rows?|settings|timestamp|topic|values?|"
    r"API|CRC-32C|Java|Kafka(?:'s)?|Parquet|PySpark|Python|Spark)[,:;]?"
)
#: A value, a setting (``retention.ms``, ``value_schema``), an option or an attribute.
_NAMED = re.compile(r"\{\}|--?[a-z]|`|[a-z]+[._][a-z._]+|\w+\(\)|\w+=")
_QUESTION = re.compile(
    r"\?(?:\s|$)|[:;,.] (?:(?:or )?(?:is|are|was|were|does|do|did|has|have) (?:it|the|there|this|its|they)|"
    r"who|why)\b"
)
#: Words of house that are not the field's, and persons that are nobody.
_WORDS = re.compile(
    r"\b(?:anew|mend|mends|mended|nobody|somebody|someone|whoever|anybody|take in|taken in|took in|takes in|"
    r"letter|slip|gathered|housekeeper|let go|lets go|from scratch again|told|speaks up|be at hand|cut off|"
    r"lies|lie|go with)\b"
)


def start(message: Message) -> str | None:
    """Refuse a message that begins with a verb, a negation or a pronoun; a part begins as it likes."""
    first = message.text.split(" ", 1)[0]
    if message.is_part or _OBJECTS.fullmatch(first) or _NAMED.match(first):
        return None
    if first == "expected" and message.kind in ("ValueError", "Refused"):
        return None  # its catcher puts the setting in front
    return f"begins with {first!r}, not with an object or a setting"


def question(message: Message) -> str | None:
    return "asks a question" if _QUESTION.search(message.text) else None


def words(message: Message) -> str | None:
    found = _WORDS.search(message.text)
    return f"has the word {found[0]!r}" if found else None


#: What a program is told to do, and how a call, an argument, a setting, an option or a command is written.
_DO = re.compile(
    r"(?:^|[;:,.] |\b(?:or|and|then|else) )((?:open|reopen|close|seek|commit|flush(?! failed)|create|adopt|scan|"
    r"claim|poll|assign|make (?:another|a new)|take another|take it over|ask the store)\b(?:[^;:.]|[.:]\S)*)"
)
_CALL = re.compile(r"\w\(|\w=|--[a-z]|`|\bLOGSTORE_|\b[a-z]+\.[a-z.]+\b")


def call(message: Message) -> str | None:
    """Refuse advice to a program that names no call, argument, option or setting."""
    for found in _DO.finditer(message.text):
        if message.is_part and found.start() == 0:
            continue  # what failed, not advice
        if not _CALL.search(found[1]):
            return f"advises {found[1]!r} and names no call"
    return None


#: Calls, arguments and classes, which a user of the command line cannot write.
_PYTHON = re.compile(r"=True|=False|\w\(\)|\w=$|\bStore\.|\bLog\.|\blogstore\.(?:open|rebuild)|on_damage")

#: Errors that only a program meets: a command opens and closes what it uses, in one process and one thread.
_PROGRAMS_ERRORS = {
    "AttributeError",
    "BufferError",
    "ClientClosedError",
    "ConsumerClosedError",
    "ForkedError",
    "LogClosedError",
    "NotAssignedError",
    "ReadOnlyError",
    "RuntimeError",
    "StoreClosedError",
    "TypeError",
    "UnsupportedOperationError",
    "WakeupError",
}
#: Modules that no command uses, or only with arguments of its own that cannot be wrong.
_PROGRAMS_MODULES = (
    *("accumulator/", "aio/", "batch/", "client/", "columns/", "remote/backend/", "remote/topics/"),
    *("spark/reading/", "spark/writing/", "testing/"),
    "store/topic.py",
)


def command(message: Message) -> str | None:
    """Refuse advice that the command line cannot translate: `of_a_command` leaves a call of Python in it."""
    if message.kind in _PROGRAMS_ERRORS or message.where.startswith(_PROGRAMS_MODULES):
        return None
    text = message.text.replace("open({})", "open('{}')")
    shown = re.sub(r"`[^`]*`|^\w+= is", "", of_a_command(text))
    found = _PYTHON.search(shown)
    return f"on the command line it says {shown!r}" if found else None


RULES = [start, question, words, call, command]


@pytest.fixture(scope="module")
def found() -> list[Message]:
    return messages()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_every_message(rule, found):
    assert [f"{message}  <- {wrong}" for message in found if (wrong := rule(message))] == []


# --- the walker and its rules see what they must ------------------------------------------------

PLANTED = """
def refuse(path):
    raise StorageError(f"cannot write {path}")

def ask():
    raise errors.LogClosedError("the log is closed; was it meant to be?")

def asked_in_words():
    raise click.UsageError("the process hangs; is it still there")

def advise():
    raise ConsumerClosedError("the consumer is closed; make another")

def call_of_python():
    raise UnknownTopicError("the topic is missing; call Store.invent() for one")

def setting():
    raise InvalidSettingError({"acks": "2 is none of 0, 1, all; is it a slip?"})

def of_a_function(names):
    raise UnknownTopicError(missing(names))

def missing(names) -> str:
    return "there are no topics" if names else "topics begin anew"

def _damaged(text) -> DamagedLogError:
    return DamagedLogError(f"{text}: it lies there")

def found_out():
    raise _damaged("nobody wrote this")

def good():
    raise StorageError(f"{path}: the file is missing; restore it from a copy")
"""


def test_planted_messages_are_found_and_refused():
    texts = texts_of({"planted.py": PLANTED})
    found = list(in_python(PLANTED, "planted.py", frozenset(makers_in(PLANTED)), texts))
    wrong = {message.text: [rule.__name__ for rule in RULES if rule(message)] for message in found}
    assert wrong == {
        "cannot write {}": ["start"],
        "the log is closed; was it meant to be?": ["question"],
        "the process hangs; is it still there": ["question"],
        "the consumer is closed; make another": ["call"],
        "the topic is missing; call Store.invent() for one": ["command"],
        "2 is none of 0, 1, all; is it a slip?": ["question", "words"],
        "there are no topics": ["start"],
        "topics begin anew": ["start", "words"],
        "{}: it lies there": ["words"],
        "nobody wrote this": ["words"],
        "{}: the file is missing; restore it from a copy": [],
    }


def test_planted_messages_of_a_compiled_module_are_found():
    source = """
        raise CorruptRecordError(
            f"could not read {self.path!r}: "
            "was it cut?", path=self.path)
    """
    (message,) = in_cython(source, "_planted.pyx")
    assert message.text == "could not read {}: was it cut?"
    assert [rule.__name__ for rule in RULES if rule(message)] == ["start", "question"]


def test_the_walk_sees_every_part(found):
    parts = {message.where.split("/", 1)[0] for message in found if "/" in message.where}
    assert {"batch", "cli", "client", "columns", "config", "groups", "io", "log", "protocol", "remote"} <= parts
    assert {"spark", "store", "testing"} <= parts
    assert len(found) > 600
