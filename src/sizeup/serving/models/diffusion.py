"""Diffusion transformers from the configurations of diffusers, without torch: weights, tokens and MACs.

Each class is read as diffusers 0.42 builds it (src/diffusers/models/transformers/transformer_flux.py and
transformer_sd3.py in https://github.com/huggingface/diffusers). An image is denoised in steps; a step is one
inference on the tokens of the image and those of the text, or two with classifier-free guidance.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from sizeup.errors import CorruptModel, LoadError, SizeupError
from sizeup.files import exists, is_file, is_folder
from sizeup.formats.config_json import parse_json
from sizeup.serving.models.architecture import Weight
from sizeup.serving.models.modules import WEIGHT_PRECISIONS, Modules
from sizeup.serving.models.reader import MOST_PARAMETERS, assumed_quantization, dtype_of, model_name
from sizeup.serving.models.settings import MOST_LAYERS, Settings
from sizeup.targets import Device
from sizeup.units import quoted

Rows: TypeAlias = Literal["image", "text", "both", "once"]
"""What a weight is multiplied with: tokens of the image, of the text, of both, or one vector."""

_LATENT_PIXELS = 8  # along a side, of the autoencoders of all classes
_FREQUENCIES = 256  # of the sinusoids of a time step


@dataclass(frozen=True, slots=True)
class DiffusionTransformer:
    """The denoising network of a pipeline that generates images from text."""

    name: str
    class_name: str
    weights: Mapping[Rows, tuple[Weight, ...]]
    pair_macs: Mapping[Rows, int]  # of attention, per pair of tokens of these rows, over all blocks
    token_pixels: int  # along a side of the square that becomes a token
    text_tokens: int  # to which the pipeline pads a text by default
    most_tokens: int = 0  # along a side, as many as have a position; 0: any number
    caveats: tuple[str, ...] = ()

    @property
    def parameters(self) -> int:
        """Parameters of all weights."""
        return sum(weight.parameters for weights in self.weights.values() for weight in weights)

    @property
    def stored_bytes(self) -> int:
        """Bytes of all weights."""
        return sum(weight.stored_bytes for weights in self.weights.values() for weight in weights)

    def image_tokens(self, width: int, height: int) -> int:
        """Tokens of an image of that many pixels; raises SizeupError if the model cannot generate it."""
        side, size = self.token_pixels, f"--image-size {width}x{height}"
        if width % side or height % side:
            raise SizeupError(f"{size}: {self.name} generates multiples of {side} pixels")
        if self.most_tokens and max(width, height) > side * self.most_tokens:
            raise SizeupError(f"{size}: {self.name} generates at most {side * self.most_tokens:,} pixels")
        return width // side * (height // side)

    def weight_macs(self, image_tokens: int, text_tokens: int) -> dict[str, int]:
        """MACs of one inference with weights, by their precision."""
        rows = _row_counts(image_tokens, text_tokens)
        macs: dict[str, int] = {}
        for name, weights in self.weights.items():
            for weight in weights:
                macs[weight.precision] = macs.get(weight.precision, 0) + rows[name] * weight.macs
        return {precision: count for precision, count in macs.items() if count}

    def attention_macs(self, image_tokens: int, text_tokens: int) -> int:
        """MACs of one inference between tokens: scores and weighted sums."""
        rows = _row_counts(image_tokens, text_tokens)
        return sum(rows[name] ** 2 * macs for name, macs in self.pair_macs.items())


def _row_counts(image_tokens: int, text_tokens: int) -> dict[Rows, int]:
    return {"image": image_tokens, "text": text_tokens, "both": image_tokens + text_tokens, "once": 1}


def is_diffusion(source: object) -> bool:
    """Whether a file or folder has a configuration of diffusers, supported or not."""
    if not isinstance(source, str | os.PathLike):
        return False
    path = _configuration(source)
    if path.suffix.lower() != ".json" or not is_file(path):
        return False
    try:
        content = parse_json(path, str(path))
    except LoadError:  # reported by whatever reads it
        return False
    return isinstance(content, dict) and "_class_name" in content and "model_type" not in content


def _configuration(source: str | os.PathLike[str]) -> Path:
    """The config.json of a transformer, also in the folder of its pipeline."""
    path = Path(source)
    if not is_folder(path):
        return path
    inner = path / "transformer" / "config.json"
    return inner if exists(inner) else path / "config.json"


def read_diffusion(source: str | os.PathLike[str], weights: str | None = None) -> DiffusionTransformer:
    """Return the diffusion transformer that a config.json of diffusers describes.

    `source` may be the folder of a pipeline. `weights` is the precision of the matrices of the blocks; others
    stay at 16 bits. Raises LoadError for a class, or a setting that may change sizes, that is not known.
    """
    path = _configuration(source)
    content = parse_json(path, str(path))
    if not isinstance(content, dict):
        raise CorruptModel(f"{path}: not a configuration of diffusers")
    return diffusion_of(content, str(path), weights)


def diffusion_of(content: Mapping[str, Any], source: str, weights: str | None = None) -> DiffusionTransformer:
    """Return the diffusion transformer of a parsed configuration."""
    settings = Settings(content, source)
    class_name = settings.text("_class_name")
    build = CLASSES.get(class_name)
    if build is None:
        what = f"class {quoted(class_name)} is not supported" if class_name else "not a model of diffusers"
        raise LoadError(f"{source}: {what}; sizeup llm reads {', '.join(CLASSES)}")
    if "quantization_config" in settings and weights is None:
        raise LoadError(
            f"{source}: quantization_config of diffusers is not supported; --weights PRECISION replaces it"
        )
    dtype, caveats = dtype_of(settings, settings)
    if weights is not None:
        dtype, caveats = "fp16" if weights == "fp16" else "bf16", ()
    path = Path(source)
    name = path.absolute().parent.parent.name if path.parent.name == "transformer" else ""
    parts = _Parts(Modules(dtype), Modules(dtype, assumed_quantization(weights)))
    settings.skip("_diffusers_version")
    model = build(settings, parts, name or model_name(source), caveats)
    settings.refuse_unread()
    if max(model.parameters, model.stored_bytes // 4) > MOST_PARAMETERS:  # positions are no parameters
        raise CorruptModel(f"{source}: more than {MOST_PARAMETERS:,} parameters")
    return model


@dataclass(slots=True)
class _Parts:
    """Collects weights by what they are multiplied with."""

    outer: Modules  # embeddings and the last projection, which are not quantized
    blocks: Modules
    weights: dict[Rows, list[Weight]] = field(default_factory=dict)

    def linear(self, rows: Rows, outputs: int, inputs: int, count: int = 1, *, outer: bool = False) -> None:
        """Add `count` linear layers with a bias."""
        modules = self.outer if outer else self.blocks
        for _ in range(count):
            self._add(rows, modules.linear("linear", outputs, inputs, "dense", bias=True))

    def vector(self, size: int) -> None:
        """Add the weights of a norm."""
        self._add("once", self.outer.vector("norm", size))

    def table(self, size: int) -> None:
        """Add numbers that a checkpoint stores and that are no parameters."""
        stored = self.outer.vector("positions", size)[0].stored_bytes
        self._add("once", [Weight("positions", "embedding", 0, stored, self.outer.dtype)])

    def _add(self, rows: Rows, weights: list[Weight]) -> None:
        self.weights.setdefault(rows, []).extend(weights)

    def stored(self) -> dict[Rows, tuple[Weight, ...]]:
        """All weights."""
        return {rows: tuple(weights) for rows, weights in self.weights.items()}


_Build = Callable[[Settings, _Parts, str, tuple[str, ...]], DiffusionTransformer]


def _blocks(settings: Settings, name: str, *, default: int | None = None) -> int:
    count = settings.count(name, default=default)
    if count > MOST_LAYERS:
        raise settings.error(f"{name} is {count:,}; at most {MOST_LAYERS:,} blocks are supported")
    return count


def _conditions(settings: Settings, parts: _Parts, width: int, *, guidance: bool) -> None:
    """Embeddings of the time step, of the guidance scale if it is an input, and of the pooled text."""
    inputs = [_FREQUENCIES] * (2 if guidance else 1)
    for size in (*inputs, settings.size("pooled_projection_dim")):
        parts.linear("once", width, size, outer=True)
        parts.linear("once", width, width, outer=True)


def _feed_forward(parts: _Parts, rows: Rows, width: int) -> None:
    parts.linear(rows, 4 * width, width)
    parts.linear(rows, width, 4 * width)


def _flux(settings: Settings, parts: _Parts, name: str, caveats: tuple[str, ...]) -> DiffusionTransformer:
    """FLUX.1: blocks with separate weights for image and text, then blocks with the same ones for both."""
    head = settings.size("attention_head_dim")
    width = settings.size("num_attention_heads") * head
    double, single = _blocks(settings, "num_layers"), _blocks(settings, "num_single_layers")
    channels = settings.size("in_channels")
    if settings.size("patch_size", default=1) != 1:
        raise settings.unsupported("patch_size is not 1")
    settings.skip("axes_dims_rope")
    _conditions(settings, parts, width, guidance=settings.flag("guidance_embeds"))
    parts.linear("text", width, settings.size("joint_attention_dim"), outer=True)
    parts.linear("image", width, channels, outer=True)
    for _ in range(double):
        parts.linear("once", 6 * width, width, 2)  # scales, shifts and gates of both
        parts.vector(4 * head)  # norms of queries and keys of both
        for rows in ("image", "text"):
            parts.linear(rows, width, width, 4)
            _feed_forward(parts, rows, width)
    for _ in range(single):
        parts.linear("once", 3 * width, width)
        parts.vector(2 * head)
        parts.linear("both", width, width, 3)
        parts.linear("both", 4 * width, width)
        parts.linear("both", width, 5 * width)
    parts.linear("once", 2 * width, width, outer=True)
    parts.linear("image", settings.size("out_channels", default=channels), width, outer=True)
    pair_macs: dict[Rows, int] = {"both": 2 * width * (double + single)}
    # The pipeline packs 2 x 2 latents into a token, and pads the text to 512 tokens.
    return DiffusionTransformer(
        name, "FluxTransformer2DModel", parts.stored(), pair_macs, 2 * _LATENT_PIXELS, 512, 0, caveats
    )


def _sd3(settings: Settings, parts: _Parts, name: str, caveats: tuple[str, ...]) -> DiffusionTransformer:
    """Stable Diffusion 3 and 3.5: blocks with separate weights for image and text."""
    head = settings.size("attention_head_dim")
    width = settings.size("num_attention_heads") * head
    count, patch = _blocks(settings, "num_layers"), settings.size("patch_size")
    if not count:
        raise settings.error("num_layers is 0")
    dual = settings.layers("dual_attention_layers", count) or set()
    norm = settings.text("qk_norm")
    if norm not in ("", "rms_norm"):
        raise settings.unsupported(f"qk_norm {quoted(norm)} is unknown")
    if settings.size("caption_projection_dim") != width:
        raise settings.unsupported(f"caption_projection_dim is not the width of the blocks, {width:,}")
    most = settings.size("pos_embed_max_size")
    settings.skip("sample_size")
    _conditions(settings, parts, width, guidance=False)
    parts.linear("text", width, settings.size("joint_attention_dim"), outer=True)
    parts.linear("image", width, settings.size("in_channels") * patch * patch, outer=True)  # a convolution
    parts.table(most * most * width)
    for index in range(count):
        is_last = index == count - 1  # whose text is not read further
        parts.linear("once", (9 if index in dual else 6) * width, width)
        parts.linear("once", (2 if is_last else 6) * width, width)
        parts.linear("image", width, width, 8 if index in dual else 4)
        parts.linear("text", width, width, 3 if is_last else 4)
        _feed_forward(parts, "image", width)
        if not is_last:
            _feed_forward(parts, "text", width)
        if norm:
            parts.vector((6 if index in dual else 4) * head)
    parts.linear("once", 2 * width, width, outer=True)
    parts.linear("image", settings.size("out_channels") * patch * patch, width, outer=True)
    pair_macs: dict[Rows, int] = {"both": 2 * width * count, "image": 2 * width * len(dual)}
    # The pipeline pads the text to 77 tokens of CLIP and 256 of T5.
    return DiffusionTransformer(
        name, "SD3Transformer2DModel", parts.stored(), pair_macs, patch * _LATENT_PIXELS, 333, most, caveats
    )


CLASSES: Mapping[str, _Build] = {"FluxTransformer2DModel": _flux, "SD3Transformer2DModel": _sd3}
"""The classes of diffusers that can be read."""


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
