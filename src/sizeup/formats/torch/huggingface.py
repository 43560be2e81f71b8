"""Hugging Face models from a configuration alone: no weights, nothing downloaded."""

from __future__ import annotations

import importlib
import inspect
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from sizeup.errors import CorruptModel, LoadError, MissingLibrary
from sizeup.formats.torch.eager import fake_mode
from sizeup.formats.torch.weightless import construct
from sizeup.formats.torch.zoo import Built, import_torchvision

_TOKENS = 128
_SECOND = 16_000  # samples of speech
_TWO_INPUTS = ("vilt", "bridgetower")  # text and image as well, though their configuration does not show it


def build_configuration(place: str, bind: Mapping[str, int]) -> Built:
    """The model that a config.json describes (a file, or a folder that holds one), without weights."""
    path = Path(place)
    path = path / "config.json" if path.is_dir() else path
    content = _read(path)
    transformers = _import_transformers()
    config = _configuration(transformers, content, path)
    if hasattr(config, "use_cache"):
        config.use_cache = False  # a cache would be an output, and is no part of a pass
    model_class = _class(transformers, content, config, path)
    mode = fake_mode()

    def make() -> torch.nn.Module:
        return _make(model_class, config)

    module = construct(make, mode, f"hf:{place}")
    name = path.resolve().parent.name if path.stem == "config" else path.stem
    return Built(module, name, None, _Inputs(config, module, bind).named(), mode, make)


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise LoadError(f"hf:{path}: cannot be read: {error.strerror}; give a local config.json") from error
    except ValueError as error:
        raise CorruptModel(f"hf:{path}: not JSON: {error}") from error
    if not isinstance(content, dict) or not isinstance(content.get("model_type"), str):
        raise CorruptModel(
            f"hf:{path}: a Hugging Face configuration names its model_type; this file does not"
        )
    return content


def _import_transformers() -> Any:
    import_torchvision()  # transformers imports it where it is installed, and fails where it does
    try:
        return importlib.import_module("transformers")
    except ModuleNotFoundError as error:
        raise MissingLibrary("hf:", "transformers") from error


def _configuration(transformers: Any, content: dict[str, Any], path: Path) -> Any:
    model_type = content["model_type"]
    mapping = transformers.CONFIG_MAPPING
    if model_type not in mapping:
        raise LoadError(
            f"hf:{path}: this transformers ({transformers.__version__}) does not know {model_type!r};"
            " models with code of their own are named as package.module:factory"
        )
    rest = {key: value for key, value in content.items() if key not in ("model_type", "auto_map")}
    try:
        return mapping[model_type](**rest)
    except Exception as error:
        raise CorruptModel(f"hf:{path}: not a {model_type} configuration: {error}") from error


def _class(transformers: Any, content: dict[str, Any], config: Any, path: Path) -> Any:
    for name in content.get("architectures") or []:
        found = getattr(transformers, name, None)
        if found is not None:
            return found
        raise LoadError(f"hf:{path}: this transformers has no {name}")
    for auto in (transformers.AutoModel, transformers.AutoModelForCausalLM):
        if type(config) in auto._model_mapping:
            found = auto._model_mapping[type(config)]
            return found[0] if isinstance(found, tuple | list) else found
    raise LoadError(
        f'hf:{path}: add "architectures": [CLASS] to say which {config.model_type} model is meant'
    )


def _make(model_class: Any, config: Any) -> torch.nn.Module:
    initialization = importlib.import_module("transformers.initialization")
    dtype = getattr(config, "dtype", None) or torch.float32
    with initialization.no_init_weights():
        module: torch.nn.Module = model_class._from_config(config, dtype=dtype)
    module.tie_weights()  # type: ignore[operator]
    return module


