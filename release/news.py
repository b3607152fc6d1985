"""Keep CHANGELOG.md in step with the fragments of `news/`, by towncrier (its settings are in pyproject.toml).

`make changelog` writes the section of the next release and keeps the fragments. `make changelog VERSION=2026.12.0`,
before the tag, gives that section its version and deletes them. `make lint` refuses a changelog that lags behind.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from release.commands import ReleaseError, run

ROOT = Path(__file__).resolve().parent.parent
MARK = "<!-- towncrier release notes start -->\n"
NEXT = "Next release"

_VERSION = re.compile(r"20\d\d\.([1-9]|1[0-2])\.\d+")


def with_next(changelog: str, section: str) -> str:
    """Return the changelog with ``section`` as that of the next release, in place of an earlier draft.

    Raises:
        ReleaseError: the changelog lacks the mark that sections are written below.
    """
    head, mark, released = changelog.partition(MARK)
    if not mark:
        raise ReleaseError(f"CHANGELOG.md: the line {MARK.strip()} is missing")
    _, title, versions = released.partition(f"\n## {NEXT}\n")
    if title:
        _, begin, rest = versions.partition("\n## ")
        released = begin + rest
    section = f"\n{section.strip()}\n" if section.strip() else ""
    return head + mark + section + released


def draft(root: Path) -> str:
    """Return the section that towncrier makes of the fragments; "" if there are none.

    Raises:
        ReleaseError: a file in the folder is no fragment; towncrier names it.
    """
    text = _towncrier(root, "--draft", "--version", NEXT)
    return text if "\n- " in text else ""


def _towncrier(root: Path, *arguments: str) -> str:
    # An empty date: a version says its month, and a draft made tomorrow must not differ.
    return run(sys.executable, "-m", "towncrier", "build", "--dir", root, "--date", "", *arguments)


def main() -> int:
    argument = sys.argv[1] if len(sys.argv) == 2 else ""
    if len(sys.argv) > 2 or (argument and argument != "--check" and not _VERSION.fullmatch(argument)):
        print("usage: python -m release.news [--check | YYYY.M.N]", file=sys.stderr)
        return 2
    path = ROOT / "CHANGELOG.md"
    before = path.read_text("utf-8")
    try:
        after = with_next(before, "" if _VERSION.fullmatch(argument) else draft(ROOT))
        if argument == "--check":
            if after != before:
                raise ReleaseError("CHANGELOG.md lags behind news/; to repair: make changelog")
            return 0
        path.write_text(after, "utf-8")
        if argument:
            _towncrier(ROOT, "--yes", "--version", argument)
    except ReleaseError as error:
        print(f"news: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
