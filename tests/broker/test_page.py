"""The page on the keys that are served tells each, in its versions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from logstore.broker.requests import FAMILIES
from logstore.protocol.generated import messages

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "reference" / "served.md"


@pytest.mark.skipif(not PAGE.exists(), reason="no source tree around the tests")
def test_the_page_tells_every_key_with_its_versions() -> None:
    names = {
        each.API_KEY: name.removesuffix("Request")
        for name, each in vars(messages).items()
        if name.endswith("Request") and hasattr(each, "API_KEY")
    }
    served = []
    for key, family in sorted(FAMILIES.items()):
        first, last = family.min_version, family.max_version
        served.append((str(key), names[key], str(first) if first == last else f"{first}–{last}"))
    assert re.findall(r"^\| (\d+) \| (\w+) \| (\S+) \|", PAGE.read_text("utf-8"), re.MULTILINE) == served
