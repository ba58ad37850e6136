"""Test settings: random tests are derandomised in CI, so that a red build is a red build again when it is re-run."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from everview import redaction

settings.register_profile("default", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("explore", deadline=None, max_examples=2_000, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.fixture(autouse=True)
def no_secrets_of_other_tests() -> Iterator[None]:
    """What one test keeps secret, another may show."""
    yield
    redaction.forget()
