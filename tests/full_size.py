"""Sizes of tests that take minutes: CI runs them smaller, `make long` at full size."""

from __future__ import annotations

import os

import pytest

FULL = os.environ.get("SIZEUP_FULL_SIZE") == "1"
# Mark of a test that has no smaller form: only `make long` runs it.
full_size_only = pytest.mark.skipif(not FULL, reason="runs at full size only: make long")


def size(full: int, *, ci: int) -> int:
    """The size to run at: the full one under `make long`, else that of CI."""
    return full if FULL else ci
