"""A full disk in the middle of every output: the old file stays, nothing else does, and one line says why."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.extras

_TESTS = Path(__file__).parent


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    for library in (
        "resource",
        "onnx",
        "ai_edge_litert",
        "onnxruntime",
        "matplotlib",
        "pandas",
        "duckdb",
        "pyarrow",
    ):
        pytest.importorskip(library)
    command = [sys.executable, str(_TESTS / "writers.py"), str(tmp_path_factory.mktemp("disk"))]
    paths = os.pathsep.join([str(_TESTS), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": paths}
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_old_file_stays_and_the_new_one_keeps_its_permissions(outcomes: list[dict[str, Any]]) -> None:
    assert len(outcomes) == 44
    for each in outcomes:
        kept = {name: each[name] for name in ("old", "mode", "others", "new", "new_mode")}
        assert kept == {"old": True, "mode": 0o640, "others": [], "new": True, "new_mode": 0o640}, each


def test_the_reason_is_one_line_that_names_the_file(outcomes: list[dict[str, Any]]) -> None:
    for each in outcomes:
        if each["name"] != "table/current.json":  # its tables come first, and fail first
            assert each["error"].startswith("WriteError: "), each
            assert each["error"].endswith(f"/{each['name']}: cannot be written: File too large"), each
        assert "\n" not in each["error"]
