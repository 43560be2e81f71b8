"""Execution paths of ONNX Runtime, against the graphs that it optimizes itself."""

from __future__ import annotations

import platform
from collections import Counter
from pathlib import Path

import pytest

from sizeup import formats
from sizeup.calibration.network_spec import NetworkBuilder, NetworkSpec
from sizeup.calibration.networks import networks
from sizeup.cost import count
from sizeup.latency import Rate, Rates, execution_of
from sizeup.latency.paths import without_path
from sizeup.targets import runtime as runtime_of

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import onnx
import onnxruntime

from sizeup.calibration.write_onnx import onnx_model

pytestmark = pytest.mark.extras


def _has_blocks_of_16() -> bool:
    info = Path("/proc/cpuinfo")
    is_x86 = platform.machine() in ("x86_64", "AMD64")
    return is_x86 and info.exists() and "avx512f" in info.read_text("utf-8", "replace")


def _ran(content: bytes, folder: Path) -> Counter[str]:
    """Operators after all optimizations of ONNX Runtime; `blocked:Conv` computes in blocks of channels."""
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(folder / "optimized.onnx")
    options.log_severity_level = 4
    onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    nodes = onnx.load(folder / "optimized.onnx").graph.node
    return Counter(("blocked:" if "nchwc" in node.domain else "") + node.op_type for node in nodes)


def _classes(content: bytes) -> Counter[str]:
    work = execution_of(count(formats.load(content)), None, runtime_of("ort").fusions or ()).work
    return Counter(work.names[code] for code in work.class_index.tolist())


def _total(
    classes: Counter[str], *, path: str, dtype: str, kinds: tuple[str, ...] = ("conv", "depth")
) -> int:
    return sum(
        number
        for name, number in classes.items()
        if name.startswith(kinds)
        and name.partition(".")[0].partition("@")[2] == path
        and name.partition(".")[2] == dtype
    )


@pytest.mark.skipif(not _has_blocks_of_16(), reason="blocks of 16 channels need AVX-512")
@pytest.mark.parametrize(
    ("channels", "size", "kernel", "groups"),
    [
        (3, 16, 3, 1), (3, 20, 3, 1), (8, 16, 3, 1), (17, 16, 3, 1), (18, 16, 1, 1), (20, 32, 3, 1),
        (24, 144, 1, 1), (30, 30, 3, 1), (32, 1, 1, 1), (58, 58, 1, 1), (58, 58, 3, 58), (60, 60, 3, 60),
        (64, 64, 3, 4), (64, 64, 3, 8), (72, 72, 5, 72),
    ],
)  # fmt: skip
def test_convolutions_in_blocks_of_channels(
    tmp_path: Path, channels: int, size: int, kernel: int, groups: int
) -> None:
    draft = NetworkBuilder("conv", "conv", (14, 14, channels))
    draft.conv(size, kernel, 1, groups)
    content = onnx_model(draft.build()).SerializeToString()
    is_blocked = _ran(content, tmp_path)["blocked:Conv"] == 1
    assert _total(_classes(content), path="" if is_blocked else "plain", dtype="") == 1


@pytest.mark.parametrize(
    ("name", "path"),
    [("hardswish", ""), *((name, "@exponential") for name in ("silu", "gelu", "tanh"))],
)
def test_activations_with_exponentials_are_apart(name: str, path: str) -> None:
    draft = NetworkBuilder("activation", "activation", (64, 128))
    draft.act(name)
    draft.act(name)
    assert f"activation{path}" in _classes(onnx_model(draft.build()).SerializeToString())


_NAMES = ("residual 0", "fire", "shared 0", "first", "maxima 0")
_INT8 = [each for each in networks() if each.precision == "int8" and each.name.startswith(_NAMES)]


@pytest.mark.parametrize("sketch", _INT8, ids=lambda each: each.name)
def test_quantized_convolutions_and_pooling(tmp_path: Path, sketch: NetworkSpec) -> None:
    content = onnx_model(sketch).SerializeToString()
    ran, classes = _ran(content, tmp_path), _classes(content)
    assert _total(classes, path="", dtype="int8") == ran["QLinearConv"]
    assert _total(classes, path="dequantized", dtype="") == ran["Conv"] + ran["FusedConv"]
    is_float_pool = classes["pool"] > 0
    assert classes["max_pool.int8"] == ran["NhwcMaxPool"]
    assert is_float_pool or classes["max_pool@plain.int8"] == ran["MaxPool"]


def test_a_calibration_without_paths_has_one_rate_for_all() -> None:
    slow, fast = Rate(2.0, 2.0, 2.0), Rate(1.0, 1.0, 1.0)
    old = Rates(Rate(9.0, 9.0, 9.0), {"conv": fast, "conv.int8": slow})
    assert old.of("conv@plain") == fast
    assert old.of("conv@plain.int8") == slow
    assert old.covers("conv@plain")
    assert not old.covers("pool@plain")
    assert Rates(fast, {"conv": fast, "conv@plain": slow}).of("conv@plain") == slow
    assert without_path("max_pool@plain.int8") == "max_pool.int8"
