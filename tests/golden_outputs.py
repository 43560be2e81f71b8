"""What every verb prints and writes for six models, as recorded in `golden/outputs`.

`make golden` records it again. Each command runs in this process, in a folder with the six models:
two TFLite files, an ONNX file with a symbolic batch, one with an operator that is not known, a network of
torchvision and a Hugging Face configuration.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import zlib
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parent / "golden" / "outputs"
_DIGITS = 10  # of a recorded float: the last ones depend on the processor
_LONG_LIST = 16

_SPEC = """\
models = ["keywords.tflite", "person.tflite", "unknown.onnx"]
targets = ["stm32f746", "rpi5/ort", "rpi5/litert"]
precisions = ["stored", "int8"]
batch = [1]
"""
_BUDGETS = """\
[[budget]]
name = "board"
models = ["*.tflite"]
target = "stm32f746/tflm"
ram = "96KiB"

[[budget]]
name = "work"
models = ["*"]
macs = "5 M"
"""
_TIMES = """\
model,latency_ms
keywords.tflite,3.1
keywords_float.tflite,5.9
person.tflite,8.4
fixed.onnx,0.9
unknown.onnx,0.7
torchvision:resnet18,1480
"""
_LLAMA = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 256,
    "max_position_embeddings": 128,
    "torch_dtype": "bfloat16",
}

# File name of the recorded output -> command. A name that ends in .txt is for what is printed; any other
# ending is that of a file, written with -o.
COMMANDS = {
    "keywords.analyze.txt": "analyze keywords.tflite",
    "keywords.analyze.ops.txt": "analyze keywords.tflite --by op -d stm32f746",
    "keywords.analyze.json": "analyze keywords.tflite -d stm32f746",
    "keywords.analyze.csv": "analyze keywords.tflite -d stm32f746",
    "keywords.analyze.md": "analyze keywords.tflite -d stm32f746",
    "keywords.analyze.html": "analyze keywords.tflite -d stm32f746",
    "keywords.analyze.overlay.json": "analyze keywords.tflite",
    "keywords.explain.txt": "explain keywords.tflite 3",
    "keywords.plan.txt": "plan keywords.tflite",
    "keywords.plan.json": "plan keywords.tflite",
    "keywords.plan.csv": "plan keywords.tflite",
    "keywords.check.txt": "check keywords.tflite -d stm32f746 --no-run",
    "keywords.check.json": "check keywords.tflite -d stm32f746 --no-run",
    "keywords.check.md": "check keywords.tflite -d nrf52840 --no-run",
    "keywords.check.run.txt": "check keywords.tflite -d stm32f746 --run",
    "keywords.check.run.json": "check keywords.tflite -d stm32f746 --run --no-remedies",
    "keywords.check.xml": "check keywords.tflite person.tflite --budget budgets.toml",
    "keywords.check.codequality.json": "check keywords.tflite person.tflite --budget budgets.toml",
    "keywords.optimize.txt": "optimize keywords.tflite -o smaller.tflite --no-verify",
    "keywords.optimize.printed.json": "optimize keywords.tflite -o smaller.tflite --no-verify --json",
    "keywords.precision.txt": "precision keywords_float.tflite --weights 40KiB",
    "keywords.precision.json": "precision keywords_float.tflite --weights 40KiB",
    "keywords.fits.txt": "precision keywords_float.tflite --fits 16KiB",
    "keywords.tradeoff.txt": "tradeoff keywords_float.tflite -d stm32f746",
    "keywords.compare.txt": "compare keywords_float.tflite keywords.tflite",
    "keywords.compare.json": "compare keywords_float.tflite keywords.tflite -d stm32f746",
    "keywords.compare.csv": "compare keywords_float.tflite keywords.tflite",
    "keywords.compare.md": "compare keywords_float.tflite keywords.tflite",
    "person.analyze.txt": "analyze person.tflite -d stm32f746",
    "person.analyze.json": "analyze person.tflite --top 5",
    "person.plan.txt": "plan person.tflite",
    "person.plan.json": "plan person.tflite",
    "person.check.txt": "check person.tflite --arena 80KiB",
    "person.check.json": "check person.tflite -d stm32f746 --ram 64KiB --flash 300KiB --no-remedies",
    "person.precision.txt": "precision person.tflite --activations 50KiB",
    "residual.analyze.txt": "analyze residual.onnx --bind batch=2 -d rpi5/ort",
    "residual.analyze.json": "analyze residual.onnx --bind batch=2 -d rpi5/ort --precision int8",
    "residual.analyze.csv": "analyze residual.onnx --bind batch=2",
    "residual.analyze.md": "analyze residual.onnx --bind batch=2 -d rpi5/ort",
    "residual.analyze.html": "analyze residual.onnx --bind batch=2 -d rpi5/ort",
    "residual.analyze.trace.json": "analyze residual.onnx --bind batch=2 -d rpi5/ort",
    "residual.explain.txt": "explain residual.onnx --bind batch=2 2",
    "residual.closed.txt": "explain residual.onnx --free batch -d rpi5/ort",
    "residual.plan.txt": "plan residual.onnx --bind batch=1",
    "residual.check.txt": "check residual.onnx --bind batch=1 -d rpi5/ort --latency 2ms --energy 1mJ",
    "residual.precision.txt": "precision residual.onnx --bind batch=1 --latency 1ms -d rpi5/ort",
    "residual.precision.json": "precision residual.onnx --bind batch=1 --latency 1ms -d rpi5/ort",
    "residual.front.txt": "precision residual.onnx --bind batch=1 --front loss,weights",
    "residual.front.json": "precision residual.onnx --bind batch=1 --front loss,activations --points 5",
    "residual.front.csv": "precision residual.onnx --bind batch=1 --front loss,weights --points 5",
    "residual.tradeoff.txt": "tradeoff residual.onnx -d rpi5/ort --batch 1,8",
    "residual.tradeoff.json": "tradeoff residual.onnx -d rpi5/ort --batch 1,8",
    "residual.tradeoff.csv": "tradeoff residual.onnx -d rpi5/ort --batch 1",
    "residual.tradeoff.md": "tradeoff residual.onnx -d rpi5/ort --batch 1",
    "residual.tradeoff.html": "tradeoff residual.onnx -d rpi5/ort --batch 1",
    "residual.measure.txt": "measure residual.onnx --bind batch=1 -d rpi5/ort --from latency_ms=1.5",
    "residual.measure.json": "measure residual.onnx --bind batch=1 -d rpi5/ort --from latency_ms=1.5",
    "unknown.analyze.txt": "analyze unknown.onnx -d rpi5/ort",
    "unknown.analyze.json": "analyze unknown.onnx",
    "unknown.analyze.csv": "analyze unknown.onnx",
    "unknown.analyze.md": "analyze unknown.onnx",
    "unknown.analyze.html": "analyze unknown.onnx",
    "unknown.check.txt": "check unknown.onnx --macs 1000",
    "unknown.check.json": "check unknown.onnx -d stm32f746 --strict",
    "unknown.compare.txt": "compare unknown.onnx fixed.onnx",
    "resnet18.analyze.txt": "analyze torchvision:resnet18 --by tree",
    "resnet18.analyze.modules.txt": "analyze torchvision:resnet18 --by module --depth 1 -d jetson-orin-nano",
    "resnet18.analyze.json": "analyze torchvision:resnet18 --by kind -d rpi5/ort",
    "resnet18.check.txt": "check torchvision:resnet18 -d jetson-orin-nano --no-remedies",
    "resnet18.plan.txt": "plan torchvision:resnet18",
    "llama.analyze.txt": "analyze hf:llama.json --input input_ids:1x16:int64",
    "llama.analyze.md": "analyze hf:llama.json --input input_ids:1x16:int64 -d h100",
    "llama.check.txt": "check hf:llama.json --input input_ids:1x16:int64 -d h100",
    "llama.check.json": "check hf:llama.json --input input_ids:1x16:int64 -d h100",
    "llama.llm.txt": "llm llama.json -d 2xh100/vllm --in 64 --out 32 --concurrency 1:4",
    "llama.llm.json": "llm llama.json -d 2x8xh100/sglang --in 64 --out 32 --kv fp8 --layout tp2,pp2",
    "llama.llm.html": "llm llama.json -d h100/trtllm --in 64 --out 32 --weights fp8",
    "calibrate.txt": "calibrate --csv times.csv --device my-board --runtime ort -o my-board.toml",
    "sweep.printed.json": "sweep registry.toml -o results --workers 1 --json",
    "query.txt": "query results",
    "query.fits.txt": "query results --view fits",
    "query.fits.csv": "query results --view fits",
    "query.json": "query results --view fastest --top 2",
    "query.html": "query results",
    "devices.txt": "devices",
    "devices.stm32f746.txt": "devices stm32f746",
    "devices.printed.json": "devices rpi5 --json",
    "ops.txt": "ops",
    "ops.conv.txt": "ops conv",
}


def make_models(folder: Path, shared: Path) -> None:
    """Write the six models, and the tables and specifications that commands name, to a folder."""
    for name, file in (
        ("keywords", "mlperf_kws_int8"),
        ("keywords_float", "mlperf_kws_fp32"),
        ("person", "mlperf_vww96_int8"),
    ):
        (folder / f"{name}.tflite").write_bytes((shared / "models" / f"{file}.tflite").read_bytes())
    _write_onnx(folder)
    (folder / "targets").mkdir()
    (folder / "llama.json").write_text(json.dumps(_LLAMA), "utf-8")
    (folder / "registry.toml").write_text(_SPEC, "utf-8")
    (folder / "budgets.toml").write_text(_BUDGETS, "utf-8")
    (folder / "times.csv").write_text(_TIMES, "utf-8")


def _write_onnx(folder: Path) -> None:
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    random = np.random.default_rng(7)

    def weight(name: str, *shape: int) -> onnx.TensorProto:
        return numpy_helper.from_array(random.standard_normal(shape).astype(np.float32), name)

    def value(name: str, *shape: int | str) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    def save(
        name: str, nodes: Sequence[onnx.NodeProto], shapes: Sequence[Any], weights: Sequence[Any]
    ) -> None:
        graph = helper.make_graph(nodes, name, shapes[:1], shapes[1:], weights)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
        (folder / f"{name}.onnx").write_bytes(model.SerializeToString())

    def node(op: str, inputs: str, output: str, **attributes: Any) -> onnx.NodeProto:
        return helper.make_node(op, inputs.split(), [output], name=output, **attributes)

    same = {"pads": [1, 1, 1, 1]}
    nodes = [
        node("Conv", "x stem.weight stem.bias", "stem", strides=[2, 2], **same),
        node("Relu", "stem", "stem.relu"),
        node("Conv", "stem.relu block.depthwise", "block.narrow", group=16, **same),
        node("Conv", "block.narrow block.weight", "block.wide"),
        node("Add", "block.wide stem.relu", "block.sum"),
        node("GlobalAveragePool", "block.sum", "pool"),
        node("Flatten", "pool", "flat"),
        node("Gemm", "flat head.weight head.bias", "y", transB=1),
    ]
    weights = [
        weight("stem.weight", 16, 3, 3, 3),
        weight("stem.bias", 16),
        weight("block.depthwise", 16, 1, 3, 3),
        weight("block.weight", 16, 16, 1, 1),
        weight("head.weight", 10, 16),
        weight("head.bias", 10),
    ]
    save("residual", nodes, [value("x", "batch", 3, 32, 32), value("y", "batch", 10)], weights)
    save("fixed", nodes, [value("x", 1, 3, 32, 32), value("y", 1, 10)], weights)
    odd = helper.make_node("Fancy", ["stem.relu"], ["fancy"], name="fancy", domain="mine")
    shapes = [value("x", 1, 3, 32, 32), value("fancy", 1, 16, 16, 16)]
    save("unknown", [*nodes[:2], odd], shapes, weights[:2])


def output_of(name: str, folder: Path) -> str:
    """What a command of `COMMANDS` prints or writes, without what differs between runs."""
    command = shlex.split(COMMANDS[name])
    if command[0] == "query" and not (folder / "results").is_dir():
        run(shlex.split(COMMANDS["sweep.printed.json"]), folder)
    _, _, ending = name.partition(".")
    is_printed = ending.endswith("txt") or "printed" in ending
    written = folder / f"written.{'.'.join(ending.split('.')[1:]) or ending}"
    ended, printed = run(command if is_printed else [*command, "-q", "-o", str(written)], folder)
    if is_printed:
        text = printed
    else:
        text = written.read_text("utf-8")
        written.unlink()
    if command[0] == "sweep":
        text = text[text.index("{") :]  # after lines of progress, if it takes long
    if ending.endswith("html"):
        text = _data_block(text)
    if ending.endswith(("json", "html")):
        text = json.dumps(rounded(json.loads(text)), indent=1, ensure_ascii=False) + "\n"
    text = without_variables(text, folder)
    if command[0] == "sweep":
        text = re.sub(r'"seconds": [0-9.e-]+', '"seconds": 0', text)
    return f"exit code {ended}\n{text}" if is_printed and ended else text


def without_variables(text: str, folder: Path) -> str:
    """A text without the folder and the version."""
    return text.replace(str(folder), "FOLDER").replace(version("sizeup"), "VERSION")


def run(arguments: Sequence[str], folder: Path) -> tuple[int, str]:
    """The exit code of a command, and what it prints."""
    from sizeup.cli import main

    out = io.StringIO()
    with _settled(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            main(list(arguments))
        except SystemExit as left:
            return int(left.code or 0), out.getvalue()
    raise AssertionError("the command line returned")


@contextlib.contextmanager
def _settled(folder: Path) -> Iterator[None]:
    """In that folder, 100 columns wide, without colors and without a user's own devices."""
    settings = {"COLUMNS": "100", "NO_COLOR": "1", "SIZEUP_TARGETS": str(folder / "targets")}
    before, place = {name: os.environ.get(name) for name in settings}, Path.cwd()
    os.environ.update(settings)
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(place)
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def _data_block(page: str) -> str:
    match = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert match is not None
    return match[1]


def rounded(value: Any) -> Any:
    """A document with the digits that do not depend on the processor."""
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    if isinstance(value, list):
        return [rounded(each) for each in value]
    if isinstance(value, dict):
        return {
            key: shortened(rounded(each)) if key == "grid" else rounded(each) for key, each in value.items()
        }
    return value


def shortened(value: Any) -> Any:
    """The data of a grid with the beginnings of long lists, and a checksum of all their values."""
    if isinstance(value, list):
        texts = [json.dumps(each) for each in value]
        if len(value) > _LONG_LIST:
            return [*value[:4], f"{len(value)} values, CRC-32 {zlib.crc32(' '.join(texts).encode()):08x}"]
        return [shortened(each) for each in value]
    if isinstance(value, dict):
        return {key: shortened(each) for key, each in value.items()}
    return value
