"""`make release`: everything between a commit and files that may be published.

1. clone the commit, build the source distribution, from it a wheel for each Python and one for the stable ABI;
2. auditwheel, abi3audit, check-wheel-contents, twine check;
3. publish to a throw-away private index that also holds a stranger's `logstore` 1.0.0, install from it on each
   Python by `--index-url`, and run the tour;
   On an older Python, for which ours does not exist, the stranger's must be what pip takes there, and nothing once
   the index lacks it: so the page says;
4. bill of materials for each extra, known weaknesses, checksums, beside the files in `dist/`.

With `--twice` everything is built a second time, and the release fails if a byte differs.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path

from release import build, checks, index, interpreters, materials, same, trial
from release.commands import ReleaseError, run, say
from release.interpreters import ABI3, WHEELS, text_of
from release.stranger import write_wheel

ROOT = Path(__file__).resolve().parent.parent
TOUR = ROOT / "examples" / "tour.py"


def main() -> int:
    parser = argparse.ArgumentParser(prog="make release", description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="where what has passed is left")
    parser.add_argument("--twice", action="store_true", help="build everything twice, and compare the bytes")
    options = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory(prefix="logstore-release-") as work:
            release(ROOT, Path(work), options.out, twice=options.twice)
    except ReleaseError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    return 0


def release(repository: Path, work: Path, out: Path, *, twice: bool = False) -> None:
    """Leave the files of a release in ``out``, which is emptied first; nothing is there if a step fails."""
    shutil.rmtree(out, ignore_errors=True)
    pythons, lacking = interpreters.find()
    if not pythons:
        raise ReleaseError(f"none of Python {', '.join(text_of(v) for v in WHEELS)} is on this machine")
    if lacking:
        say(f"release: not on this machine, so without a wheel: Python {', '.join(text_of(v) for v in lacking)}")

    os.umask(0o022)  # what is packed has the rights of the files that were unpacked for it
    files, seconds = build_all(repository, work / "first", pythons)
    if twice:
        say("build: all of it a second time")
        again, _ = build_all(repository, work / "second", pythons)
        differences = [text for pair in zip(files, again, strict=True) if (text := same.difference(*pair))]
        if differences:
            raise ReleaseError("two builds of one commit are not the same:\n" + "\n".join(differences))
    say("check: manylinux, stable ABI, contents, metadata")
    checks.check(files)

    with index.serve(work) as private:
        installed = publish_and_try(private, files, pythons, work)
        try_older(private, interpreters.older(), work)
        say("bill of materials, known weaknesses, checksums")
        version = max(pythons)
        wheel = next(path for path in files if f"-cp{version[0]}{version[1]}-cp" in path.name)
        packages = materials.resolved(pythons[version], wheel)
        stem = files[0].name.removesuffix(".tar.gz")
        listed = work / f"{stem}.cdx.json"
        digests = [(path.name, checks.digest_of(path)) for path in files]
        listed.write_text(materials.bill(installed.version, digests, packages, seconds))
        if problem := materials.audit(packages, work):
            say(f"pip-audit: not asked ({problem})")

    staged = work / "dist"
    staged.mkdir()
    kept = [Path(shutil.copy(path, staged)) for path in [*files, listed]]
    checks.write_sums(kept, staged / "SHA256SUMS")
    shutil.copytree(staged, out)
    for path in sorted(out.iterdir()):
        print(f"{path.stat().st_size:>12,}  {path.name}")
    say(f"to publish: twine upload --repository-url <your index> {out.name}/*.whl {out.name}/*.tar.gz")


def build_all(repository: Path, work: Path, pythons: dict[interpreters.Version, Path]) -> tuple[list[Path], int]:
    """(the source distribution and the wheels, the time of the commit)."""
    work.mkdir()
    source, tracked, seconds = build.clone_of(repository, work)
    say("build: source distribution")
    sdist = build.build_sdist(source, tracked, work, seconds)
    repaired = work / "repaired"
    repaired.mkdir()
    for version, python in pythons.items():
        for abi3 in [False] + [True] * (version == ABI3):
            say(f"build: wheel for Python {text_of(version)}{' and later (abi3)' * abi3}")
            wheel = build.build_wheel(python, version, sdist, tracked, work, seconds, abi3=abi3)
            checks.repair(wheel, repaired, seconds)
    return [sdist, *sorted(repaired.glob("*.whl"))], seconds


def try_older(private: index.PrivateIndex, older: tuple[interpreters.Version, Path] | None, work: Path) -> None:
    """What a Python takes for which there is no logstore: the stranger's, until the index has none.

    Raises:
        ReleaseError: it is not so.
    """
    if older is None:
        say("try: there is no older Python on this machine, so what it takes was not tried")
        return
    version, python = older
    say(f"try: Python {text_of(version)}, for which there is none of ours")
    if (taken := trial.taken(python, private.url, work / "older")) != "1.0.0":
        raise ReleaseError(
            f"Python {text_of(version)} took {taken}, not the stranger's 1.0.0: docs/howto/private-index.md"
        )
    (private.folder / "logstore-1.0.0-py3-none-any.whl").unlink()
    if (taken := trial.taken(python, private.url, work / "none")) is not None:
        raise ReleaseError(f"Python {text_of(version)} took {taken} from an index that has none for it")


def publish_and_try(
    private: index.PrivateIndex, files: list[Path], pythons: dict[interpreters.Version, Path], work: Path
) -> trial.Installed:
    """Upload, install on each Python, tour. Returns the environment of the newest."""
    say("index: what we depend on, a stranger's logstore 1.0.0, and ours")
    wheels = [path for path in files if path.suffix == ".whl"]
    for version, python in pythons.items():
        # From whatever index pip is set up with here; the private one then holds all that an install needs.
        fitting = next(path for path in wheels if f"-cp{version[0]}{version[1]}-cp" in path.name)
        run(
            python,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--only-binary",
            ":all:",
            "-d",
            work / "wanted",
            f"{fitting}[cli,snappy]",
        )
    for path in (work / "wanted").glob("*.whl"):
        if not path.name.startswith("logstore-"):
            shutil.copy(path, private.folder)
    write_wheel(private.folder, "1.0.0")
    try:
        private.upload(files[:1], password="wrong")
    except ReleaseError:
        pass
    else:
        raise ReleaseError("the index has taken an upload with a wrong password")
    private.upload(files)

    installed = None
    for version, python in pythons.items():
        say(f"try: pip install --index-url … logstore, on Python {text_of(version)}")
        installed = _try(python, private, work / f"try-{text_of(version)}", "logstore", files[0], abi3=False)
    abi3 = next((path for path in wheels if "-abi3-" in path.name), None)
    for version, python in pythons.items():
        if abi3 is not None and version >= ABI3:
            say(f"try: the abi3 wheel, on Python {text_of(version)}")
            _try(python, private, work / f"try-abi3-{text_of(version)}", abi3, files[0], abi3=True)
    assert installed is not None  # there is a Python, or we would not be here
    return installed


def _try(
    python: Path, private: index.PrivateIndex, place: Path, what: str | Path, sdist: Path, *, abi3: bool
) -> trial.Installed:
    installed = trial.install(python, private.url, place, what)
    if f"logstore-{installed.version}.tar.gz" != sdist.name or installed.is_abi3 != abi3:
        raise ReleaseError(f"installed was {installed.version} ({', '.join(installed.tags)}), not {sdist.name}")
    said = trial.run_tour(installed, TOUR, place / "tour")
    trial.try_command(installed, private.url)
    print(f"    {installed.version}, {installed.tags[0]}: {said.strip().splitlines()[-1]}")
    return installed


if __name__ == "__main__":
    sys.exit(main())
