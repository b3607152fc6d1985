"""The lint of words: each kind of text is searched where the table says so, and nowhere else."""

from __future__ import annotations

import pytest

from tests.words import PAGE, ROOT, SUFFIXES, Words, complaints, main, read_table

pytestmark = pytest.mark.skipif(not (ROOT / PAGE).exists(), reason="no source tree around the tests")

TABLE = Words(
    read_table(
        r"""
## Words not to use

| pattern | in | use instead |
|---|---|---|
| `nobody` | prose, messages | no reader |
| `lets? (it \|them )?go` | prose | release |
| `Bell\|mend` | names | Notifier |

## Other

| `log` | prose | journal |
"""
    )
)
CODE = r'''
class Bell:  # a comment that lets
    # go of it
    """A docstring for nobody."""

    mended, lets_go, Label = "lets go", f"Nobody {mend}", r"\\" "Bell"
'''
PAGE_TEXT = """
# The log of nobody

It lets it
go; `nobody` and `Bell` are names here, and [so](nobody.md) is a target.

```python
bell = Bell()  # of nobody
```

```console
nobody
```
"""


def test_each_kind_of_text_in_code_is_searched() -> None:
    assert complaints("src/a.pyx", CODE, TABLE) == [
        "src/a.pyx:2: 'Bell': use Notifier",
        "src/a.pyx:4: 'nobody': use no reader",
        "src/a.pyx:6: 'Nobody': use no reader",
    ]


def test_a_line_that_keeps_a_former_name_is_not_searched() -> None:
    assert complaints("a.py", "Bell = 1  # former name\n", TABLE) == []
    assert complaints("a.py", "Bell = 1  # a former name of old\n", TABLE) == ["a.py:1: 'Bell': use Notifier"]


def test_a_phrase_is_found_over_the_end_of_a_line() -> None:
    text = '"""A reader lets\n    go of it."""\n'
    assert complaints("a.py", text, TABLE) == ["a.py:1: 'lets go': use release"]


def test_a_page_is_searched_without_what_a_program_prints() -> None:
    assert complaints("docs/a.md", PAGE_TEXT, TABLE) == [
        "docs/a.md:2: 'nobody': use no reader",
        "docs/a.md:4: 'lets it go': use release",
        "docs/a.md:5: 'Bell': use Notifier",
        "docs/a.md:8: 'Bell': use Notifier",
        "docs/a.md:8: 'nobody': use no reader",
    ]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_planted_word_is_refused_in_every_kind_of_file(suffix: str) -> None:
    table = Words(read_table((ROOT / PAGE).read_text("utf-8")))
    planted = "# A lock that nobody holds\n"
    (complaint,) = complaints(f"a{suffix}", planted, table)
    assert complaint.startswith(f"a{suffix}:1: 'nobody': use the role")
    assert complaints(f"a{suffix}", "# A lock without a holder\n", table) == []


def test_the_tree_has_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert main() == 0, capsys.readouterr().out


@pytest.mark.parametrize(
    "section",
    [
        "",
        "\n## Words not to use\n\nNone.\n",
        "\n## Words not to use\n\n| `x` | poems | y |\n",
        "\n## Words not to use\n\n| `x` | prose | |\n",
    ],
)
def test_a_table_that_cannot_be_read_is_an_error(section: str) -> None:
    with pytest.raises(ValueError, match=r"docs/vocabulary\.md"):
        read_table(section)
