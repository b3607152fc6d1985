"""Settings of the property tests; a failure prints what reproduces it."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# The machine may be busy: how long an example takes says nothing about it.
_SLOW = [HealthCheck.too_slow]

settings.register_profile(
    "default", max_examples=60, deadline=None, print_blob=True, derandomize=False, suppress_health_check=_SLOW
)
settings.register_profile("long", parent=settings.get_profile("default"), max_examples=5_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