class _Inputs:
    """What a model of this configuration is usually run on, as shapes by name."""

    def __init__(self, config: Any, module: Any, bind: Mapping[str, int]) -> None:
        unknown = sorted(set(bind) - {"batch", "seq"})
        if unknown:
            raise LoadError(
                f"cannot bind {', '.join(unknown)}; a configuration has batch and seq, or give --input"
            )
        self.config = config
        self.module = module
        self.accepted = inspect.signature(module.forward).parameters
        self.batch = bind.get("batch", 1)
        self.tokens = bind.get("seq", _TOKENS)
        limit = self._setting("max_position_embeddings")
        if "seq" not in bind and isinstance(limit, int) and 0 < limit < _TOKENS:
            self.tokens = limit

    def named(self) -> dict[str, Any]:
        """Shapes by the names under which the model's forward takes them."""
        chosen = self._main()
        if self.config.model_type in _TWO_INPUTS or self._has_two_towers():
            chosen.update(self.beside(chosen))
        return chosen

    def beside(self, chosen: Mapping[str, Any]) -> dict[str, Any]:
        """Every further input that the model's forward takes and whose shape is known."""
        others = {name: make() for name, make in self._known().items() if name in self.accepted}
        return {name: shape for name, shape in others.items() if name not in chosen}

    def _main(self) -> dict[str, Any]:
        name = getattr(self.module, "main_input_name", "input_ids")
        make = self._known().get(name, self._tokens)
        chosen = {name: make()}
        if getattr(self.config, "is_encoder_decoder", False) and "decoder_input_ids" in self.accepted:
            chosen["decoder_input_ids"] = self._tokens()
        return chosen

    def _known(self) -> dict[str, Callable[[], Any]]:
        return {
            "input_ids": self._tokens,
            "pixel_values": self._pixel_values,
            "pixel_values_videos": self._pixel_values_videos,
            "input_features": self._input_features,
            "input_values": self._input_values,
        }

    def _tokens(self) -> tuple[tuple[int, int], str]:
        return (self.batch, self.tokens), "int64"

    def _has_two_towers(self) -> bool:
        """Whether text and another medium are compared, so that a pass needs both (CLIP and its kin)."""
        other = hasattr(self.config, "vision_config") or hasattr(self.config, "audio_config")
        mixes = hasattr(self.config, "image_token_id") or hasattr(self.config, "image_token_index")
        return hasattr(self.config, "text_config") and other and not mixes

    def _setting(self, *names: str) -> Any:
        for holder in (
            self.config,
            *(getattr(self.config, each, None) for each in ("text_config", "vision_config")),
        ):
            for name in names:
                found = getattr(holder, name, None)
                if found is not None:
                    return found
        return None

    def _pixel_values(self) -> tuple[int, ...]:
        holder = getattr(self.config, "vision_config", self.config)
        size = getattr(holder, "image_size", None) or getattr(self.config, "image_size", None) or 224
        sides = tuple(size) if isinstance(size, list | tuple) else (size, size)
        channels = getattr(holder, "num_channels", None) or getattr(self.config, "num_channels", None) or 3
        frames = getattr(self.config, "num_frames", None)
        if frames:
            return (self.batch, frames, channels, *sides)
        return (self.batch, channels, *sides)

    def _pixel_values_videos(self) -> tuple[int, ...]:
        frames = self._setting("frames_per_clip", "num_frames") or 16
        size = self._setting("crop_size", "image_size") or 224
        return (self.batch, frames, self._setting("in_chans", "num_channels") or 3, size, size)

    def _input_features(self) -> tuple[int, ...]:
        bins = self._setting("num_mel_bins", "input_feat_per_channel", "feature_projection_input_dim") or 80
        if self.config.model_type == "whisper":  # its convolutions halve the frames
            return (self.batch, bins, 2 * self.config.max_source_positions)
        if self.config.model_type == "clap":
            side = self.config.audio_config.spec_size
            return (self.batch, 1, side * side // bins, bins)
        return (self.batch, self.tokens, bins)

    def _input_values(self) -> tuple[int, ...]:
        if self.config.model_type == "audio-spectrogram-transformer":
            return (self.batch, self.config.max_length, self.config.num_mel_bins)
        channels = getattr(self.config, "audio_channels", None)
        return (self.batch, channels, _SECOND) if channels else (self.batch, _SECOND)
