"""Build Hugging Face models from a config.json, without weights or downloads."""

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
from sizeup.dtypes import precision_name
from sizeup.errors import CorruptModel, LoadError, MissingLibrary, SizeupError
from sizeup.files import is_folder
from sizeup.formats.quantization_config import QuantizationConfig
from sizeup.formats.torch import configuration
from sizeup.formats.torch.construction import construct, time_limit
from sizeup.formats.torch.eager import fake_mode
from sizeup.formats.torch.inputs import is_shape, plain_shape
from sizeup.formats.torch.operators import dtype_of
from sizeup.formats.torch.stored_weights import stored_weights
from sizeup.formats.torch.zoo import BuiltModel, import_torchvision, offline
from sizeup.formats.weight_schemes import StoredWeight

_TOKENS = 128
_SECOND = 16_000  # samples of 1 s of speech
_MOST_INPUT = 1 << 40  # elements
_MOST_LETTERS = 300  # of an error message
_MOST_OPS = 300_000  # Llama 3.1 405B runs 7,400; Zamba, token by token, 164,000
_ONE_FORWARD = "one forward of the input: a KV cache of earlier tokens is not counted"
_TWO_INPUTS = ("vilt", "bridgetower")  # need text and image, which their configuration does not show


def build_configuration(location: str, bind: Mapping[str, int]) -> BuiltModel:
    """Build the model of a config.json (a file, or a folder that contains one) without weights."""
    path = Path(location)
    path = path / "config.json" if is_folder(path) else path
    source = f"hf:{path}"
    content, quantization = configuration.read(path)
    transformers = _import_transformers()
    clock = time_limit(source).start()
    with offline():
        config = _configuration(transformers, content, source)
        model_class = _model_class(transformers, content, config, source)
    dtype, notes = _dtype(config, model_class)
    mode = fake_mode()

    def make() -> torch.nn.Module:
        with offline():
            return _instantiate(model_class, config, dtype)

    module = construct(make, mode, source, clock)
    most_ops = _MOST_OPS * max(1, bind.get("seq", 0) // _TOKENS)  # some run token by token
    name = path.resolve().parent.name if path.stem == "config" else path.stem
    inputs = _inputs(config, module, bind, source)
    stored: Mapping[str, StoredWeight] = {}
    if quantization is not None:
        stored, counts = stored_weights(module, quantization, clock)
        notes += _quantization_notes(quantization, counts, dtype)
    if hasattr(config, "use_cache"):
        notes.append(_ONE_FORWARD)
    is_upper_bound = quantization is not None and not quantization.is_known
    limit = clock.remaining()
    return BuiltModel(
        module, name, None, inputs, mode, make, most_ops, limit, stored, tuple(notes), is_upper_bound
    )  # fmt: skip


def _dtype(config: Any, model_class: Any) -> tuple[torch.dtype, list[str]]:
    """Return the dtype of unquantized weights, and a note if the configuration does not state it."""
    for part in (config, getattr(config, "text_config", None)):
        dtype = getattr(part, "dtype", None)
        if isinstance(dtype, torch.dtype):
            return dtype, []
    name = model_class.__name__
    generates = name.endswith("ForCausalLM") or (
        name.endswith("ForConditionalGeneration") and not getattr(config, "is_encoder_decoder", False)
    )
    if generates:
        return torch.bfloat16, [
            "the configuration states no dtype; bf16 is assumed, as for most language models"
        ]
    return torch.float32, ["the configuration states no dtype; fp32 is assumed"]


def _quantization_notes(
    quantization: QuantizationConfig, counts: Mapping[str, int], dtype: torch.dtype
) -> list[str]:
    precision = precision_name(dtype_of(dtype))
    if not quantization.is_known:
        reason = f"quantization method {quantization.method!r} is not known"
        causes = quantization.caveats or (reason,)
        return [f"{cause}: weights are counted at {precision}, an upper bound" for cause in causes]
    schemes = [f"{units.count(count)} parameters as {label}" for label, count in counts.items()]
    text = f"quantization {quantization.method}: {', '.join(schemes) or 'no parameters'}, others {precision}"
    return [f"{text}; dequantization is fused into the operators"]


def _import_transformers() -> Any:
    import_torchvision()  # transformers imports it if installed, and fails if that fails
    try:
        return importlib.import_module("transformers")
    except ModuleNotFoundError as error:
        raise MissingLibrary("hf:", "transformers") from error


def _configuration(transformers: Any, content: dict[str, Any], source: str) -> Any:
    model_type = content["model_type"]
    mapping = transformers.CONFIG_MAPPING
    if model_type not in mapping:
        raise LoadError(
            f"{source}: transformers {transformers.__version__} has no model type {model_type!r};"
            " load models with custom code as package.module:factory"
        )
    remaining = {key: value for key, value in content.items() if key != "model_type"}
    try:
        config = mapping[model_type](**remaining)
        if hasattr(config, "use_cache"):
            config.use_cache = False  # a cache would become an output
    except Exception as error:
        if type(error).__name__ == "OfflineModeIsEnabled":
            raise LoadError(
                f"{source}: a part of the configuration is on the Hugging Face Hub, and sizeup makes no"
                " network requests; put that part's configuration into the file"
            ) from error
        raise CorruptModel(f"{source}: not a {model_type} configuration: {_one_line(error)}") from error
    return config


def _one_line(error: Exception) -> str:
    """Return an error message on one line; transformers splits its messages over lines."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= _MOST_LETTERS else f"{text[:_MOST_LETTERS]}..."


def _model_class(transformers: Any, content: dict[str, Any], config: Any, source: str) -> Any:
    """Return the model class that the file names, or the default class of the model type."""
    for name in content.get("architectures") or []:
        model_class = _class_from_package(transformers, config, name)
        if model_class is None:
            raise LoadError(f"{source}: transformers has no class {name} for {config.model_type} models")
        return model_class
    for auto in (transformers.AutoModel, transformers.AutoModelForCausalLM):
        if type(config) in auto._model_mapping:
            with contextlib.suppress(ValueError):  # some mapped classes do not exist
                model_class = auto._model_mapping[type(config)]
                return model_class[0] if isinstance(model_class, tuple | list) else model_class
    raise LoadError(f'{source}: no default {config.model_type} model; add "architectures": [CLASS]')


def _class_from_package(transformers: Any, config: Any, name: str) -> Any:
    """Return the model class of this name in the configuration's package, or None."""
    package = importlib.import_module(type(config).__module__.rpartition(".")[0])
    model_class: Any = getattr(package, name, None) if name in dir(package) else None
    is_model = inspect.isclass(model_class) and issubclass(model_class, transformers.PreTrainedModel)
    return model_class if is_model and isinstance(config, model_class.config_class or type(config)) else None


def _instantiate(model_class: Any, config: Any, dtype: torch.dtype) -> torch.nn.Module:
    initialization = importlib.import_module("transformers.initialization")
    with initialization.no_init_weights():
        module: torch.nn.Module = model_class._from_config(config, dtype=dtype)
    module.tie_weights()  # type: ignore[operator]
    return module


def _inputs(config: Any, module: Any, bind: Mapping[str, int], source: str) -> dict[str, Any]:
    """Return the default input shapes; raises CorruptModel if the configuration has invalid sizes."""
    try:
        shapes = _Inputs(config, module, bind).named()
    except SizeupError:
        raise
    except Exception as error:
        raise CorruptModel(f"{source}: cannot derive the input shapes: {_one_line(error)}") from error
    for name, shape in shapes.items():
        sizes = plain_shape(shape)
        if not is_shape(shape) or min(sizes) < 1 or math.prod(sizes) > _MOST_INPUT:
            raise CorruptModel(f"{source}: invalid shape {units.shape(sizes)} for input {name}")
    return shapes


class _Inputs:
    """Default input shapes of a model by name."""

    def __init__(self, config: Any, module: Any, bind: Mapping[str, int]) -> None:
        unknown = sorted(set(bind) - {"batch", "seq"})
        if unknown:
            raise LoadError(f"cannot bind {', '.join(unknown)}; bind batch or seq, or pass --input")
        self.config = config
        self.module = module
        self.accepted = inspect.signature(module.forward).parameters
        self.batch = bind.get("batch", 1)
        self.tokens = bind.get("seq", _TOKENS)
        limit = self._setting("max_position_embeddings")
        if "seq" not in bind and isinstance(limit, int) and 0 < limit < _TOKENS:
            self.tokens = limit

    def named(self) -> dict[str, Any]:
        """Return shapes by the parameter names of the model's forward."""
        shapes = self._main()
        if self.config.model_type in _TWO_INPUTS or self._has_two_towers():
            shapes.update(self.other_inputs(shapes))
        return shapes

    def other_inputs(self, shapes: Mapping[str, Any]) -> dict[str, Any]:
        """Return the other inputs of the model's forward whose shape is known."""
        others = {name: make() for name, make in self._known().items() if name in self.accepted}
        return {name: shape for name, shape in others.items() if name not in shapes}

    def _main(self) -> dict[str, Any]:
        name = getattr(self.module, "main_input_name", "input_ids")
        make = self._known().get(name, self._tokens)
        shapes = {name: make()}
        if getattr(self.config, "is_encoder_decoder", False) and "decoder_input_ids" in self.accepted:
            shapes["decoder_input_ids"] = self._tokens()
        return shapes

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
        """Return whether an inference needs both text and image or audio, as in CLIP."""
        other = hasattr(self.config, "vision_config") or hasattr(self.config, "audio_config")
        mixes = hasattr(self.config, "image_token_id") or hasattr(self.config, "image_token_index")
        return hasattr(self.config, "text_config") and other and not mixes

    def _setting(self, *names: str) -> Any:
        for config in (
            self.config,
            *(getattr(self.config, part, None) for part in ("text_config", "vision_config")),
        ):
            for name in names:
                value = getattr(config, name, None)
                if value is not None:
                    return value
        return None

    def _pixel_values(self) -> tuple[int, ...]:
        vision = getattr(self.config, "vision_config", self.config)
        size = getattr(vision, "image_size", None) or getattr(self.config, "image_size", None) or 224
        sides = tuple(size) if isinstance(size, list | tuple) else (size, size)
        channels = getattr(vision, "num_channels", None) or getattr(self.config, "num_channels", None) or 3
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
        if self.config.model_type == "whisper":  # its convolutions halve the frame count
            return (self.batch, bins, 2 * self.config.max_source_positions)
        if self.config.model_type == "clap":
            side = self.config.audio_config.spec_size
            return (self.batch, 1, side * side // bins, bins)
        return (self.batch, self.tokens, bins)

    def _input_values(self) -> tuple[int, ...]:
        if self.config.model_type == "audio-spectrogram-transformer":
            return (self.batch, self.config.max_length, self.config.num_mel_bins)
        channels = 1 if self.config.model_type == "dac" else getattr(self.config, "audio_channels", None)
        return (self.batch, channels, _SECOND) if channels else (self.batch, _SECOND)
