"""`make release`: everything between a commit and files that may be published.

1. clone the commit, build the source distribution, from it a wheel for each Python and one for the stable ABI;
2. auditwheel, abi3audit, check-wheel-contents, twine check;
3. publish to a throw-away private index that also holds a stranger's `logstore` 1.0.0, install from it on each
   Python by `--index-url`, and run the tour;
4. bill of materials and checksums, beside the files in `dist/`.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from release import build, checks, index, interpreters, trial
from release.commands import ReleaseError, run, say
from release.interpreters import ABI3, WHEELS, text_of
from release.stranger import write_wheel

ROOT = Path(__file__).resolve().parent.parent
TOUR = ROOT / "examples" / "tour.py"


def main() -> int:
    parser = argparse.ArgumentParser(prog="make release", description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="where what has passed is left")
    options = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory(prefix="logstore-release-") as work:
            release(ROOT, Path(work), options.out)
    except ReleaseError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    return 0


def release(repository: Path, work: Path, out: Path) -> None:
    """Leave the files of a release in ``out``, which is emptied first; nothing is there if a step fails."""
    shutil.rmtree(out, ignore_errors=True)
    pythons, lacking = interpreters.find()
    if not pythons:
        raise ReleaseError(f"none of Python {', '.join(text_of(v) for v in WHEELS)} is on this machine")
    if lacking:
        say(f"release: not on this machine, so without a wheel: Python {', '.join(text_of(v) for v in lacking)}")

    source, tracked, _ = build.clone_of(repository, work)
    say("build: source distribution")
    sdist = build.build_sdist(source, tracked, work)
    repaired = work / "repaired"
    repaired.mkdir()
    for version, python in pythons.items():
        for abi3 in [False] + [True] * (version == ABI3):
            say(f"build: wheel for Python {text_of(version)}{' and later (abi3)' * abi3}")
            wheel = build.build_wheel(python, version, sdist, tracked, work, abi3=abi3)
            checks.repair(wheel, repaired)
    files = [sdist, *sorted(repaired.glob("*.whl"))]
    say("check: manylinux, stable ABI, contents, metadata")
    checks.check(files)

    with index.serve(work) as private:
        installed = publish_and_try(private, files, pythons, work)
        say("bill of materials, known weaknesses, checksums")
        stem = sdist.name.removesuffix(".tar.gz")
        materials = work / f"{stem}.cdx.json"
        checks.write_bill_of_materials(installed.python, materials)
        checks.audit_dependencies(next((installed.python.parent.parent / "lib").glob("python*/site-packages")))

    staged = work / "dist"
    staged.mkdir()
    kept = [Path(shutil.copy(path, staged)) for path in [*files, materials]]
    checks.write_sums(kept, staged / "SHA256SUMS")
    shutil.copytree(staged, out)
    for path in sorted(out.iterdir()):
        print(f"{path.stat().st_size:>12,}  {path.name}")
    say(f"to publish: twine upload --repository-url <your index> {out.name}/*.whl {out.name}/*.tar.gz")


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
