"""Weights, FLOPs and least time of a diffusion transformer, from its configuration."""

from __future__ import annotations

import os
from dataclasses import replace

from sizeup.errors import SizeupError, TargetError
from sizeup.serving.models.diffusion import read_diffusion
from sizeup.serving.models.images import parse_image_size
from sizeup.serving.results.diffusion import Diffusion
from sizeup.targets.clusters import cluster
from sizeup.units import quoted

IMAGE_SIZE = "1024x1024"
STEPS = 28
"""Denoising steps of an image, by default on the command line."""
_MOST_STEPS = 10_000
_MOST_TEXT_TOKENS = 1_000_000

_TIME = "time: arithmetic alone, at peak rates of the data sheet, with 16-bit attention and 32-bit sums"
_PADDED = ", the default of the pipeline"
_GUIDED = "two inferences each"
_UNGUIDED = "one inference each; --guidance adds the second one of classifier-free guidance"
_NOT_MODELED = (
    "text encoders and the autoencoder, which run once per image and need memory, too",
    "activations, several images or GPUs, and offloading to the host",
    "images as inputs, adapters and control networks, which add tokens or weights",
    "pipelines that skip or reuse parts of steps",
)


def diffusion(
    config: str | os.PathLike[str],
    *,
    target: str,
    image_size: str,
    steps: int | None,
    guidance: bool,
    text_tokens: int | None,
    weights: str | None,
) -> Diffusion:
    """Return the weights, FLOPs and least time of a diffusion transformer that generates an image on a GPU.

    No pipeline was measured: `least_image_seconds` is a lower bound, arithmetic alone at peak rates. A model
    whose weights exceed the memory does not fit; whether another one fits is undetermined.
    """
    if steps is None:
        raise SizeupError(f"{config}: give the denoising steps of an image, such as steps={STEPS}")
    width, height = parse_image_size(image_size)
    steps = _number("steps", steps, _MOST_STEPS)
    if not isinstance(guidance, bool):
        raise SizeupError(f"guidance is {quoted(guidance)}, not True or False")
    model = read_diffusion(config, weights)
    text = model.text_tokens if text_tokens is None else text_tokens
    text = _number("text tokens", text, _MOST_TEXT_TOKENS)
    model.image_tokens(width, height)
    machine, engine = cluster(target)
    if engine or machine.devices > 1:
        raise TargetError(f"{target}: give one GPU and no engine, e.g. -d {machine.device.name}")
    assumptions = (
        f"text: {text:,} tokens per inference{_PADDED if text_tokens is None else ''}",
        f"steps: {_GUIDED if guidance else _UNGUIDED}",
        *([f"weights: {weights} in the blocks, 16 bits elsewhere"] if weights else model.caveats),
    )
    estimate = Diffusion(
        model, machine, weights or "", width, height, text, steps, 2 if guidance else 1, assumptions,
        _NOT_MODELED,
    )  # fmt: skip
    return (
        estimate
        if estimate.least_step_seconds is None
        else replace(estimate, assumptions=(_TIME, *assumptions))
    )


def _number(name: str, value: object, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise SizeupError(f"{name}: give a number from 1 to {most:,}, not {quoted(value)}")
    return value
