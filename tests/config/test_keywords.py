"""Types of settings as keyword arguments: what is generated is what the classes of settings say."""

from __future__ import annotations

import pytest

from codegen import keywords
from logstore.config.client import ConsumerConfig, ProducerConfig
from logstore.config.generated import keywords as types
from logstore.config.schema import Rule, fields_of


def test_the_generated_file_is_what_the_classes_give() -> None:
    assert keywords.FILE.read_text(encoding="utf-8") == keywords.keywords(), "run python -m codegen.keywords"


@pytest.mark.parametrize(
    ("typed", "config"),
    [(types.ProducerSettings, ProducerConfig), (types.ConsumerSettings, ConsumerConfig)],
)
def test_every_setting_is_a_keyword(typed: type, config: type) -> None:
    assert set(typed.__annotations__) == {spec.name for spec in fields_of(config)}


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (Rule(boolean=True), "bool"),
        (Rule(text=True), "str"),
        (Rule(words=("delete", "compact")), "str"),
        (Rule(words=("all", "1")), "str | int"),
        (Rule(1, 500), "int"),
        (Rule(0.0, 1.0), "float"),
        (Rule(1, 500, unit="ms"), "int | str"),
        (Rule(-1, 500, share=True), "int | str"),
    ],
)
def test_a_number_without_a_unit_is_no_text(rule: Rule, expected: str) -> None:
    assert keywords.type_of(rule) == expected
