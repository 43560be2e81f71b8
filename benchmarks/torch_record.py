"""How much recording adds to a bare forward on the same content-free tensors, in CPU time.

Times are the least of the repeats. The ratio is the median over pairs of runs that follow each other: the
speed of a shared machine changes from second to second, but rarely within a pair.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch

from sizeup.cost import count
from sizeup.formats.torch.eager import fake_mode, record
from sizeup.formats.torch.zoo import import_torchvision

MODELS = ("mobilenet_v2", "resnet50", "efficientnet_b0", "mobilenet_v3_small", "vit_b_16", "densenet121")


def cpu_seconds(action: Callable[[], object]) -> float:
    """CPU time of one call."""
    start = time.process_time()
    action()
    return time.process_time() - start


def measure(name: str, repeats: int) -> tuple[float, float, float, float]:
    """Minimum seconds of a bare forward, of recording it and of counting the record, and the median ratio."""
    module = import_torchvision().models.get_model(name, weights=None).eval()
    shape = (1, 3, 224, 224)

    def bare() -> None:
        mode = fake_mode()
        image = mode.from_tensor(torch.zeros(shape))
        with torch.inference_mode(), mode:
            module(image)

    graph = record(module, (shape,))
    # Interleaved, so that a change of the machine's load meets all of them.
    rows = [
        (cpu_seconds(bare), cpu_seconds(lambda: record(module, (shape,))), cpu_seconds(lambda: count(graph)))
        for _ in range(repeats)
    ]
    bare_seconds, record_seconds, count_seconds = (min(column) for column in zip(*rows, strict=True))
    ratio = statistics.median(recorded / bare for bare, recorded, _ in rows)
    return bare_seconds, record_seconds, count_seconds, ratio


def main() -> None:
    """Print one line a model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    repeats = parser.parse_args().repeats
    torch.set_num_threads(1)
    print(f"{'model':20} {'bare ms':>8} {'record ms':>10} {'ratio':>6} {'count ms':>9}")
    for name in MODELS:
        bare, recorded, counted, ratio = measure(name, repeats)
        print(f"{name:20} {bare * 1e3:8.1f} {recorded * 1e3:10.1f} {ratio:6.2f} {counted * 1e3:9.2f}")


if __name__ == "__main__":
    main()
