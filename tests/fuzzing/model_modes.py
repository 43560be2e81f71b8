"""What is run on a mutant of a model file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import sizeup
from sizeup.report.data import to_dict


def analyze(path: Path) -> Any:
    """The report as JSON data."""
    return to_dict(sizeup.analyze(path))
