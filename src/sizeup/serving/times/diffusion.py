"""Lower bounds of the times of diffusion transformers: arithmetic alone, at the peak rates of a device."""

from __future__ import annotations

from sizeup.serving.models.diffusion import DiffusionTransformer
from sizeup.serving.models.modules import WEIGHT_PRECISIONS
from sizeup.targets import Device

_WIDEST = 16
_DTYPES = {_WIDEST: ("bf16", "fp16"), 8: ("fp8", "int8"), 4: ("fp4", "int4")}  # of products, by bits
_BITS = {scheme.label: scheme.dtype.bits for scheme in WEIGHT_PRECISIONS.values() if scheme is not None}


def least_inference_seconds(
    model: DiffusionTransformer, device: Device, image_tokens: int, text_tokens: int
) -> float | None:
    """Seconds that one inference takes at least; None if a peak rate of the device is unknown."""
    macs = model.weight_macs(image_tokens, text_tokens)
    work = [(_peak(device, _BITS.get(precision, _WIDEST)), count) for precision, count in macs.items()]
    work.append((_peak(device, _WIDEST), model.attention_macs(image_tokens, text_tokens)))
    seconds = 0.0
    for rate, count in work:
        if rate is None:
            return None
        seconds += count / rate
    return seconds


def _peak(device: Device, bits: int) -> float | None:
    """The highest peak rate of products for weights of that many bits, which may be widened before."""
    rates = [device.peak(dtype) for width, dtypes in _DTYPES.items() if width >= bits for dtype in dtypes]
    return max((rate for rate in rates if rate is not None), default=None)
