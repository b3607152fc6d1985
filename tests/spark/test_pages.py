"""Pages and docstrings about Spark run as the others do (`tests/project/test_docs.py`), pages with a session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sybil import Sybil
from sybil.parsers.markdown import CodeBlockParser

from tests.project import test_docs as docs


@pytest.mark.parametrize("page", docs.SPARK_PAGES, ids=lambda page: page.stem)
def test_the_python_on_a_page_gives_what_the_page_says(
    spark, page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    parsers = [CodeBlockParser("python", docs.run_block), CodeBlockParser("output", docs.compare_output)]
    document = Sybil(parsers=parsers).parse(page)
    document.namespace["spark"] = spark
    try:
        for example in document.examples():
            example.evaluate()
    finally:
        for query in spark.streams.active:
            query.stop()
        docs.close_all(document.namespace)


@pytest.mark.parametrize("module, text", list(docs.examples(on_spark=True)))
def test_the_example_in_a_docstring_gives_what_it_says(module: Any, text: str, tmp_path: Path) -> None:
    docs.run_docstring(module, text, tmp_path)
