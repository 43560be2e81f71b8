"""The models of the zoo: built without downloads, and their MACs by torch's own counter."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from sizeup.formats.torch.eager import eager_execution, fake_mode
from sizeup.formats.torch.huggingface import build_configuration
from sizeup.formats.torch.inputs import arguments, prepare
from sizeup.formats.torch.sources import build
from sizeup.formats.torch.zoo import BuiltModel, import_torchvision, offline

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SPEC = Path(__file__).with_suffix("").with_name("zoo.toml")
DEFAULT: Mapping[str, Any] = {}  # settings of models that are listed by name alone
_EXPERTS = {"experts_implementation": "batched_mm"}


@dataclass(frozen=True)
class ZooModel:
    """One model: a name of timm or torchvision, or a class or model type with its settings."""

    name: str
    library: str
    class_name: str = ""
    config: Mapping[str, Any] = field(default_factory=lambda: DEFAULT)
    inputs: Mapping[str, Any] = field(default_factory=dict)
    bind: Mapping[str, int] = field(default_factory=dict)
    reason: str = ""  # why the MACs are not those of the oracle

    @property
    def source(self) -> str:
        """The name as the table prints it."""
        return f"{self.library}:{self.name}"


def models(path: Path = SPEC) -> list[ZooModel]:
    """Return the models that the file lists."""
    content = tomllib.loads(path.read_text())
    reasons = content.get("reasons", {})
    listed = [
        ZooModel(name, library)
        for library in ("timm", "torchvision", "transformers")
        for name in content[library]["names"].split()
    ]
    listed += [
        ZooModel(
            entry["name"],
            library,
            entry.get("class", ""),
            entry.get("config", {}),
            entry.get("inputs", {}),
            entry.get("bind", {}),
        )
        for library in ("torchvision", "transformers", "diffusers")
        for entry in content[library].get("models", ())
    ]
    return [replace(model, reason=reasons.get(model.source, "")) for model in listed]


def build_model(model: ZooModel, *, for_oracle: bool = False) -> BuiltModel:
    """Build a model; for the oracle, experts are batched matmuls, which torch's counter knows."""
    torch.manual_seed(0)
    if model.class_name:
        return _build_class(model, _EXPERTS if for_oracle else {})
    if model.library != "transformers":
        return build(f"{model.library}:{model.name}", model.bind)
    settings = {**model.config, **(_EXPERTS if for_oracle else {})}
    with configuration_file(model.name, **settings) as path:
        return build_configuration(str(path), model.bind)


@contextmanager
def configuration_file(model_type: str, **settings: Any) -> Iterator[Path]:
    """Write a config.json that exists within the block."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "config.json")
        path.write_text(json.dumps({"model_type": model_type, **settings}))
        yield path


def _build_class(model: ZooModel, settings: Mapping[str, Any]) -> BuiltModel:
    inputs = {name: _input(value) for name, value in model.inputs.items()}
    if model.library == "torchvision":
        return BuiltModel(_detector(model), model.name, ([torch.rand(3, *model.config["size"])],))
    import_torchvision()  # both libraries import it, and fail if that fails
    with offline():
        if model.library == "diffusers":
            import diffusers

            module = getattr(diffusers, model.class_name)(**model.config)
        else:
            import transformers

            model_class = getattr(transformers, model.class_name)
            config = model_class.config_class(**{**model.config, **settings})
            if hasattr(config, "use_cache"):
                config.use_cache = False
            module = model_class(config)
    return BuiltModel(module.eval(), model.name, None, inputs)


def _detector(model: ZooModel) -> torch.nn.Module:
    torchvision = import_torchvision()
    _define_nms()
    weights = {"weights": None, "weights_backbone": None}
    module: torch.nn.Module = torchvision.models.get_model(model.class_name, **weights)
    return module.eval()


def _define_nms() -> None:
    """Define non-maximum suppression if torchvision's compiled extension does not match this torch."""
    if torch._C._dispatch_has_kernel_for_dispatch_key("torchvision::nms", "CPU"):
        return

    @torch.library.impl("torchvision::nms", "CPU")
    def nms(boxes: torch.Tensor, scores: torch.Tensor, threshold: float) -> torch.Tensor:
        overlap = _overlap(boxes)
        kept: list[int] = []
        for index in scores.argsort(descending=True).tolist():
            if all(overlap[index, other] <= threshold for other in kept):
                kept.append(index)
        return torch.tensor(kept, dtype=torch.int64)


