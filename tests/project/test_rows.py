"""The list of rows and their proofs is itself sound."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import rows

PAGE = """
| id | feature |
| --- | --- |
| S1 | segments |
| S2 | look-up |
| K1 | settings |
"""

TEST = """
import pytest
pytestmark = [pytest.mark.row("K1")]

@pytest.mark.row("S1", "S2")
def test_one(): ...

class TestGroup:
    @pytest.mark.parametrize("n", [pytest.param(1, marks=pytest.mark.row("S2", part="one process"))])
    def test_two(self, n): ...
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for folder in ("docs", "tests", "examples"):
        (tmp_path / folder).mkdir()
    (tmp_path / "docs" / "rows.md").write_text(PAGE)
    return tmp_path


def test_every_marker_and_comment_names_a_row_of_the_page() -> None:
    known = rows.read_rows()
    wrong = [f"{p.path}:{p.line}: no such row: {p.row}" for p in rows.collect() if p.row not in known]
    assert not wrong, "\n".join(wrong)


def test_the_page_has_titles_short_enough_for_one_line() -> None:
    assert all(0 < len(title) <= 76 for title in rows.read_rows().values())
    assert len(rows.read_rows()) > 100


def test_markers_are_found_on_functions_modules_classes_and_parameters(project: Path) -> None:
    path = project / "tests" / "test_x.py"
    found = [(p.row, p.name, p.part) for p in rows.marked(path, TEST)]
    assert found == [
        ("K1", "", ""),
        ("S1", "test_one", ""),
        ("S2", "test_one", ""),
        ("S2", "TestGroup.test_two", "one process"),
    ]


@pytest.mark.parametrize(
    "arguments", ["", "ROW", "'S1', reason='x'", "f'S{1}'", "'S1', part=''", "'S1', part=PART", "part='x'"]
)
def test_a_marker_that_cannot_be_read_is_refused(arguments: str) -> None:
    source = f"@pytest.mark.row({arguments})\ndef test_x(): ...\n"
    with pytest.raises(rows.UnreadableMarkerError, match=r"x\.py:1"):
        list(rows.marked(Path("x.py"), source))


def test_an_example_proves_nothing_by_itself(project: Path) -> None:
    (project / "examples" / "flights.py").write_text("# row: S1, K1\n@pytest.mark.row('S2')\ndef test_y(): ...\n")
    assert rows.collect(project) == []


def test_parts_are_printed_behind_the_proofs_of_the_whole_row(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "tests" / "test_x.py").write_text(
        "@pytest.mark.row('S1', 'S2', part='one process')\ndef test_y(): ...\n"
        "@pytest.mark.row('S1')\ndef test_z(): ...\n"
    )
    assert rows.main([], project) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith(" tests/test_x.py::test_z")
    assert lines[1].strip() == "[one process] tests/test_x.py::test_y"
    assert lines[2].endswith(" [one process] tests/test_x.py::test_y")
    assert lines[4] == "1 of 3 rows have a proof, 1 more of a part"
    assert rows.main(["--check", "S2"], project) == 0


def test_the_list_shows_proofs_gaps_and_a_count(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "tests" / "test_x.py").write_text("@pytest.mark.row('S2')\ndef test_y(): ...\n")
    assert rows.main([], project) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["S1", "S2", "K1", "1"]
    assert lines[0].endswith(" -")
    assert lines[1].endswith("tests/test_x.py::test_y")
    assert lines[3] == "1 of 3 rows have a proof"
    assert rows.main(["--only", "S2"], project) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "1 of 1 rows have a proof"


def test_check_fails_for_a_row_without_proof(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "tests" / "test_x.py").write_text("@pytest.mark.row('S2')\ndef test_y(): ...\n")
    assert rows.main(["--check", "S2"], project) == 0
    assert rows.main(["--check", "S1,S2"], project) == 1
    assert "without proof: S1" in capsys.readouterr().err


def test_an_unknown_row_is_reported_with_its_place(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "tests" / "test_x.py").write_text("@pytest.mark.row('S99')\ndef test_y(): ...\n")
    assert rows.main([], project) == 1
    assert "tests/test_x.py:1: no such row: S99" in capsys.readouterr().err


def test_a_row_listed_twice_is_refused(project: Path) -> None:
    page = project / "docs" / "rows.md"
    page.write_text(PAGE + "| S1 | again |\n")
    with pytest.raises(ValueError, match="S1 is listed twice"):
        rows.read_rows(page)
