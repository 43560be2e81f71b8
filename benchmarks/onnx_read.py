"""ONNX: reading and counting, against onnx.load and infer_shapes of the same file.

    python benchmarks/onnx_read.py [FILE.onnx ...]

Without files, resnet50, vit_b_16 and BERT-base are exported by torch, each with its weights inside and
beside the model. CPU time of this process, the least of several repeats.
"""

from __future__ import annotations

import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import onnx
from onnx.shape_inference import infer_shapes

from sizeup import cost
from sizeup.formats import onnx as door

_REPEATS = 5
_TARGET = 1.5


def _cpu_seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def least(path: Path) -> tuple[float, float]:
    """CPU seconds of our read and count, and of ONNX's load and inference, taken in turns."""
    ours, theirs = [], []
    for _ in range(_REPEATS):
        ours.append(_cpu_seconds(lambda: cost.count(door.load(path))))
        theirs.append(_cpu_seconds(lambda: infer_shapes(onnx.load(path))))
    return min(ours), min(theirs)


def exported(folder: Path) -> Iterator[Path]:
    """The networks that the target names, written by torch's older exporter."""
    import torch

    from sizeup.formats.torch.zoo import import_torchvision

    models = import_torchvision().models  # before transformers, which imports it too
    from transformers import BertConfig, BertModel

    class Pooled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bert = BertModel(BertConfig())

        def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = self.bert(input_ids=tokens, attention_mask=mask).pooler_output
            return result

    tokens = torch.zeros(1, 128, dtype=torch.int64)
    networks = {
        "resnet50": (models.resnet50(), (torch.zeros(1, 3, 224, 224),)),
        "vit_b_16": (models.vit_b_16(), (torch.zeros(1, 3, 224, 224),)),
        "bert": (Pooled(), (tokens, torch.ones_like(tokens))),
    }
    for name, (network, inputs) in networks.items():
        inside, beside = folder / f"{name}.onnx", folder / f"{name}_beside.onnx"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the exporter announces its own retirement
            torch.onnx.export(network.eval(), inputs, str(inside), dynamo=False)
        onnx.save(onnx.load(inside), beside, save_as_external_data=True, location=f"{name}.bin")
        yield from (inside, beside)


def main() -> int:
    """Print the ratio of every file; fail where one is above the target."""
    worst = 0.0
    print(f"{'file':32}{'ours ms':>10}{'onnx ms':>10}{'ratio':>7}")
    with tempfile.TemporaryDirectory() as folder:
        for path in [Path(each) for each in sys.argv[1:]] or exported(Path(folder)):
            ours, theirs = least(path)
            worst = max(worst, ours / theirs)
            print(f"{path.name:32}{1000 * ours:10.1f}{1000 * theirs:10.1f}{ours / theirs:7.2f}")
    print(f"worst ratio {worst:.2f}, target {_TARGET}")
    return int(worst > _TARGET)


if __name__ == "__main__":
    sys.exit(main())
