"""Errors of a task come whole to the driver, by the pickle that Spark uses."""

from __future__ import annotations

import pytest
from pyspark import cloudpickle

from tests.test_errors import assert_same, made, public_errors


@pytest.mark.parametrize("kind", public_errors(), ids=lambda kind: kind.__name__)
def test_every_public_error_survives_cloudpickle(kind: type[Exception]) -> None:
    error = made(kind)
    assert_same(cloudpickle.loads(cloudpickle.dumps(error)), error)
