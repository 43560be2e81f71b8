"""Whole outputs kept as files: a change that alters one must be looked at, then blessed."""

from __future__ import annotations

import os
from pathlib import Path

_FOLDER = Path(__file__).parent / "golden"


def assert_golden(name: str, text: str) -> None:
    """Compare with the kept file; SIZEUP_BLESS=1 keeps the new text instead."""
    path = _FOLDER / name
    if os.environ.get("SIZEUP_BLESS"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.is_file(), f"{path.name} is not kept yet: run with SIZEUP_BLESS=1"
    kept = path.read_text(encoding="utf-8")
    assert text == kept, f"the output differs from {path.name}; if it should, run with SIZEUP_BLESS=1"
