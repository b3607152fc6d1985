"""An authority, and a broker's certificate of it for 127.0.0.1."""

from __future__ import annotations

import pytest

from tests.remote.fake_security import Authority, Issued


@pytest.fixture(scope="package")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="package")
def issued(authority: Authority) -> Issued:
    return authority.issue("127.0.0.1", "localhost")
