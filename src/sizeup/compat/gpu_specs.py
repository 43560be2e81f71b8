"""The graphics cards that Tensorscope knew, with its figures; all else comes from the devices of sizeup."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sizeup import targets
from sizeup.errors import TargetError
from sizeup.targets.gpu_specs import EXAMPLE, NAME, TYPES, figures, read_gpu_specs
from sizeup.targets.table import Table

_FLOPS_PER_MAC = 2
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


def card(name: str, file: str | os.PathLike[str] | None = None) -> dict[str, Any]:
    """A card's GB/s (`memory_bandwidth`) and its TFLOPS by number type, as far as they are known."""
    specs = _specs(file)
    if name in specs:
        return {"name": name, **figures(specs[name])}
    try:
        device = targets.device(name)
    except TargetError as error:
        raise TargetError(
            f"{error}; Tensorscope knew {', '.join(CARDS)}; others go into a file such as {NAME}: {EXAMPLE}"
        ) from error
    if device.bandwidth is None:
        raise TargetError(f"{device.title}: its bandwidth is not known")
    rates = {each: device.peak(each) for each in TYPES}
    return {
        "name": device.title,
        "memory_bandwidth": device.bandwidth / 1e9,
        **{each: _FLOPS_PER_MAC * rate / 1e12 for each, rate in rates.items() if rate is not None},
        **_as_tensorscope(device),
    }


def _as_tensorscope(device: targets.Device) -> Mapping[str, float]:
    return next((own for known, own in CARDS.items() if targets.device(known).name == device.name), {})


def _specs(file: str | os.PathLike[str] | None) -> dict[str, Table]:
    """The cards of the file that was named, or of the one in the working directory if there is one."""
    if file is None and not Path(NAME).is_file():
        return {}
    return read_gpu_specs(NAME if file is None else file)
