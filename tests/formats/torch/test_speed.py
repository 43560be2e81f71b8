"""Recording costs little beside the bare forward on the same content-free tensors."""

from __future__ import annotations

import subprocess
import sys

import pytest

from conftest import ROOT

MODELS = {"mobilenet_v2", "resnet50", "efficientnet_b0", "mobilenet_v3_small", "vit_b_16", "densenet121"}


def _milliseconds() -> dict[str, tuple[float, float]]:
    """What the benchmark prints, in a process of its own: a test process is full of other things."""
    command = [sys.executable, "-W", "ignore", str(ROOT / "benchmarks" / "torch_record.py"), "--repeats", "7"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = [line.split() for line in done.stdout.splitlines()[1:]]
    return {name: (float(bare), float(recorded)) for name, bare, recorded, _, _ in rows}


@pytest.mark.alone
def test_recording_is_at_most_a_third_slower_than_running() -> None:
    least = dict.fromkeys(MODELS, (float("inf"), float("inf")))
    # The least of a few rounds: a busy machine disturbs single ones.
    for _ in range(5):
        found = _milliseconds()
        assert found.keys() == MODELS
        least = {name: (min(least[name][0], a), min(least[name][1], b)) for name, (a, b) in found.items()}
        ratios = {name: round(recorded / bare, 2) for name, (bare, recorded) in least.items()}
        if max(ratios.values()) <= 1.3:
            break
    assert max(ratios.values()) <= 1.3, ratios
