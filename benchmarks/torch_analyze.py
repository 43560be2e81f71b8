"""How much `sizeup.analyze` adds to a bare forward on fake tensors: CPU time, minimum of the rounds."""

from __future__ import annotations

import argparse
import json
import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch
from torch_record import cpu_seconds

import sizeup
from sizeup.formats.torch.eager import eager_execution, fake_mode
from sizeup.formats.torch.inputs import arguments, prepare
from sizeup.formats.torch.sources import build

# Model types of transformers with small settings: the time depends on the number of operators, not on sizes.
CONFIGS: dict[str, dict[str, Any]] = {
    "bert": {"num_hidden_layers": 4, "hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 64},
    "llama": {"num_hidden_layers": 8, "hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 64},
    "mamba": {"num_hidden_layers": 2, "hidden_size": 64},
    "xlstm": {"num_hidden_layers": 2, "hidden_size": 128, "num_heads": 4},
}
NAMES = (
    "torchvision:mvit_v2_s",
    "torchvision:resnet50",
    "torchvision:swin_v2_t",
    "torchvision:densenet121",
    "timm:convnext_atto",
    "timm:efficientformerv2_s0",
)
TOKENS = 32


def measure(source: str, bind: dict[str, int], rounds: int) -> tuple[float, float]:
    """Minimum seconds of a bare forward and of analyzing the same module, side by side."""
    built = build(source, bind)
    assert built.make_real is not None
    module = built.make_real().eval()
    inputs = built.inputs or dict(built.kwargs)

    def bare() -> None:
        mode = fake_mode()
        args, kwargs = prepare(arguments(inputs, None), torch.device("cpu"), torch.float32, mode)
        with eager_execution(), torch.inference_mode(), mode:
            module(*args, **kwargs)

    rows = [
        (cpu_seconds(bare), cpu_seconds(lambda: sizeup.analyze(module, inputs=inputs))) for _ in range(rounds)
    ]
    bare_seconds, analyze_seconds = (min(column) for column in zip(*rows, strict=True))
    return bare_seconds, analyze_seconds


def main() -> None:
    """Print one line per model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=[""], help="parts of names")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    print(f"{'model':28} {'bare ms':>8} {'analyze ms':>10} {'ratio':>6}")
    with tempfile.TemporaryDirectory() as folder:
        cases = [(name, name, {}) for name in NAMES]
        for name, settings in CONFIGS.items():
            path = Path(folder, f"{name}.json")
            path.write_text(json.dumps({"model_type": name, **settings}))
            cases.append((f"transformers:{name}", f"hf:{path}", {"seq": TOKENS}))
        for label, source, bind in cases:
            if not any(part in label for part in options.only):
                continue
            bare, analyzed = measure(source, bind, options.rounds)
            print(f"{label:28} {bare * 1e3:8.1f} {analyzed * 1e3:10.1f} {analyzed / bare:6.2f}", flush=True)


if __name__ == "__main__":
    main()
