"""What all tests share: where the real model files are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with real models and measurements that is kept beside the project."""
    folder = Path(os.environ.get("SIZEUP_SHARED", ROOT.parent / "shared"))
    if not folder.is_dir():
        pytest.skip("the folder 'shared' is not beside the project (SIZEUP_SHARED names another place)")
    return folder
