"""Images in prompts: the tokens of an image, and the work of the vision tower, by the rules of each tower.

Images are scaled as the published image processors do (Qwen2VLImageProcessor, Kimi_K25ImageProcessor and
Gemma4ImageProcessor in transformers 5). Their limits are read from preprocessor_config.json, or from
processor_config.json, next to a config.json.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from sizeup.errors import CorruptModel, SizeupError
from sizeup.files import exists, is_folder
from sizeup.formats.config_json import parse_json
from sizeup.serving.models.architecture import Architecture, ImageLimit, Images, Part, Tower
from sizeup.serving.models.settings import Settings
from sizeup.units import quoted

MOST_IMAGES = 10_000
_SIZE = re.compile("([1-9][0-9]{0,4})[xX]([1-9][0-9]{0,4})")
_ASSUMPTIONS = (
    "image tokens are added to --in, which counts text and the markers around images",
    (
        "vision tower: not measured; it has the rates of the language model's layers, and one GPU computes"
        " all of it: engines that divide it by tensor parallelism take less (lower bounds are divided)"
    ),
)
_MOST_RATIO = 200  # of the sides of an image that is scaled into limits of pixels


def with_images(
    architecture: Architecture, count: object, size: object, config: str | os.PathLike[str]
) -> tuple[Architecture, tuple[str, ...]]:
    """The model with images of one size in its prompts, and what is assumed about them.

    Raises SizeupError if the model has no vision tower, or a number is out of range.
    """
    if size is None and not count:
        return architecture, ()
    if size is None or not count:
        raise SizeupError("give images and their size together: --images 1 --image-size 1024x768")
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MOST_IMAGES:
        raise SizeupError(f"images: give a number from 1 to {MOST_IMAGES:,}")
    width, height = parse_image_size(size)
    part = next((part for part in architecture.parts if part.tower is not None), None)
    if part is None or part.tower is None:
        raise SizeupError(f"{architecture.name} has no vision tower that is described: leave out the images")
    tower, source = _with_limits(part.tower, config)
    changed = replace(part, tower=tower, images=_images(tower, count, width, height))
    parts = tuple(changed if each is part else each for each in architecture.parts)
    return replace(architecture, parts=parts), (
        f"images are scaled {_limits_text(tower)} ({source})",
        *_ASSUMPTIONS,
    )


def parse_image_size(size: object) -> tuple[int, int]:
    """Width and height in pixels of a text such as 1024x768."""
    match = _SIZE.fullmatch(size) if isinstance(size, str) else None
    if match is None:
        raise SizeupError(
            "image size: give width x height in pixels, such as 1024x768, each at most 99,999;"
            f" not {quoted(size)}"
        )
    return int(match[1]), int(match[2])


def _images(tower: Tower, count: int, width: int, height: int) -> Images:
    rows, columns = patch_grid(tower, width, height)
    merged = tower.merge * tower.merge
    patches = tower.limits[0] * merged if tower.limit == "tokens" else rows * columns
    return Images(count, width, height, rows * columns // merged, patches)


def patch_grid(tower: Tower, width: int, height: int) -> tuple[int, int]:
    """Rows and columns of patches of an image, without padding to a fixed number."""
    rows, columns = _SCALES[tower.limit](tower, width, height)
    if not rows or not columns:
        raise SizeupError(f"--image-size {width}x{height}: the image is scaled to less than one token")
    return rows * tower.merge, columns * tower.merge


def _by_pixels(tower: Tower, width: int, height: int) -> tuple[int, int]:
    """Rows and columns of tokens: the nearest ones, or those that limits of pixels leave."""
    if max(width, height) > _MOST_RATIO * min(width, height):
        raise SizeupError(
            f"--image-size {width}x{height}: one side is more than {_MOST_RATIO} times the other"
        )
    least, most = tower.limits
    side = tower.patch_size * tower.merge
    rows, columns = round(height / side), round(width / side)
    pixels = rows * columns * side * side
    if pixels > most:
        scale = math.sqrt(height * width / most)
        rows, columns = (max(1, math.floor(length / scale / side)) for length in (height, width))
    elif pixels < least:
        scale = math.sqrt(least / (height * width))
        rows, columns = (math.ceil(length * scale / side) for length in (height, width))
    return rows, columns


def _by_patches(tower: Tower, width: int, height: int) -> tuple[int, int]:
    """Rows and columns of tokens of an image that is never scaled up, with padding to whole tokens."""
    patch, (most, most_along) = tower.patch_size, tower.limits
    longest = most_along * patch
    patches = max(1, height // patch) * max(1, width // patch)
    scale = min(1.0, math.sqrt(most / patches), longest / height, longest / width)
    scaled = (min(max(1, int(length * scale)), longest) for length in (height, width))
    rows, columns = (-(-length // (patch * tower.merge)) for length in scaled)
    return rows, columns


def _by_tokens(tower: Tower, width: int, height: int) -> tuple[int, int]:
    """Rows and columns of tokens: as many as the limit allows with the proportions of the image."""
    most, side = tower.limits[0], tower.patch_size * tower.merge
    scale = math.sqrt(most * side * side / (height * width))
    rows, columns = (math.floor(scale * length / side) for length in (height, width))
    if not rows and columns:
        return 1, min(width // height, most)
    if not columns and rows:
        return min(height // width, most), 1
    return rows, columns


_SCALES: Mapping[ImageLimit, Callable[[Tower, int, int], tuple[int, int]]] = {
    "pixels": _by_pixels,
    "patches": _by_patches,
    "tokens": _by_tokens,
}


def _limits_text(tower: Tower) -> str:
    first, second = tower.limits
    if tower.limit == "pixels":
        return f"to {first:,} to {second:,} pixels"
    if tower.limit == "patches":
        return f"down to at most {first:,} patches, {second:,} along a side, and padded to whole tokens"
    return f"to at most {first:,} tokens, and padded to their patches in the tower"


def _with_limits(tower: Tower, config: str | os.PathLike[str]) -> tuple[Tower, str]:
    """The tower with the limits of the image processor of its checkpoint, and their source."""
    settings = _processor(config)
    if settings is None:
        return tower, "published default: no preprocessor_config.json next to a config.json"
    if not settings.flag("do_resize", True):
        raise settings.unsupported("do_resize is false")
    same = {"patch_size": tower.patch_size, "merge_size": tower.merge, "pooling_kernel_size": tower.merge}
    for name, value in same.items():
        if settings.size(name, default=value) != value:
            raise settings.unsupported(f"{name} is not that of config.json, {value}")
    limits, name = _LIMITS[tower.limit](settings, *tower.limits), Path(settings.source).name
    if limits == tower.limits:
        return tower, f"published default, which {name} does not change"
    return replace(tower, limits=limits), name


def _processor(config: str | os.PathLike[str]) -> Settings | None:
    """The settings of the image processor next to a config.json; None without any."""
    path = Path(os.fspath(config).removeprefix("hf:"))
    if not is_folder(path):
        if path.name != "config.json":  # files next to it may belong to another checkpoint
            return None
        path = path.parent
    for name in ("preprocessor_config.json", "processor_config.json"):
        file = path / name
        if not exists(file):
            continue
        content = parse_json(file, str(file))
        if not isinstance(content, dict):
            raise CorruptModel(f"{file}: not an object")
        settings = Settings(content, str(file))
        nested = settings.nested("image_processor")
        if nested is not None or name == "preprocessor_config.json":
            return nested or settings
    return None


def _pixel_limits(settings: Settings, least: int, most: int) -> tuple[int, int]:
    size = settings.nested("size")
    if size is not None:
        least, most = size.size("shortest_edge", default=least), size.size("longest_edge", default=most)
    least, most = settings.size("min_pixels", default=least), settings.size("max_pixels", default=most)
    if least > most:
        raise settings.unsupported(f"images of at least {least:,} and at most {most:,} pixels")
    return least, most


def _patch_limits(settings: Settings, most: int, most_along: int) -> tuple[int, int]:
    settings = settings.nested("media_proc_cfg") or settings
    if "fixed_output_tokens" in settings:
        raise settings.unsupported("fixed_output_tokens is not supported")
    size = settings.nested("size")
    if size is not None:
        most_along = size.size("max_height", default=most_along)
    return (
        settings.size("in_patch_limit", "max_patches", default=most),
        settings.size("patch_limit_on_one_side", default=most_along),
    )


def _token_limits(settings: Settings, most: int, _: int) -> tuple[int, int]:
    return settings.size("max_soft_tokens", default=most), 0


_LIMITS: Mapping[ImageLimit, Callable[[Settings, int, int], tuple[int, int]]] = {
    "pixels": _pixel_limits,
    "patches": _patch_limits,
    "tokens": _token_limits,
}


def weight_macs(part: Part) -> dict[str, int]:
    """MACs of the images of a prompt with the weights of a tower, by precision of the weights."""
    images = part.images
    if images is None:
        return {}
    macs: dict[str, int] = {}
    for weight in part.weights:
        rows = images.count * (images.tokens if weight.role == "projector" else images.patches)
        if weight.macs:
            macs[weight.precision] = macs.get(weight.precision, 0) + rows * weight.macs
    return macs


def attention_macs(part: Part) -> int:
    """MACs of the images of a prompt without weights: attention within each image, and pooling."""
    tower, images = part.tower, part.images
    if tower is None or images is None:
        return 0
    pairs = images.patches * images.patches
    pooled = pairs // (tower.merge * tower.merge) * tower.pooled_width
    return images.count * (2 * pairs * tower.attention_width * tower.blocks + pooled)


def tower_macs(architecture: Architecture) -> int:
    """MACs of the images of a prompt in the vision tower."""
    return sum(sum(weight_macs(part).values()) + attention_macs(part) for part in architecture.parts)
