"""The older tools in one table: how each is still called, and what does its work in sizeup itself."""

from __future__ import annotations

import sys
from typing import NamedTuple

_MISUSE = 2  # as argparse ends for the tools that are commands


class Tool(NamedTuple):
    """An older tool; `call` is its command line, or the import that its users write."""

    title: str
    module: str
    call: str
    now: str


TOOLS = (
    Tool(
        "Tensor memory filter",
        "tensor_memory_filter",
        "python -m sizeup.compat.tensor_memory_filter --model_type mobilenetv2 --memory_threshold 512KB",
        "sizeup precision MODEL --fits 512KiB",
    ),
    Tool(
        "Tensor latency predictor",
        "tensor_latency_predictor",
        "python -m sizeup.compat.tensor_latency_predictor --model_type mobilenetv2 --input_size 224",
        "sizeup analyze MODEL -d TARGET",
    ),
    Tool(
        "tflite-tools",
        "tflite_tools",
        "python -m sizeup.compat.tflite_tools -i model.tflite -o smaller.tflite --optimize",
        "sizeup plan MODEL, sizeup optimize MODEL -o OUT",
    ),
    Tool(
        "DNN analyzer",
        "dnn_analyzer",
        "from sizeup.compat.dnn_analyzer import ModelAnalyse",
        "sizeup analyze MODEL --convention dnn-analyzer",
    ),
    Tool(
        "Tensorscope",
        "tensorscope",
        "from sizeup.compat.tensorscope import ElemCountAnalysis, analyze_model",
        "sizeup analyze MODEL -d TARGET --precision fp16",
    ),
    Tool(
        "Hardware module",
        "hardware",
        "from sizeup.compat.hardware import estimate_layerwise_stats, summarize_hardware",
        "sizeup analyze MODEL -o layers.csv, sizeup tradeoff MODEL",
    ),
)


def listing() -> str:
    """Every tool: its call here, and the command that does more."""
    lines = ["The older tools under their own names, and the commands of sizeup that replace them:"]
    for tool in TOOLS:
        lines += ["", tool.title, f"  still  {tool.call}", f"  now    {tool.now}"]
    return "\n".join(
        [*lines, "", "The page 'Coming from another tool' of the documentation lists what differs.", ""]
    )


def library_usage(module: str) -> int:
    """Print how a tool without a command line is used; the exit code is 0 if that was asked for, else 2."""
    (tool,) = (each for each in TOOLS if each.module == module)
    asked = {"-h", "--help"}.intersection(sys.argv[1:])
    print(
        f"usage: {tool.call}\n\n{tool.title} is used from Python. On the command line: {tool.now}",
        file=sys.stdout if asked else sys.stderr,
    )
    return 0 if asked else _MISUSE
