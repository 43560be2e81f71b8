"""Hugging Face models from a configuration alone: no weights, nothing downloaded."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from sizeup import units
from sizeup.errors import CorruptModel, LoadError, MissingLibrary, SizeupError
from sizeup.formats.torch import configuration
from sizeup.formats.torch.eager import fake_mode
from sizeup.formats.torch.inputs import is_shape, plain_shape
from sizeup.formats.torch.weightless import construct, time_limit
from sizeup.formats.torch.zoo import Built, import_torchvision, offline

_TOKENS = 128
_SECOND = 16_000  # samples of speech
_MOST_INPUT = 1 << 40  # elements
_MOST_WORDS = 300
_MOST_OPS = 300_000  # Llama 3.1 405B runs 7,400; Zamba, one token after the other, 164,000
_TWO_INPUTS = ("vilt", "bridgetower")  # text and image as well, though their configuration does not show it


def build_configuration(place: str, bind: Mapping[str, int]) -> Built:
    """The model that a config.json describes (a file, or a folder that holds one), without weights."""
    path = Path(place)
    path = path / "config.json" if path.is_dir() else path
    where = f"hf:{path}"
    content = configuration.read(path)
    transformers = _import_transformers()
    clock = time_limit(where).start()
    with offline():
        config = _configuration(transformers, content, where)
        model_class = _class(transformers, content, config, where)
    mode = fake_mode()

    def make() -> torch.nn.Module:
        with offline():
            return _make(model_class, config)

    module = construct(make, mode, where, clock)
    most_ops = _MOST_OPS * max(1, bind.get("seq", 0) // _TOKENS)  # some run one token after the other
    name = path.resolve().parent.name if path.stem == "config" else path.stem
    inputs = _inputs(config, module, bind, where)
    return Built(module, name, None, inputs, mode, make, most_ops, clock.rest())


def _import_transformers() -> Any:
    import_torchvision()  # transformers imports it where it is installed, and fails where it does
    try:
        return importlib.import_module("transformers")
    except ModuleNotFoundError as error:
        raise MissingLibrary("hf:", "transformers") from error


def _configuration(transformers: Any, content: dict[str, Any], where: str) -> Any:
    model_type = content["model_type"]
    mapping = transformers.CONFIG_MAPPING
    if model_type not in mapping:
        raise LoadError(
            f"{where}: this transformers ({transformers.__version__}) does not know {model_type!r};"
            " models with code of their own are named as package.module:factory"
        )
    rest = {key: value for key, value in content.items() if key != "model_type"}
    try:
        config = mapping[model_type](**rest)
        if hasattr(config, "use_cache"):
            config.use_cache = False  # a cache would be an output, and is no part of a pass
    except Exception as error:
        if type(error).__name__ == "OfflineModeIsEnabled":
            raise LoadError(
                f"{where}: it would ask the Hugging Face Hub for a part of it, and sizeup makes no network"
                " requests; write that part's configuration into the file"
            ) from error
        raise CorruptModel(f"{where}: not a {model_type} configuration: {_reason(error)}") from error
    return config


def _reason(error: Exception) -> str:
    """The message of transformers on one line: it names a setting, and on the next line the problem."""
    words = " ".join(str(error).split()) or type(error).__name__
    return words if len(words) <= _MOST_WORDS else f"{words[:_MOST_WORDS]}..."


def _class(transformers: Any, content: dict[str, Any], config: Any, where: str) -> Any:
    """The model class that the file names, if transformers has it for this family, or the usual one."""
    for name in content.get("architectures") or []:
        found = _class_beside(transformers, config, name)
        if found is None:
            raise LoadError(f"{where}: this transformers has no {name} for {config.model_type} models")
        return found
    for auto in (transformers.AutoModel, transformers.AutoModelForCausalLM):
        if type(config) in auto._model_mapping:
            with contextlib.suppress(ValueError):  # the mapping names some classes that do not exist
                found = auto._model_mapping[type(config)]
                return found[0] if isinstance(found, tuple | list) else found
    raise LoadError(f'{where}: add "architectures": [CLASS] to say which {config.model_type} model is meant')


def _class_beside(transformers: Any, config: Any, name: str) -> Any:
    """A model of this name in the package of a configuration, whose models alone are made for it."""
    package = importlib.import_module(type(config).__module__.rpartition(".")[0])
    found: Any = getattr(package, name, None) if name in dir(package) else None
    is_model = inspect.isclass(found) and issubclass(found, transformers.PreTrainedModel)
    return found if is_model and isinstance(config, found.config_class or type(config)) else None


def _make(model_class: Any, config: Any) -> torch.nn.Module:
    initialization = importlib.import_module("transformers.initialization")
    dtype = getattr(config, "dtype", None) or torch.float32
    with initialization.no_init_weights():
        module: torch.nn.Module = model_class._from_config(config, dtype=dtype)
    module.tie_weights()  # type: ignore[operator]
    return module


def _inputs(config: Any, module: Any, bind: Mapping[str, int], where: str) -> dict[str, Any]:
    """What the model is run on; a configuration may say anything where these sizes are expected."""
    try:
        chosen = _Inputs(config, module, bind).named()
    except SizeupError:
        raise
    except Exception as error:
        raise CorruptModel(f"{where}: does not say what the model is run on: {_reason(error)}") from error
    for name, shape in chosen.items():
        sizes = plain_shape(shape)
        if not is_shape(shape) or min(sizes) < 1 or math.prod(sizes) > _MOST_INPUT:
            raise CorruptModel(f"{where}: cannot be run on {name} of shape {units.shape(sizes)}")
    return chosen


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
