"""The graphics cards that Tensorscope knew, with its figures; all else comes from the devices of sizeup."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sizeup import targets
from sizeup.errors import TargetError

_FLOPS_PER_MAC = 2
_TYPES = ("fp64", "fp32", "fp16", "bf16")
_A100 = {"fp64": 19.5, "fp32": 156.0}
# The nine by the names that torch.cuda.get_device_name() gives, and where Tensorscope's TFLOPS are not those
# of the data sheet's plain units: on the A100 it took the tensor cores' (TF32 under the name of fp32, and
# fp64), on the GTX 1650 Ti rounded figures.
CARDS: Mapping[str, Mapping[str, float]] = {
    "NVIDIA GeForce GTX 1650 Ti": {"fp64": 0.095, "fp32": 3.0, "fp16": 6.0},
    "NVIDIA A100-PCIE-40GB": _A100,
    "NVIDIA A100 80GB PCIe": _A100,
    "NVIDIA A100-SXM4-40GB": _A100,
    "NVIDIA A100-SXM4-80GB": _A100,
    "Tesla V100-SXM2-16GB": {},
    "Tesla V100-SXM2-32GB": {},
    "Tesla V100-PCIE-16GB": {},
    "Tesla V100-PCIE-32GB": {},
}
_USUAL_FILE = Path("gpu_specs.json")


def card(name: str, file: str | os.PathLike[str] | None = None) -> dict[str, Any]:
    """A card's GB/s (`memory_bandwidth`) and its TFLOPS by number type, as far as they are known."""
    specs = _specs(file)
    if name in specs:
        if "memory_bandwidth" not in specs[name]:
            raise TargetError(f"{name}: its memory_bandwidth in GB/s is missing from the file")
        return {"name": name, **specs[name]}
    try:
        device = targets.device(name)
    except TargetError as error:
        raise TargetError(
            f"{error}; Tensorscope knew {', '.join(CARDS)}; others go into a file such as gpu_specs.json:"
            ' {"NAME": {"memory_bandwidth": GB/s, "fp32": TFLOPS, "fp16": TFLOPS}}'
        ) from error
    if device.bandwidth is None:
        raise TargetError(f"{device.title}: its bandwidth is not known")
    rates = {each: device.peak(each) for each in _TYPES}
    return {
        "name": device.title,
        "memory_bandwidth": device.bandwidth / 1e9,
        **{each: _FLOPS_PER_MAC * rate / 1e12 for each, rate in rates.items() if rate is not None},
        **_as_tensorscope(device),
    }


def _as_tensorscope(device: targets.Device) -> Mapping[str, float]:
    return next((own for known, own in CARDS.items() if targets.device(known).name == device.name), {})


def _specs(file: str | os.PathLike[str] | None) -> dict[str, Any]:
    """The cards of a file: the one that was named, or that of the working directory where there is one."""
    path = _USUAL_FILE if file is None else Path(file)
    if file is None and not path.is_file():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise TargetError(f"{path}: the specifications of graphics cards cannot be read: {error}") from error
    if not isinstance(found, dict) or not all(isinstance(each, dict) for each in found.values()):
        raise TargetError(f"{path}: it is not a table of graphics cards by name")
    return found
