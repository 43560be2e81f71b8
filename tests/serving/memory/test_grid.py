"""Memory at many points at once: equal to single ones, and a million in less than a second."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import sizeup
from published_configs import CONFIGS
from timing import cpu_seconds, slowdown

FITS = {"yes": 1, "undetermined": 0, "no": -1}


def config(folder: Path, name: str) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps(CONFIGS[name]), "utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "targets", "layout"),
    [
        ("Llama-3.1-70B", ["2xh100/vllm", "4xl4/trtllm"], None),
        ("gpt-oss-20b", ["1xl4/sglang", "1xl4/llamacpp"], None),
        ("Qwen3-Next-80B", ["2xh100/vllm", "2xh100/sglang"], None),
        ("DeepSeek-V3", ["4x8xh100/vllm"], "tp2,pp4,dp4"),
    ],
)
def test_points_equal_those_of_llm(tmp_path: Path, name: str, targets: list[str], layout: str | None) -> None:
    path = config(tmp_path, name)
    contexts, sequences = [2, 1000, 4608, 30_000], [1, 7, 64, 4000]
    grids = sizeup.llm_grid(
        path, targets=targets, contexts=contexts, sequences=sequences, kv=(None, "fp8"), layout=layout
    )
    points = ((target, kv) for target in targets for kv in (None, "fp8"))
    for grid, (target, kv) in zip(grids, points, strict=True):
        for row, context in enumerate(contexts):
            serving = sizeup.llm(
                path, target=target, input=context - 1, output=1, concurrency=sequences, kv=kv, layout=layout
            )
            assert grid.fits[row].tolist() == [FITS[point.fits] for point in serving.points()]
            held = serving.memory.weights_bytes + serving.memory.tower_bytes
            known = [held + point.cache_bytes for point in serving.points()]
            assert all(grid.memory_bytes[row] >= known)
            if len(serving.gpus) == 1:
                assert grid.memory_bytes[row].tolist() == known


def test_bytes_are_those_by_hand(tmp_path: Path) -> None:
    """Llama-3.1-8B: 8,030,261,248 parameters of 2 bytes, and 131,072 bytes of cache per token."""
    (grid,) = sizeup.llm_grid(
        config(tmp_path, "Llama-3.1-8B"), targets=["1xh100"], contexts=[100, 5000], sequences=[1, 30]
    )
    weights = 16_060_522_496
    cache = np.outer([100, 5000], [1, 30]) * 131_072
    assert grid.memory_bytes.tolist() == (weights + cache).tolist()


@pytest.mark.parametrize("contexts", [[], [0], [2**40], [[1, 2]]])
def test_contexts_out_of_range_are_refused(tmp_path: Path, contexts: list[int]) -> None:
    path = config(tmp_path, "Llama-3.1-8B")
    with pytest.raises(sizeup.SizeupError, match="contexts: give a list of integers from 1"):
        sizeup.llm_grid(path, targets=["1xh100"], contexts=contexts, sequences=[1])


@pytest.mark.alone
def test_a_million_points_of_memory_take_less_than_a_second(tmp_path: Path) -> None:
    """Sequences x context x precisions x targets: 125 x 200 x 4 x 10."""
    path = config(tmp_path, "Llama-3.1-70B")
    targets = [f"{count}x{name}/vllm" for count in (1, 2, 4, 8, 16) for name in ("h100", "h200")]
    contexts = np.linspace(128, 131_072, 200).astype(np.int64).tolist()
    points = 0

    def evaluate() -> None:
        nonlocal points
        grids = sizeup.llm_grid(
            path, targets=targets, contexts=contexts, sequences=range(1, 126),
            weights=("bf16", "fp8"), kv=("bf16", "fp8"),
        )  # fmt: skip
        points = sum(grid.memory_bytes.size for grid in grids)

    assert cpu_seconds(evaluate) < 1.0 * slowdown()
    assert points == 1_000_000
