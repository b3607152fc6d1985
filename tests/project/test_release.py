"""The release: what is in it, which file an installer takes, and that a stranger's package of our name never wins.

`make release` does all of it with real wheels; here the parts are tried that need no compiler.
"""

from __future__ import annotations

import http.server
import importlib.metadata
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import threading
import time
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.tags import Tag, cpython_tags
from packaging.utils import parse_wheel_filename
from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent.parent
pytestmark = pytest.mark.skipif(not (ROOT / "release").exists(), reason="no source tree around the tests")

from release import materials, news  # noqa: E402
from release.checks import write_sums  # noqa: E402
from release.commands import ReleaseError  # noqa: E402
from release.contents import complaints_of_sdist, complaints_of_wheel  # noqa: E402
from release.interpreters import ABI3, WHEELS, find, text_of  # noqa: E402
from release.materials import EXTRAS, bill, licence_of, packages_of, requirements  # noqa: E402
from release.news import draft, with_next  # noqa: E402
from release.same import difference, rewrite_sdist, rewrite_wheel  # noqa: E402
from release.stranger import write_wheel  # noqa: E402

OURS = importlib.metadata.version("logstore")

# --- what is in it -----------------------------------------------------------------------------

TRACKED = [
    "README.md",
    "setup.py",
    "src/logstore/__init__.py",
    "src/logstore/batch/_batch.pxd",
    "src/logstore/batch/_batch.pyi",
    "src/logstore/batch/_batch.pyx",
    "src/logstore/batch/_crc32c.h",
    "src/logstore/py.typed",
    "src/logstore/testing/_disk.pyx",
]
WHEEL = [
    "logstore/__init__.py",
    "logstore/batch/_batch.cpython-313-x86_64-linux-gnu.so",
    "logstore/batch/_batch.pxd",
    "logstore/batch/_batch.pyi",
    "logstore/batch/_crc32c.h",
    "logstore/py.typed",
    "logstore/testing/_disk.cpython-313-x86_64-linux-gnu.so",
    "logstore-2026.11.0.dist-info/METADATA",
]


def test_a_source_distribution_with_every_tracked_file_is_fine() -> None:
    assert complaints_of_sdist([*TRACKED, "PKG-INFO", "src/logstore.egg-info/PKG-INFO"], TRACKED) == []


@pytest.mark.parametrize("lost", TRACKED)
def test_a_file_lost_from_the_source_distribution_is_named(lost: str) -> None:
    assert complaints_of_sdist([name for name in TRACKED if name != lost], TRACKED) == [f"missing: {lost}"]


@pytest.mark.parametrize("name", ["src/logstore/batch/_batch.c", "src/logstore/batch/_batch.abi3.so"])
def test_what_was_generated_is_not_in_the_source_distribution(name: str) -> None:
    assert complaints_of_sdist([*TRACKED, name], TRACKED) == [f"generated: {name}"]


def test_a_wheel_with_modules_stubs_and_one_extension_for_each_source_is_fine() -> None:
    assert complaints_of_wheel(WHEEL, TRACKED, abi3=False) == []
    stable = [re.sub(r"\.cpython-.*\.so", ".abi3.so", name) for name in WHEEL]
    assert complaints_of_wheel(stable, TRACKED, abi3=True) == []


@pytest.mark.parametrize("lost", [name for name in WHEEL if ".dist-info" not in name])
def test_a_file_lost_from_a_wheel_is_named(lost: str) -> None:
    (complaint,) = complaints_of_wheel([name for name in WHEEL if name != lost], TRACKED, abi3=False)
    what, _, name = complaint.partition(": ")
    assert what == ("not compiled" if lost.endswith(".so") else "missing")
    assert lost.startswith(name)


@pytest.mark.parametrize(
    ("extra", "complaint"),
    [
        ("logstore/batch/_batch.pyx", "does not belong: logstore/batch/_batch.pyx"),
        ("logstore/batch/_batch.c", "does not belong: logstore/batch/_batch.c"),
        ("tests/batch/test_batch.py", "does not belong: tests/batch/test_batch.py"),
        ("logstore/left_over.py", "not from src: logstore/left_over.py"),
        ("logstore/_gone.cpython-313-x86_64-linux-gnu.so", "compiled from nothing: logstore/_gone"),
    ],
)
def test_a_file_too_many_in_a_wheel_is_named(extra: str, complaint: str) -> None:
    assert complaints_of_wheel([*WHEEL, extra], TRACKED, abi3=False) == [complaint]


