"""What the README, the pages and the docstrings show is run, and must give what they say it gives.

On a page, a block of `python` is run and the block of `output` behind it is what it prints; a block of `console`
is a session with a shell, `$` before each command and what it says below. Blocks of `sh` are commands that build,
install or serve, and are not run: each must be one of a few programs. Everything else only shows something.
"""

from __future__ import annotations

import contextlib
import doctest
import importlib
import importlib.util
import io
import os
import pkgutil
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sybil import Example, Sybil
from sybil.evaluators.python import PythonEvaluator
from sybil.parsers.markdown import CodeBlockParser

import logstore
from logstore import Log, Store
from logstore.batch._encode import encode
from logstore.client.producer import Producer
from logstore.config.broker import BrokerConfig
from logstore.config.remote import ClusterConsumerConfig, WireConfig
from logstore.config.schema import keys_of
from tests.remote.fake_cluster import FakeCluster

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = [page for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))) if page.exists()]

#: The broker that pages name.
BROKER = "kafka-1:9092"

#: Their Python needs a Spark: `tests/spark/test_pages.py` runs it.
SPARK_PAGES = [page for page in PAGES if "spark" in page.relative_to(ROOT).as_posix()]
OTHER_PAGES = [page for page in PAGES if page not in SPARK_PAGES]

needs_sources = pytest.mark.skipif(not PAGES, reason="no source tree around the tests")

# --- pages -------------------------------------------------------------------------------------

_run_python = PythonEvaluator()


def run_block(example: Example) -> None:
    """A block of Python; what it prints is kept for the block of output behind it."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        _run_python(example)
    example.namespace["__printed__"] = printed.getvalue()


def compare_output(example: Example) -> None:
    """A block of output: exactly what the Python before it has printed."""
    assert example.namespace.pop("__printed__") == str(example.parsed), f"{example.path}, line {example.line}"


@needs_sources
@pytest.mark.parametrize("page", OTHER_PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_python_on_a_page_gives_what_the_page_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    command_in(tmp_path / "bin", monkeypatch)
    (tmp_path / "page").mkdir()
    monkeypatch.chdir(tmp_path / "page")
    if "kafka-logs" in page.read_text("utf-8"):
        shutil.copytree(ROOT / "tests" / "fixtures" / "kafka-4.3.1", "kafka-logs")
    parsers = [
        CodeBlockParser("python", run_block),
        CodeBlockParser("output", compare_output),
        CodeBlockParser("console", run_session),
    ]
    with contextlib.ExitStack() as open_until_the_end:
        shown = page
        if BROKER in page.read_text("utf-8"):
            # Brokers of this process stand for those that a page names.
            brokers = open_until_the_end.enter_context(FakeCluster(long_polls=True))
            shown = tmp_path / page.name
            shown.write_text(page.read_text("utf-8").replace(BROKER, brokers.bootstrap), "utf-8")
        document = Sybil(parsers=parsers).parse(shown)
        document.namespace["tmp"] = tmp_path
        try:
            for example in document.examples():
                example.evaluate()
        finally:
            close_all(document.namespace)


def close_all(namespace: dict[str, Any]) -> None:
    """What a page has opened and left open."""
    for value in namespace.values():
        if isinstance(value, Log | Store):
            value.close()


def command_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A `logstore` on PATH that runs what is tested here, installed or not, and prints to no terminal."""
    folder.mkdir()
    script = folder / "logstore"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m logstore.cli "$@"\n')
    script.chmod(0o755)
    packages = os.pathsep.join([str(Path(next(iter(logstore.__path__))).parent), os.environ.get("PYTHONPATH", "")])
    for name, value in {
        "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": packages,
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "COLUMNS": "116",
    }.items():
        monkeypatch.setenv(name, value)
    # Without it, what a page shows in order has to be flushed in order.
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)


