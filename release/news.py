"""Gathers the fragments of `news/` into the changelog: `python -m release.news 2026.11.0`, before the tag.

See news/README.md for what a fragment is. The section is put above the earlier ones, and the fragments go.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KINDS = {"removal": "Removed", "change": "Changed", "feature": "New", "fix": "Mended"}
TITLE = "# Changes\n\nWhat a user can see, newest first. Versions are dates: year, month, count within the month.\n"

_NAME = re.compile(r"\+?(?P<about>[a-z0-9-]+)\.(?P<kind>[a-z]+)\.md")
_VERSION = re.compile(r"20\d\d\.([1-9]|1[0-2])\.\d+")


def section_of(version: str, fragments: Mapping[str, str]) -> str:
    """The changelog's section of a version; ``fragments`` are file names and what they say.

    Raises:
        ValueError: a name is no fragment's, or one is empty; all are named.
    """
    wrong = [name for name, text in fragments.items() if _kind_of(name) is None or not text.strip()]
    if wrong:
        raise ValueError(f"no fragments: {', '.join(sorted(wrong))}; see news/README.md")
    lines = [f"## {version}", ""]
    for kind, title in KINDS.items():
        told = [" ".join(text.split()) for name, text in sorted(fragments.items()) if _kind_of(name) == kind]
        if told:
            lines += [f"### {title}", "", *(f"- {text}" for text in told), ""]
    return "\n".join(lines)


def _kind_of(name: str) -> str | None:
    match = _NAME.fullmatch(name)
    return match["kind"] if match and match["kind"] in KINDS else None


def with_section(changelog: str, section: str) -> str:
    """The changelog with a section above the others."""
    head, mark, earlier = (changelog or TITLE).partition("\n## ")
    return f"{head.rstrip()}\n\n{section.rstrip()}\n" + (f"{mark}{earlier}" if mark else "")


def main() -> int:
    if len(sys.argv) != 2 or not _VERSION.fullmatch(sys.argv[1]):
        print("usage: python -m release.news YYYY.M.N", file=sys.stderr)
        return 2
    paths = [path for path in sorted((ROOT / "news").glob("*.md")) if path.name != "README.md"]
    if not paths:
        print("news: there is nothing to tell", file=sys.stderr)
        return 1
    section = section_of(sys.argv[1], {path.name: path.read_text("utf-8") for path in paths})
    changelog = ROOT / "CHANGELOG.md"
    changelog.write_text(with_section(changelog.read_text("utf-8") if changelog.exists() else "", section), "utf-8")
    for path in paths:
        path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
