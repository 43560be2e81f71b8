"""What a model and what a point of a sweep cost: the constants behind docs/scale.md.

    python benchmarks/sweep_costs.py [MODEL ...]

Sweeps the same models with 1, 20 and 100 targets at three precisions each, and tells the CPU seconds and
bytes of a model without its points, and of a point: the line through what was measured.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import numpy as np

import sizeup
from sizeup.sweeps import Store, compact

MODELS = (
    *("resnet18", "resnet50", "mobilenetv3_large_100", "efficientnet_b0", "convnext_tiny", "regnety_016"),
    *("vit_small_patch16_224", "deit_base_patch16_224", "swin_tiny_patch4_window7_224", "mixer_b16_224"),
    *("densenet121", "inception_v3"),
)
PRECISIONS = ("stored", "fp16", "int8")
TARGETS = (1, 20, 100)


def targets(count: int) -> list[str]:
    """Devices of all kinds, the same first ones for every count."""
    found = sorted(sizeup.devices(), key=lambda device: device.name)
    step = len(found) / count
    return [found[int(place * step)].name for place in range(count)]


def measured(models: list[str], count: int) -> tuple[float, float, float]:
    """CPU seconds and bytes of a shard for each model, and bytes of its rows in the sorted table."""
    with tempfile.TemporaryDirectory() as folder:
        spec = {"models": models, "targets": targets(count), "precisions": list(PRECISIONS)}
        done = sizeup.sweep(spec, folder, workers=1)
        lines = [line for path in Path(folder).glob("log/*.jsonl") for line in path.read_text().splitlines()]
        seconds = sum(json.loads(line)["cpu_seconds"] for line in lines)
        shards = sum(path.stat().st_size for path in Path(folder, "shards").rglob("*.parquet"))
        compact(Store(folder))
        table = sum(path.stat().st_size for path in Path(folder, "table").rglob("*.parquet"))
        print(
            f"{count:4} targets: {done.rows:,} rows, {done.errors:,} errors, {seconds:.1f} CPU s", flush=True
        )
    return seconds / len(models), shards / len(models), table / len(models)


def main() -> None:
    """Print the constants of the line through all measurements."""
    models = sys.argv[1:] or [f"timm:{name}" for name in MODELS]
    found = np.array([measured(models, count) for count in TARGETS])
    points = np.array([count * len(PRECISIONS) for count in TARGETS])
    for name, column in zip(("CPU seconds", "bytes in shards", "bytes in the table"), found.T, strict=True):
        each, fixed = np.polyfit(points, column, 1)
        print(f"{name}: {fixed:.4g} for a model and {each:.4g} for a point")


if __name__ == "__main__":
    main()
