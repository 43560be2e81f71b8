"""The memory that an eager run is said to hold, against what torch's CPU allocator held in a real one.

The run is one of real numbers in a fresh process, inference, batch 1, float32. The profiler reports every
allocation and every release; their running sum, with the inputs that were there before, is what was held.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import warnings
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Any, NamedTuple

import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils import _pytree as pytree

MODELS = (
    "resnet50",
    "mobilenet_v2",
    "alexnet",
    "densenet121",
    "efficientnet_b0",
    "vit_b_16",
    "swin_t",
    "bert",
    "gpt2",
)


class Measured(NamedTuple):
    """What the allocator held at most in a run, and while each operator that the model called ran."""

    peak_bytes: int
    ops: list[tuple[str, int]]


def measure(module: torch.nn.Module, args: tuple[Any, ...] = (), **kwargs: Any) -> Measured:
    """Run a module once under the profiler, and add up what was allocated and freed."""
    given = [each for each in pytree.tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
    held = sum({each.data_ptr(): each.untyped_storage().nbytes() for each in given}.values())
    with torch.inference_mode(), profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        result = module(*args, **kwargs)
    del result  # only now: it is held while the model runs
    events = profiled.profiler.kineto_results.experimental_event_tree()
    moments: list[tuple[int, int, str]] = []  # time, bytes, or the operator that begins
    for event in events:
        _collect(event, moments, "")
    peak, ops = held, []
    for _, size, name in sorted(moments, key=lambda moment: moment[0]):
        held += size
        if name:
            ops.append((name, held))
        elif ops:
            ops[-1] = (ops[-1][0], max(ops[-1][1], held))
        peak = max(peak, held)
    return Measured(peak, ops)


def _collect(event: Any, moments: list[tuple[int, int, str]], within: str) -> None:
    if event.tag.name == "Allocation":
        moments.append((event.start_time_ns, event.extra_fields.alloc_size, ""))
        return
    if not within and event.name.startswith("aten::"):
        within = event.name.removeprefix("aten::")
        moments.append((event.start_time_ns, 0, within))
    for child in event.children:
        _collect(child, moments, within)


def build(name: str) -> tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]:
    """A network with random weights, and what it is run on."""
    from sizeup.formats.torch.zoo import import_torchvision

    torchvision = import_torchvision()  # before transformers, which looks for it
    if name in ("bert", "gpt2"):
        import transformers

        tokens = {"input_ids": torch.zeros(1, 128, dtype=torch.int64)}
        if name == "bert":
            return transformers.BertModel(transformers.BertConfig()).eval(), (), tokens
        return transformers.GPT2Model(transformers.GPT2Config()).eval(), (), tokens
    module = torchvision.models.get_model(name, weights=None).eval()
    return module, (torch.zeros(1, 3, 224, 224),), {}


def measure_apart(names: Sequence[str]) -> list[Measured]:
    """The same for networks by name, in a process that has done nothing else."""
    command = [sys.executable, "-W", "ignore", __file__, "--measure", *names]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [Measured(*row) for row in json.loads(done.stdout)]


def compare(name: str, measured: Measured) -> dict[str, Any]:
    """One row of the table."""
    import sizeup

    module, args, kwargs = build(name)
    report = sizeup.analyze(module, inputs=args, kwargs=kwargs)
    found = report.memory.usage
    workspace = sum(each.bytes for each in found.peak_tensors if each.name.startswith("workspace of "))
    names = [op.source.partition(".")[2] for op in report.graph.ops]
    predicted = list(zip(names, found.live_bytes.tolist(), strict=True))
    worst, matched = _worst(predicted, measured.ops)
    return {
        "model": name,
        "threads": torch.get_num_threads(),
        "predicted": found.peak_bytes,
        "workspace": workspace,
        "measured": measured.peak_bytes,
        "operators": len(predicted),
        "matched": matched,
        "worst_op": worst[0],
        "worst_bytes": worst[1],
    }


def _worst(predicted: list[tuple[str, int]], measured: list[tuple[str, int]]) -> tuple[tuple[str, int], int]:
    """The operator whose live bytes are farthest off, and how many operators could be compared."""
    names = [name for name, _ in predicted], [name for name, _ in measured]
    worst, matched = ("", 0), 0
    for a, b, size in SequenceMatcher(None, *names, autojunk=False).get_matching_blocks():
        for (name, ours), (_, theirs) in zip(predicted[a : a + size], measured[b : b + size], strict=True):
            matched += 1
            worst = max(worst, (name, ours - theirs), key=lambda each: abs(each[1]))
    return worst, matched


def main() -> None:
    """Print one line a model, or one JSON list."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=MODELS)
    parser.add_argument(
        "--measure", action="store_true", help="only run them, and print what was held as JSON"
    )
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.measure:
        rows = []
        for module, args, kwargs in map(build, options.models):
            rows.append(measure(module, args, **kwargs))
        print(json.dumps(rows))
        return
    rows = list(map(compare, options.models, measure_apart(options.models)))
    if options.json:
        print(json.dumps(rows))
        return
    print(f"on {torch.get_num_threads()} threads, {torch.backends.cpu.get_cpu_capability()}; bytes")
    print(
        f"{'model':16} {'predicted':>11} {'workspace':>11} {'measured':>11} {'difference':>10}  farthest op"
    )
    for row in rows:
        difference = f"{100 * (row['predicted'] / row['measured'] - 1):+.3f} %"
        farthest = f"{row['worst_op']} {row['worst_bytes']:+,}, of {row['matched']} of {row['operators']}"
        print(
            f"{row['model']:16} {row['predicted']:11,} {row['workspace']:11,} {row['measured']:11,}"
            f" {difference:>10}  {farthest}"
        )


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