def run_session(example: Example) -> None:
    """A session: below each line with `$` all that this command prints, and its exit status if it is not `[0]`.

    `...` stands for what is another each time: a path, an id, a time.
    """
    found: list[str] = []
    for line in str(example.parsed).splitlines():
        if line.startswith("$ "):
            done = subprocess.run(
                ["bash", "-o", "pipefail", "-c", line[2:]],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            found += [line, *done.stdout.splitlines(), *([f"[{done.returncode}]"] if done.returncode else [])]
    expected = str(example.parsed).rstrip("\n")
    pattern = ".*".join(re.escape(part) for part in expected.split("..."))
    if not re.fullmatch(pattern, "\n".join(found)):
        assert "\n".join(found) == expected, f"{example.path}, line {example.line}"


#: Languages of blocks, and whether a test runs them; those of `py` need a Spark, and tests in tests/spark run them.
BLOCKS = {"python": True, "output": True, "console": True, "py": True}
BLOCKS |= {"sh": False, "ini": False, "toml": False, "text": False}

#: What a block of `sh` may call: programs that build, install, publish or serve.
PROGRAMS = {
    "devpi",
    "devpi-init",
    "devpi-server",
    "htpasswd",
    "make",
    "mkdir",
    "pip",
    "pypi-server",
    "python",
    "twine",
}

_FENCE = re.compile(r"^ *```+(?P<language>[^\n`]*)\n(?P<text>.*?)^ *```+$", re.MULTILINE | re.DOTALL)


def blocks_of(page: Path) -> list[tuple[str, str]]:
    return [(found["language"].strip(), found["text"]) for found in _FENCE.finditer(page.read_text("utf-8"))]


@needs_sources
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_block_is_run_or_says_why_not(page: Path) -> None:
    for language, text in blocks_of(page):
        if language.startswith("{"):
            continue  # a directive of Sphinx
        assert language in BLOCKS, f"{language or 'no language'}: {text}"
        if language == "sh":
            lines = re.sub(r"\\\n", " ", text).splitlines()
            called = {line.split()[0] for line in lines if line.strip() and not line.startswith("#")}
            assert called <= PROGRAMS, called - PROGRAMS


#: What a block of Python, or a session, uses of what is not installed with logstore itself.
_USES = {
    "pyarrow": re.compile(r"^\s*(?:import|from) pyarrow\b|\.to_arrow\(", re.MULTILINE),
    "pandas": re.compile(r"^\s*(?:import|from) pandas\b|\.to_pandas\(", re.MULTILINE),
    "polars": re.compile(r"^\s*(?:import|from) polars\b|\.to_polars\(", re.MULTILINE),
    "duckdb": re.compile(r"^\s*(?:import|from) duckdb\b|\.to_duckdb\(", re.MULTILINE),
    "click": re.compile(r"^\$ (?:.*\| *)?logstore\b", re.MULTILINE),
}


@needs_sources
@pytest.mark.row("D4")
@pytest.mark.parametrize("page", OTHER_PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_names_the_extra_of_a_library_before_it_is_used(page: Path) -> None:
    """As written, its blocks run in an environment with nothing but what the page says to install."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    text = page.read_text("utf-8")
    for block in _FENCE.finditer(text):
        if block["language"].strip() not in ("python", "console"):
            continue
        named = {
            extra for found in re.findall(r"\[([a-z,]+)\]", text[: block.start()]) for extra in found.split(",")
        }
        for library, use in _USES.items():
            extras = {extra for extra in ("cli", "tables") if any(library in each for each in project[extra])}
            assert extras, library
            if use.search(block["text"]):
                assert named & extras, f"{library}: name {extras} before {block['text']}"


_LINK = re.compile(r"\]\((?!https?:|mailto:|#)(?P<path>[^)#\s]+)")


@needs_sources
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_link_leads_to_a_file(page: Path) -> None:
    text = _FENCE.sub("", page.read_text("utf-8"))
    targets = {found["path"] for found in _LINK.finditer(text)}
    assert [target for target in sorted(targets) if not (page.parent / target).exists()] == []


_DIRECTIVE = re.compile(r"^\.\. auto(?P<kind>module|class|function):: (?P<name>[\w.]+)$", re.MULTILINE)


def documented() -> set[object]:
    """What the pages of the reference tell of."""
    found: set[object] = set()
    for page in (ROOT / "docs" / "reference").glob("*.md"):
        for match in _DIRECTIVE.finditer(page.read_text("utf-8")):
            if match["kind"] == "module":
                module = importlib.import_module(match["name"])
                found |= {
                    value for value in vars(module).values() if getattr(value, "__module__", "") == match["name"]
                }
            else:
                found.add(pkgutil.resolve_name(match["name"]))
    return found


@needs_sources
@pytest.mark.row("D2")
@pytest.mark.parametrize("name", [*logstore.__all__, "connect", "open"])
def test_a_public_name_is_in_the_reference(name: str) -> None:
    value = getattr(logstore, name)
    assert value in documented()
    assert (value.__doc__ or "").strip()


@needs_sources
@pytest.mark.row("O8")
@pytest.mark.parametrize("guide", ["producer", "consumer", "admin"])
def test_each_guide_shows_what_it_says(guide: str) -> None:
    """One guide for each interface; the test above runs their blocks, and this one that there are enough."""
    languages = [language for language, _ in blocks_of(ROOT / "docs" / "guide" / f"{guide}.md")]
    assert languages.count("python") >= 5
    assert languages.count("output") >= 4


# --- docstrings --------------------------------------------------------------------------------


def modules() -> Iterator[str]:
    yield "logstore"
    for module in pkgutil.walk_packages(logstore.__path__, "logstore."):
        if not module.name.endswith(".__main__"):  # it runs the command
            yield module.name


def docstrings(module: Any) -> Iterator[tuple[str, str]]:
    """(name, text) of a module, its functions, its classes and their members, compiled ones too."""
    yield module.__name__, module.__doc__ or ""
    for name, value in vars(module).items():
        if getattr(value, "__module__", None) != module.__name__:
            continue
        yield f"{module.__name__}.{name}", getattr(value, "__doc__", None) or ""
        if isinstance(value, type):
            for member, part in vars(value).items():
                text = getattr(getattr(part, "__func__", part), "__doc__", None)
                if isinstance(text, str) and not member.startswith("__"):
                    yield f"{module.__name__}.{name}.{member}", text


def examples(*, on_spark: bool = False) -> Iterator[Any]:
    """Those of `logstore.spark`, for `tests/spark/test_pages.py`, or all others."""
    parser = doctest.DocTestParser()
    for module_name in modules():
        if module_name.startswith("logstore.spark") != on_spark:
            continue
        module = importlib.import_module(module_name)
        for name, text in docstrings(module):
            if parser.get_examples(text):
                yield pytest.param(module, text, id=name)


@pytest.mark.parametrize("module, text", list(examples()))
def test_the_example_in_a_docstring_gives_what_it_says(module: Any, text: str, tmp_path: Path) -> None:
    run_docstring(module, text, tmp_path)


def run_docstring(module: Any, text: str, tmp_path: Path) -> None:
    Log.open(tmp_path / "root" / "flights-0").close()
    with Log.open(tmp_path / "another" / "log-0") as log:
        given = {"tmp": tmp_path / "root", "log": log, "batch_of": batch_of}
        names = {**vars(logstore), "logstore": logstore, **vars(module), **given}
        test = doctest.DocTestParser().get_doctest(text, names, module.__name__, module.__file__, None)
        report = io.StringIO()
        failed = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=report.write).failed
    assert not failed, report.getvalue()


def batch_of(values: list[bytes]) -> bytes:
    """One record batch."""
    return bytes(encode(values, timestamp_ms=0))


def test_examples_are_found_in_compiled_modules_too() -> None:
    found = {parameter.id for parameter in examples()}
    assert {"logstore", "logstore.log.log.Log", "logstore.batch._crc32c.crc32c"} <= found


# --- pages made from the code ------------------------------------------------------------------


def docs_module(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@needs_sources
@pytest.mark.row("K1")
def test_the_page_of_settings_tells_what_every_key_does() -> None:
    module = docs_module("settings_page")
    assert module.PAGE.read_text("utf-8") == module.page(), "run python docs/settings_page.py"
    lines = module.page().splitlines()
    rows = {line.split("`")[1]: line.rsplit("|", 2)[1].strip() for line in lines if line.startswith("| `")}
    kinds: tuple[Any, ...] = (logstore.LogConfig, logstore.StoreConfig, logstore.ProducerConfig)
    kinds += (logstore.ConsumerConfig, ClusterConsumerConfig)
    refused = {each.key for kind in kinds[2:] for each in kind.REFUSED}
    kinds += (BrokerConfig,)
    shown = {key.removesuffix("*") for key in rows}
    secured = {key for key in keys_of(WireConfig) if key.startswith(("security.", "ssl.", "sasl."))}
    secured |= {each.key for each in WireConfig.REFUSED}
    members = set(keys_of(ClusterConsumerConfig))
    assert shown == {key for kind in kinds for key in keys_of(kind)} | refused | secured | members
    assert [key for key, meaning in rows.items() if not meaning] == []


@needs_sources
def test_the_readers_tour_has_one_picture_five_modules_and_twelve_concepts() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    tour = page.split("## A reader's tour", 1)[1].split("\n## ", 1)[0]
    _, picture, text = re.split(r"```(?:text)?\n", tour)
    modules = set(re.findall(r"(?:[a-z]+/)*_?[a-z]+(?:_[a-z]+)*(?=   )", picture)) - {"records"}
    package = ROOT / "src" / "logstore"
    there = {path.relative_to(package).with_suffix("").as_posix() for path in package.rglob("*.py*")}
    assert len(modules & there) == 5, modules
    assert len(set(re.findall(r"\*([a-z ]+)\*", text))) == 12


@needs_sources
def test_the_page_of_commands_is_what_the_commands_say() -> None:
    module = docs_module("commands_page")
    assert module.PAGE.read_text("utf-8") == module.page(), "run python docs/commands_page.py"


@needs_sources
def test_a_compiled_method_has_the_signature_of_its_stub() -> None:
    process = docs_module("stub_signatures").process
    shown = process(None, "method", "", Producer.send, None, "(*args)", None)
    assert shown == (
        "(topic: str, value: Buffer | None, key: Buffer | None=None, *, partition: int | None=None, "
        "timestamp: int | datetime.datetime | None=None, headers: Headers | None=None)",
        "SendFuture",
    )
    assert process(None, "class", "", Producer, None, "(store)", None) == ("", None)
    assert process(None, "method", "", logstore.Topic.append, None, "(self)", None) is None
