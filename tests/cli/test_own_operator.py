"""A user's own operator, from the model's code to the answer: unknown, refused, then counted by a rule."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.extras

MODEL = """
import torch

@torch.library.custom_op("mylib::project", mutates_args=())
def project(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return x @ w

@project.register_fake
def _(x, w):
    return x.new_empty(*x.shape[:-1], w.shape[-1])

class Own(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.zeros(256, 256))

    def forward(self, x):
        return project(x, self.w)
"""

RULES = '''
import sizeup

@sizeup.op_rule("project", torch=("mylib.project",), weight=1)
def project(call: sizeup.Call) -> sizeup.Dim:
    """Each output number sums over the last axis of the input."""
    return call.output.elements * call.input(0).shape[-1]
'''


def sizeup(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sizeup", *arguments],
        cwd=folder,
        env={**os.environ, "COLUMNS": "80"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("torch")
    output = tmp_path_factory.mktemp("own")
    (output / "mymodel.py").write_text(MODEL)
    (output / "rules.py").write_text(RULES)
    return output


def test_operator_without_a_rule_is_unknown_not_free(folder: Path) -> None:
    data = json.loads(sizeup(folder, "analyze", "mymodel:Own", "--input", "1x128x256", "--json").stdout)
    assert data["coverage"]["share"] < 1
    assert data["coverage"]["unknown"][0]["op_kind"] == "mylib.project"
    assert [op["macs"] for op in data["ops"] if not op["known"]] == [None]
    assert data["totals"]["params"] == 65_536


def test_strict_refuses_it_with_exit_code_3(folder: Path) -> None:
    done = sizeup(folder, "analyze", "mymodel:Own", "--input", "1x128x256", "--strict")
    assert (done.returncode, done.stdout) == (3, "")
    assert "mylib.project" in done.stderr


def test_rule_makes_it_exact(folder: Path) -> None:
    arguments = ("mymodel:Own", "--input", "x:1x128x256", "--rules", "rules.py")
    done = sizeup(folder, "analyze", *arguments, "--strict", "--json")
    assert done.returncode == 0
    # 128 rows x 256 sums over 256
    assert json.loads(done.stdout)["totals"]["macs"] == 8_388_608


def test_rule_is_explained_in_its_own_words(folder: Path) -> None:
    done = sizeup(folder, "explain", "mymodel:Own", "--input", "1x128x256", "--rules", "rules.py", "project")
    assert "Each output number sums over the last axis of the input." in done.stdout
    assert "output elements 32,768 x input 0[2] 256 = 8,388,608" in done.stdout
