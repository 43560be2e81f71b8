"""What every verb prints and writes is what was recorded, to the byte."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import golden_matrix
from blessed import assert_golden
from golden_outputs import COMMANDS, FOLDER, output_of

pytestmark = pytest.mark.extras


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, shared: Path) -> Iterator[Path]:
    """All models, in a folder where the commands run one after the other, with one thread of torch."""
    for needed in ("ai_edge_litert", "onnx", "torch", "transformers", "duckdb"):
        pytest.importorskip(needed)
    import torch

    made = tmp_path_factory.mktemp("golden")
    golden_matrix.make(made, shared)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the workspaces of its kernels grow with their number
    yield made
    torch.set_num_threads(threads)


@pytest.mark.parametrize("name", COMMANDS)
def test_output_is_as_recorded(name: str, folder: Path) -> None:
    if " --run" in COMMANDS[name]:
        pytest.importorskip("tflite_micro")
    assert_golden(f"outputs/{name}", output_of(name, folder))


@pytest.mark.slow
@pytest.mark.parametrize("name", golden_matrix.MODELS)
def test_every_verb_says_the_same_of_a_model_on_every_target(name: str, folder: Path) -> None:
    assert_golden(f"matrix/{name}.txt", golden_matrix.outputs(name, folder))


def test_nothing_else_is_recorded() -> None:
    assert {path.name for path in FOLDER.iterdir()} == COMMANDS.keys()
    assert {path.stem for path in golden_matrix.FOLDER.iterdir()} == golden_matrix.MODELS.keys()
    every = [command for name in golden_matrix.MODELS for command in golden_matrix.commands(name)]
    assert len(every) >= 200