def _overlap(boxes: torch.Tensor) -> torch.Tensor:
    area = (boxes[:, 2:] - boxes[:, :2]).prod(1)
    low = torch.maximum(boxes[:, None, :2], boxes[None, :, :2])
    high = torch.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
    common = (high - low).clamp(min=0).prod(2)
    return common / (area[:, None] + area[None, :] - common)


def _input(value: Any) -> Any:
    """Return a tensor for a shape, for token ids with their counts, or for values; else the value."""
    if isinstance(value, list) and all(isinstance(size, int) for size in value):
        return torch.rand(value)
    if not isinstance(value, dict):
        return value
    if "tokens" in value:
        ids = [token for token, count in value["tokens"] for _ in range(count)]
        return torch.tensor([ids])
    if "values" in value:
        return torch.tensor(value["values"], dtype=getattr(torch, value.get("dtype", "int64")))
    if "shape" in value:
        return torch.ones(value["shape"], dtype=getattr(torch, value["dtype"]))
    return {name: _input(item) for name, item in value.items()}


def second_opinion(built: BuiltModel) -> int:
    """Return the MACs by torch's own counter, on fake tensors, or with real data if those are needed.

    It sees nothing of fused attention on a CPU, so attention is computed by its parts.
    """
    if any(isinstance(module, torch.nn.LSTM) for module in built.module.modules()):
        return _second_opinion_of_steps(built)
    call_args = arguments(built.inputs, built.kwargs)
    if built.mode is not None:
        return _count_macs(built, call_args, built.mode)
    try:
        return _count_macs(built, call_args, fake_mode())
    except Exception:
        return _count_macs(built, call_args, None)


def _count_macs(built: BuiltModel, call_args: Any, mode: Any) -> int:
    torch.manual_seed(0)
    dtype = next((p.dtype for p in built.module.parameters() if p.dtype.is_floating_point), torch.float32)
    args, kwargs = prepare(call_args, torch.device("cpu"), dtype, mode)
    fast_path = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with (
            torch.no_grad(),
            eager_execution(),
            mode or torch.random.fork_rng(devices=[]),
            sdpa_kernel(SDPBackend.MATH),
            FlopCounterMode(display=False, custom_mapping=_HAND_COUNTS) as counter,
        ):
            built.module(*args, **kwargs)
    finally:
        torch.backends.mha.set_fastpath_enabled(fast_path)
    return int(counter.get_total_flops()) // 2


def _vector_flops(left: Any, _right: Any, *_: Any, **__: Any) -> int:
    flops: int = 2 * prod(left)
    return flops


def _solve_flops(matrix: Any, right: Any, *_: Any, **__: Any) -> int:
    """Substitution: row i needs i products for each right-hand side."""
    flops: int = prod(right) * (matrix[-1] - 1)
    return flops


# By hand, because torch's counter does not know them.
_HAND_COUNTS = {
    torch.ops.aten.mv: _vector_flops,
    torch.ops.aten.dot: _vector_flops,
    torch.ops.aten.linalg_solve_triangular: _solve_flops,
}


def _second_opinion_of_steps(built: BuiltModel) -> int:
    """Count on the meta device, where torch takes recurrent layers apart step by step."""
    with torch.device("meta"), torch.no_grad():
        module = built.make_real().eval() if built.make_real else built.module.to("meta")
        args, kwargs = prepare(
            arguments(built.inputs, built.kwargs), torch.device("meta"), torch.float32, None
        )
        with FlopCounterMode(display=False) as counter:
            module(*args, **kwargs)
    return int(counter.get_total_flops()) // 2