def test_an_extension_of_the_other_kind_is_named() -> None:
    """A stale build directory once put extensions of one Python into a wheel for all."""
    complaints = complaints_of_wheel(WHEEL, TRACKED, abi3=True)
    assert complaints == [f"not .abi3.so: {name}" for name in sorted(WHEEL) if name.endswith(".so")]


def test_the_sums_are_what_sha256sum_reads(tmp_path: Path) -> None:
    (tmp_path / "a.whl").write_bytes(b"abc")
    write_sums([tmp_path / "a.whl"], tmp_path / "SHA256SUMS")
    assert (tmp_path / "SHA256SUMS").read_text() == (
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  a.whl\n"
    )


# --- the same bytes from the same commit -------------------------------------------------------

COMMITTED = 1_793_000_000


def write_sdist(path: Path, names: list[str], when: int, mode: int) -> Path:
    path.parent.mkdir()
    with tarfile.open(path, "w:gz") as archive:
        for name in names:
            member = tarfile.TarInfo(f"logstore-1/{name}")
            member.size, member.mtime, member.mode, member.uid, member.uname = (
                len(name),
                when,
                mode,
                when,
                f"u{when}",
            )
            archive.addfile(member, io.BytesIO(name.encode()))
    return path


def write_zip(path: Path, names: list[str], when: int, mode: int) -> Path:
    path.parent.mkdir(exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name in names:
            entry = zipfile.ZipInfo(name, time.gmtime(when)[:6])
            entry.external_attr = mode << 16
            archive.writestr(entry, name)
    return path


@pytest.mark.parametrize(
    ("write", "rewrite", "name"),
    [(write_sdist, rewrite_sdist, "logstore-1.tar.gz"), (write_zip, rewrite_wheel, "logstore-1-py3-none-any.whl")],
    ids=["sdist", "wheel"],
)
def test_two_builds_of_one_commit_have_the_same_bytes(tmp_path: Path, write: Any, rewrite: Any, name: str) -> None:
    names = ["a.py", "b/c.py", "logstore-1.dist-info/RECORD", "z.py"]
    first = write(tmp_path / "1" / name, names, 1_793_100_000, 0o644)
    second = write(tmp_path / "2" / name, names[::-1], 1_793_200_000, 0o600)
    assert difference(first, second).endswith("its order, times or packing differ")
    for path in (first, second):
        rewrite(path, COMMITTED)
    assert difference(first, second) == ""
    other = write(tmp_path / "3" / name, [*names, "new.py"], 1_793_100_000, 0o644)
    rewrite(other, COMMITTED)
    assert "new.py differ" in difference(first, other)
    if name.endswith(".whl"):
        with zipfile.ZipFile(first) as wheel:
            assert wheel.namelist()[-1].endswith("RECORD")
            assert {entry.date_time for entry in wheel.infolist()} == {time.gmtime(COMMITTED)[:6]}


# --- the bill of materials ---------------------------------------------------------------------

#: What pip reports of an install, shortened.
REPORT = {
    "install": [
        {"metadata": {"name": "logstore", "version": "2026.11.0"}, "download_info": {}},
        {
            "metadata": {
                "name": "Pandas",
                "version": "2.2.3",
                "requires_dist": ["numpy>=1.26; python_version>'3'"],
            },
            "download_info": {"archive_info": {"hashes": {"sha256": "b" * 64}}},
        },
        {
            "metadata": {"name": "numpy", "version": "2.1", "license_expression": "BSD-3-Clause"},
            "download_info": {"archive_info": {"hashes": {"sha256": "a" * 64}}},
        },
    ]
}


def test_ours_is_no_entry_of_what_is_looked_up() -> None:
    """Its name on the public index is a stranger's: what is said of that package is not said of ours."""
    packages = {f"{each.name}=={each.version}": each for each in packages_of(REPORT, "tables")}
    assert sorted(packages) == ["numpy==2.1", "pandas==2.2.3"]
    assert requirements(packages.values()) == "numpy==2.1\npandas==2.2.3\n"
    assert packages["pandas==2.2.3"].needs == {"numpy"}


def test_two_extras_with_two_versions_of_a_package_are_looked_up_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pip-audit refuses a list that has one name twice."""
    (one, numpy) = packages_of(REPORT, "tables")
    other = one._replace(version="3.1.1", extras=frozenset(["spark"]))
    found = {f"{each.name}=={each.version}": each for each in (one, numpy, other)}
    asked: list[str] = []
    monkeypatch.setattr(materials, "run", lambda *words: asked.append(Path(words[2]).read_text()))
    assert materials.audit(found, tmp_path) is None
    assert sorted(asked) == ["", "", "", "", "", "numpy==2.1\npandas==2.2.3\n", "pandas==3.1.1\n"]


@pytest.mark.parametrize(
    ("about", "licence"),
    [
        ({"license_expression": "MIT", "license": "other"}, "MIT"),
        ({"classifier": ["License :: OSI Approved :: BSD License", "Topic :: X"]}, "BSD License"),
        ({"license": "Apache 2.0\n\nwhole text"}, "Apache 2.0"),
        ({}, ""),
    ],
)
def test_the_licence_is_what_the_metadata_say(about: dict[str, Any], licence: str) -> None:
    assert licence_of(about) == licence


def test_the_bill_has_a_subject_without_a_package_url_and_its_packages_with_their_hashes() -> None:
    pytest.importorskip("cyclonedx", reason="cyclonedx is missing: make release installs it")
    packages = {f"{each.name}=={each.version}": each for each in packages_of(REPORT, "tables")}
    text = bill("2026.11.0", [("logstore-2026.11.0.tar.gz", "c" * 64)], packages, COMMITTED)
    assert text == bill("2026.11.0", [("logstore-2026.11.0.tar.gz", "c" * 64)], packages, COMMITTED)
    found = json.loads(text)
    subject = found["metadata"]["component"]
    assert (subject["name"], "purl" in subject) == ("logstore", False)
    assert subject["externalReferences"][0]["hashes"][0]["content"] == "c" * 64
    listed = {each["name"]: each for each in found["components"]}
    assert listed.keys() == {"numpy", "pandas"}
    assert listed["numpy"]["hashes"][0]["content"] == "a" * 64
    assert listed["numpy"]["licenses"] == [{"license": {"id": "BSD-3-Clause"}}]
    assert listed["pandas"]["properties"] == [{"name": "logstore:extra", "value": "tables"}]
    assert {"ref": "pandas==2.2.3", "dependsOn": ["numpy==2.1"]} in found["dependencies"]


def test_every_extra_is_a_users_and_in_the_bill() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(project["optional-dependencies"]) == set(EXTRAS)


def test_every_dependency_group_is_installed_by_the_makefile_and_asks_no_index_for_logstore() -> None:
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    makefile = (ROOT / "Makefile").read_text()
    assert {name for name in groups if f"/.with-{name}" not in makefile} == set()
    named = [each for group in groups.values() for each in group if isinstance(each, str)]
    assert [each for each in named if each.startswith("logstore")] == []


# --- which file an installer takes -------------------------------------------------------------


def published(version: str) -> list[str]:
    """Names of the wheels that a release has."""
    own = [f"cp{major}{minor}-cp{major}{minor}" for major, minor in WHEELS]
    tags = [*own, f"cp{ABI3[0]}{ABI3[1]}-abi3"]
    return [f"logstore-{version}-{tag}-manylinux_2_34_x86_64.whl" for tag in tags]


def chosen(python: tuple[int, int], names: list[str]) -> str | None:
    """Which of the files an installer on that Python takes: the first of its tags that one of them has."""
    platforms = ["manylinux_2_36_x86_64", "manylinux_2_34_x86_64", "linux_x86_64"]
    tags: list[Tag] = list(cpython_tags(python, platforms=platforms))
    fitting = [
        (min(tags.index(tag) for tag in parse_wheel_filename(name)[3] & set(tags)), name)
        for name in names
        if parse_wheel_filename(name)[3] & set(tags)
    ]
    return min(fitting)[1].removeprefix(f"logstore-{OURS}-").partition("-many")[0] if fitting else None


@pytest.mark.parametrize(
    ("python", "expected"),
    [
        ((3, 10), None),
        ((3, 11), "cp311-cp311"),
        ((3, 12), "cp312-cp312"),
        ((3, 13), "cp313-cp313"),
        ((3, 14), "cp312-abi3"),
        ((3, 27), "cp312-abi3"),
    ],
    ids=str,
)
def test_a_python_gets_its_own_wheel_and_a_newer_one_the_stable(
    python: tuple[int, int], expected: str | None
) -> None:
    assert chosen(python, published(OURS)) == expected


def test_wheels_are_built_for_what_the_project_says() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = {line.rpartition(" ")[2] for line in project["classifiers"] if re.search(r":: 3\.\d+$", line)}
    assert named == {text_of(version) for version in WHEELS}
    assert project["requires-python"] == f">={text_of(min(WHEELS))}"


def test_an_interpreter_that_only_prints_advice_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = sys.version_info[:2]
    advice = tmp_path / "shims" / f"python{text_of(version)}"
    advice.parent.mkdir()
    advice.write_text("#!/bin/sh\necho 'no such version is installed' >&2\nexit 127\n")
    advice.chmod(0o755)
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    monkeypatch.setenv("PATH", str(advice.parent))
    assert find([version, (3, 99)]) == ({}, [version, (3, 99)])
    real = tmp_path / "real"
    real.mkdir()
    (real / advice.name).symlink_to(sys.executable)
    monkeypatch.setenv("PATH", f"{advice.parent}{os.pathsep}{real}")
    if find([version])[1]:
        pytest.skip("this Python is without headers or venv")
    assert find([version])[0] == {version: real / advice.name}


# --- the version -------------------------------------------------------------------------------


def git(*command: str, cwd: Path) -> None:
    identity = ["-c", "user.name=release", "-c", "user.email=release@localhost"]
    subprocess.run(["git", *identity, *command], cwd=cwd, check=True, capture_output=True)


def test_a_tag_is_the_version_and_a_commit_after_it_a_later_one(tmp_path: Path) -> None:
    scm = pytest.importorskip("setuptools_scm")
    rule = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools_scm"]
    git("init", "--quiet", cwd=tmp_path)
    versions = []
    for tag in ("2026.11.0", None, None, "2026.12.0"):
        git("commit", "--quiet", "--allow-empty", "--message", "one", cwd=tmp_path)
        if tag:
            git("tag", tag, cwd=tmp_path)
        versions.append(scm.get_version(root=str(tmp_path), **rule))
    assert versions == ["2026.11.0", "2026.11.0.post1", "2026.11.0.post2", "2026.12.0"]
    assert sorted(versions, key=Version) == versions
    assert not any(Version(version).is_prerelease for version in versions)


# --- the stranger ------------------------------------------------------------------------------


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def indexes(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """(a folder, its URL): `NAME/logstore/` in it is what the index NAME has of logstore."""
    root = tmp_path / "indexes"
    root.mkdir()
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0),
        lambda *rest: _Quiet(*rest, directory=str(root)),  # type: ignore[arg-type]
    )
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield root, f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def publish(root: Path, index: str, *versions: str) -> None:
    folder = root / index / "logstore"
    folder.mkdir(parents=True)
    for version in versions:
        write_wheel(folder, version)


def taken(tmp_path: Path, *options: str) -> str:
    """The version that pip takes for the bare name."""
    into = tmp_path / "taken"
    command = [sys.executable, "-m", "pip", "--isolated", "--disable-pip-version-check", "download", "--quiet"]
    done = subprocess.run(
        [*command, "--no-deps", "--no-cache-dir", "--dest", str(into), *options, "logstore"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = into.iterdir()
    return wheel.name.split("-")[1]


needs_pip = pytest.mark.skipif(
    subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True, check=False).returncode != 0,
    reason="pip is not installed here",
)


@needs_pip
@pytest.mark.row("D4")
@pytest.mark.parametrize("ours", [OURS, "2026.11.0", "2026.11.0.post3"])
def test_ours_is_chosen_over_the_strangers_of_the_same_name(
    ours: str, indexes: tuple[Path, str], tmp_path: Path
) -> None:
    root, url = indexes
    publish(root, "private", "1.0.0", ours)
    assert taken(tmp_path, "--index-url", f"{url}/private") == ours


@needs_pip
def test_a_development_version_would_lose_to_the_stranger(indexes: tuple[Path, str], tmp_path: Path) -> None:
    """Why commits after a tag are .postN: pip leaves pre-releases out while any final version exists."""
    root, url = indexes
    publish(root, "private", "1.0.0", "2026.12.0.dev1")
    assert taken(tmp_path, "--index-url", f"{url}/private") == "1.0.0"


@needs_pip
def test_a_second_index_decides_by_the_number_alone(indexes: tuple[Path, str], tmp_path: Path) -> None:
    """Why nothing of ours says --extra-index-url: the owner of the name there may raise the number."""
    root, url = indexes
    publish(root, "private", OURS)
    publish(root, "public", "9999.0.0")
    assert taken(tmp_path, "--index-url", f"{url}/private") == OURS
    (tmp_path / "taken").rename(tmp_path / "before")
    assert taken(tmp_path, "--index-url", f"{url}/private", "--extra-index-url", f"{url}/public") == "9999.0.0"


@needs_pip
def test_a_python_without_ours_takes_the_strangers_in_silence(indexes: tuple[Path, str], tmp_path: Path) -> None:
    """Why the index must not have the stranger's at all, as the page says: the higher version is no help there."""
    root, url = indexes
    publish(root, "private", "1.0.0")
    write_wheel(root / "private" / "logstore", "2026.11.0", python=">=99")
    assert taken(tmp_path, "--index-url", f"{url}/private") == "1.0.0"
    page = (ROOT / "docs" / "howto" / "private-index.md").read_text()
    assert "silently installs the other 1.0.0" in " ".join(page.split())


def test_no_command_of_ours_names_a_second_index() -> None:
    fence = re.compile(r"^```[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
    places = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    found = [path for path in places for block in fence.findall(path.read_text()) if "--extra-index-url" in block]
    scripts = [ROOT / "Makefile", ROOT / ".ci" / "run", *(ROOT / "release").glob("*.py")]
    assert found + [path for path in scripts if "--extra-index-url" in path.read_text()] == []


# --- the news ----------------------------------------------------------------------------------


CHANGES = f"# Changes\n\n{news.MARK}"
RELEASED = "\n## 2026.11.0\n\n### New\n\n- First.\n"


def test_the_section_of_the_next_release_takes_the_place_of_its_draft() -> None:
    first = with_next(CHANGES + RELEASED, "## Next release\n\n### Fixed\n\n- Less.\n")
    assert first == f"{CHANGES}\n## Next release\n\n### Fixed\n\n- Less.\n{RELEASED}"
    second = with_next(first, "## Next release\n\n### Fixed\n\n- Less.\n- Least.\n\n")
    assert second == f"{CHANGES}\n## Next release\n\n### Fixed\n\n- Less.\n- Least.\n{RELEASED}"
    assert with_next(second, "") == CHANGES + RELEASED
    assert with_next(with_next(CHANGES, "## Next release\n\n- A.\n"), "") == CHANGES


def test_a_changelog_without_its_mark_is_named() -> None:
    with pytest.raises(ReleaseError, match=r"CHANGELOG\.md: the line .*towncrier"):
        with_next("# Changes\n", "## Next release\n")


@pytest.fixture
def project_with_news(tmp_path: Path) -> Path:
    pytest.importorskip("towncrier", reason="towncrier is missing: make lint installs it")
    (tmp_path / "news").mkdir()
    for name in ("pyproject.toml", "news/README.md", "news/template.md.jinja"):
        (tmp_path / name).write_text((ROOT / name).read_text())
    return tmp_path


def test_fragments_become_a_section_by_kind_and_name(project_with_news: Path) -> None:
    assert draft(project_with_news) == ""
    for name, text in {"b.fix.md": "No more\nloss.\n", "c.feature.md": "More.", "+a.fix.md": "Less."}.items():
        (project_with_news / "news" / name).write_text(text)
    section = with_next(CHANGES, draft(project_with_news)).removeprefix(CHANGES)
    assert section == "\n## Next release\n\n### New\n\n- More.\n\n### Fixed\n\n- No more loss.\n- Less.\n"


@pytest.mark.parametrize("name", ["a.md", "a.fux.md", "a.txt"])
def test_what_is_no_fragment_is_named(project_with_news: Path, name: str) -> None:
    (project_with_news / "news" / name).write_text("text")
    with pytest.raises(ReleaseError, match=re.escape(name)):
        draft(project_with_news)


def test_every_fragment_says_something() -> None:
    assert [path.name for path in (ROOT / "news").glob("*.md") if not path.read_text().strip()] == []


# --- the tour ----------------------------------------------------------------------------------


@pytest.mark.row("D4", "O8")
def test_the_tour_gives_right_answers(tmp_path: Path) -> None:
    tour = [sys.executable, "-W", "error", str(ROOT / "examples" / "tour.py")]
    done = subprocess.run(tour, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith(f"logstore {OURS}")
    again = subprocess.run(tour, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert again.returncode != 0, "it needs a directory without an earlier tour's data, and says so"
