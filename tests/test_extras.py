"""The command that a message about a missing library gives installs that library."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import sizeup
from conftest import ROOT
from sizeup.runtimes.process import RUNTIMES

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SOURCE = Path(sizeup.__file__).parent
EXTRAS: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
    "optional-dependencies"
]


def libraries(extra: str) -> set[str]:
    return {re.split(r"[^\w-]", requirement)[0] for requirement in EXTRAS[extra]}


def promises() -> Iterator[tuple[str, str, str]]:
    """File, library and extra of every MissingLibrary whose arguments are written in the source."""
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if (
                isinstance(node, ast.Call)
                and ast.unparse(node.func) == "MissingLibrary"
                and len(node.args) == 3
            ):
                library, extra = node.args[1:]
                if isinstance(library, ast.Constant) and isinstance(extra, ast.Constant):
                    yield path.relative_to(SOURCE).as_posix(), str(library.value), str(extra.value)


def test_messages_name_an_extra_that_brings_the_library() -> None:
    found = list(promises())
    assert len(found) >= 12
    assert [each for each in found if each[1] not in libraries(each[2])] == []


def test_runtimes_name_an_extra_that_brings_them() -> None:
    assert [each for each in RUNTIMES.values() if each.package not in libraries(each.extra)] == []


@pytest.mark.parametrize(
    ("missing", "runtime", "library", "extra"),
    [
        ("onnx", "ort", "onnx", "onnx"),
        ("ai_edge_litert", "litert", "ai-edge-litert", "tflite"),
        ("ai_edge_litert", "tflm", "ai-edge-litert", "tflite"),
        ("torch", "torch-eager", "torch", "torch"),
    ],
)
def test_calibration_names_what_writes_its_networks(
    missing: str, runtime: str, library: str, extra: str
) -> None:
    code = (
        f"import sys; sys.modules[{missing!r}] = None\n"
        "from sizeup import errors\n"
        "from sizeup.calibration.measurement import calibration_models\n"
        f"try: calibration_models({runtime!r})\n"
        "except errors.MissingLibrary as error: print(error.library, error.extra)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.split() == [library, extra], done.stderr
    assert library in libraries(extra)
