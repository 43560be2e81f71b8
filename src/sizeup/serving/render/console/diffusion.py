"""Diffusion estimates as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from sizeup import units
from sizeup.render.console.layout import FIT_STYLES, print_labeled
from sizeup.units import FLOPS_PER_MAC, plural, printable

if TYPE_CHECKING:
    from sizeup.serving.results.diffusion import Diffusion


def render(estimate: Diffusion, console: Console) -> None:
    """Print the verdict, weights, FLOPs, the lower bound of the time, and what was assumed."""
    model, device = estimate.model, estimate.cluster.device.name
    console.print(Text(printable(f"{model.name} on {device}"), style="bold"))
    print_labeled(console, "fits", _verdict(estimate), FIT_STYLES[estimate.fits])
    weights = f"{units.count(model.parameters)} parameters, {units.size(model.stored_bytes)}"
    print_labeled(console, "weights", f"{weights}{' at ' + estimate.weights if estimate.weights else ''}")
    pixels = f"{estimate.width:,} x {estimate.height:,} pixels"
    tokens = f"{estimate.image_tokens:,} tokens and {estimate.text_tokens:,} of the text in each inference"
    print_labeled(console, "image", f"{pixels}: {tokens}")
    step, image = (units.count(FLOPS_PER_MAC * macs) for macs in (estimate.step_macs, estimate.image_macs))
    inferences = plural(estimate.inferences, "inference")
    steps = plural(estimate.steps, "step")
    print_labeled(console, "FLOPs", f"{step} per step of {inferences}, {image} per image of {steps}")
    print_labeled(console, "time", _time(estimate))
    for text in estimate.assumptions:
        print_labeled(console, "assumed", text)
    print_labeled(console, "not modeled", "; ".join(estimate.not_modeled))


def _verdict(estimate: Diffusion) -> str:
    needed, total = units.size(estimate.model.stored_bytes), estimate.memory_bytes
    device = estimate.cluster.device.name
    if total is None:
        return f"undetermined: weights take {needed}; the memory of {device} is not known"
    if estimate.fits == "no":
        return f"no: weights take {needed}, more than the {units.size(total)} of {device}"
    return (
        f"undetermined: weights take {needed} of the {units.size(total)} of {device}; activations, text"
        " encoders and the autoencoder are not counted"
    )


def _time(estimate: Diffusion) -> str:
    step, image = estimate.least_step_seconds, estimate.least_image_seconds
    if step is None or image is None:
        return f"unknown: no peak rate of 16-bit products on {estimate.cluster.device.name} is known"
    return f"at least {units.duration(image)} per image, {units.duration(step)} per step (lower bound)"
