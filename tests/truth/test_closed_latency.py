"""Latency over free dimensions held against bound graphs, and printed formulas against both."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from torch import Tensor, nn

import sizeup
from formats.onnx.exporting import by_tracing
from sizeup.closed_forms.latency import KernelForms
from sizeup.formats.torch.zoo import import_torchvision
from sizeup.latency import Estimate
from sizeup.symbolic import SymbolicGraph

# Fitted: a processor whose compiler makes loops, and a GPU that short networks keep waiting. By data sheet: a
# board, and a microcontroller (which is fitted in int8).
TARGETS = ("i7-12700h/torch-inductor", "a100-40gb-pcie/torch-eager", "rpi5/ort", "stm32f746/tflm")
PICTURE = ("batch", "height", "width")
SIZES = {"batch": (1, 40), "height": (64, 500), "width": (64, 500), "seq": (1, 300)}
POINTS = 20
_WIDTHS: dict[str, Any] = {
    "vocab_size": 96,
    "hidden_size": 32,
    "intermediate_size": 56,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}
CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "bert": {"model_type": "bert", **_WIDTHS},
    "llama": {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "num_key_value_heads": 2,
        **_WIDTHS,
    },
}


class _Bert(nn.Module):
    """A small BERT with its pooler, as plain tensors in and out."""

    def __init__(self) -> None:
        import_torchvision()  # transformers imports it too, and cannot where it needs help
        from transformers import BertConfig, BertModel

        super().__init__()
        self.bert = BertModel(BertConfig(**_WIDTHS))  # type: ignore[no-untyped-call]

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        result: Tensor = self.bert(input_ids=tokens, attention_mask=mask).pooler_output
        return result


def _exported_picture(name: str) -> onnx.ModelProto:
    library: Any = import_torchvision()
    if library is None:
        pytest.skip("torchvision is not installed")
    axes = {"x": {0: "batch", 2: "height", 3: "width"}}
    network = getattr(library.models, name)()
    return by_tracing(network, (torch.zeros(2, 3, 96, 96),), input_names=["x"], dynamic_axes=axes)


def _exported_text() -> onnx.ModelProto:
    axes = {name: {0: "batch", 1: "seq"} for name in ("tokens", "mask")}
    ones = torch.ones(2, 12, dtype=torch.int64)
    return by_tracing(_Bert(), (ones, ones), input_names=["tokens", "mask"], dynamic_axes=axes)


Load = Callable[[Path, Path], SymbolicGraph]  # from a place to write to, and the folder of real files


def _configured(name: str) -> Load:
    def load(place: Path, _: Path) -> SymbolicGraph:
        path = place / f"{name}.json"
        path.write_text(json.dumps(CONFIGURATIONS[name]), "utf-8")
        return sizeup.load(f"hf:{path}", free=["batch", "seq"])

    return load


def _file(name: str) -> Load:
    return lambda _, shared: sizeup.load(shared / "models" / f"{name}.tflite", free=["batch"])


MODELS: dict[str, Load] = {
    "resnet50": lambda *_: sizeup.load("torchvision:resnet50", free=PICTURE),
    "mobilenet_v2": lambda *_: sizeup.load("torchvision:mobilenet_v2", free=PICTURE),
    "vit_b_16": lambda *_: sizeup.load("torchvision:vit_b_16", free=["batch"]),
    "bert": _configured("bert"),
    "llama": _configured("llama"),
    "resnet50.onnx": lambda *_: sizeup.load(_exported_picture("resnet50"), free=True),
    "mobilenet_v2.onnx": lambda *_: sizeup.load(_exported_picture("mobilenet_v2"), free=True),
    "bert.onnx": lambda *_: sizeup.load(_exported_text(), free=True),
    "vww96.tflite": _file("mlperf_vww96_int8"),
    "palm.tflite": _file("mp_palm_detection_lite"),
}


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory, shared: Path) -> Callable[[str], SymbolicGraph]:
    return cache(lambda name: MODELS[name](tmp_path_factory.mktemp("models"), shared))


def _points(free: SymbolicGraph) -> dict[str, Any]:
    """Random sizes; single pictures and texts are among them."""
    drawn = np.random.default_rng(7)
    found = {name: drawn.integers(*SIZES[name], POINTS) for name in free.names}
    found["batch"][:3] = 1
    if "seq" in found:
        found["seq"][2:4] = 1
    return found


def _same(found: tuple[float, float, float], alone: Estimate) -> bool:
    told = (alone.seconds, alone.low, alone.high)
    return all(
        math.isnan(one) if other is None else math.isclose(one, other, rel_tol=1e-12)
        for one, other in zip(found, told, strict=True)
    )


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", MODELS)
def test_seconds_and_their_range_are_those_of_a_bound_graph(
    name: str, target: str, loaded: Callable[[str], SymbolicGraph]
) -> None:
    free = loaded(name)
    sizes, estimate = _points(free), sizeup.estimate(free, target)
    found = estimate.at(**sizes)
    for place in range(POINTS):
        point = {each: int(column[place]) for each, column in sizes.items()}
        alone = sizeup.estimate(free.at(**point), target)
        assert found.basis[place] == alone.basis, point
        assert _same((found.seconds[place], found.low[place], found.high[place]), alone), point
        assert isinstance(estimate.forms_at(point), KernelForms), point  # none was estimated by itself


@pytest.mark.parametrize("precision", ["int8", "fp16"])
def test_a_precision_prices_the_closed_forms_too(
    precision: str, loaded: Callable[[str], SymbolicGraph]
) -> None:
    free, target = loaded("mobilenet_v2"), "rpi5/ort"
    sizes = _points(free)
    found = sizeup.estimate(free, target, precision=precision).at(**sizes)
    for place in range(0, POINTS, 4):
        point = {each: int(column[place]) for each, column in sizes.items()}
        alone = sizeup.estimate(free.at(**point), target, precision=precision)
        assert _same((found.seconds[place], found.low[place], found.high[place]), alone), point


def test_short_networks_keep_a_gpu_waiting_and_have_another_basis(
    loaded: Callable[[str], SymbolicGraph],
) -> None:
    found = sizeup.estimate(loaded("mobilenet_v2"), TARGETS[1]).at(batch=[1, 64], height=224, width=224)
    assert found.basis.tolist() == ["roofline", "calibrated"]


def _printed(text: str) -> str:
    """The lines of a printed explanation that are Python, those of kernels before the totals."""
    top, _, kernels = text.partition("kernels, with their share")
    totals = top.partition("seconds on ")[2]
    return "\n".join(
        line.strip()
        for part in (kernels, totals)
        for line in part.splitlines()
        if line.strip().partition(" ")[2].lstrip().startswith("= ")
    )


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["resnet50", "bert", "mobilenet_v2.onnx", "vww96.tflite"])
def test_what_is_printed_evaluates_to_the_estimate(
    name: str, target: str, loaded: Callable[[str], SymbolicGraph]
) -> None:
    free = loaded(name)
    forms = sizeup.explain(free, target=target)
    assert forms.latency is not None
    sizes = _points(free)
    found = sizeup.estimate(free, target).at(**sizes)
    program = _printed(_wide(forms))
    held = 0
    for place in range(POINTS):
        names: dict[str, Any] = {each: int(column[place]) for each, column in sizes.items()}
        exec(program, names)
        # What is printed says that it holds on one basis.
        if found.basis[place] != forms.latency.basis:
            continue
        held += 1
        assert names["seconds"] == pytest.approx(found.seconds[place], rel=1e-9)
        for side, value in (("low", found.low[place]), ("high", found.high[place])):
            assert names.get(side, math.nan) == pytest.approx(value, rel=1e-9, nan_ok=True)
    assert held >= 3


def _wide(forms: Any) -> str:
    import io

    from rich.console import Console

    from sizeup.render.console import closed_forms as formulas

    buffer = io.StringIO()
    formulas.render(forms, Console(file=buffer, width=100_000, color_system=None))
    return buffer.getvalue()
