"""What can be fuzzed, in one table: a mutator module and the modes in which its mutants are run."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Protocol


class Mutator(Protocol):
    """What a mutator module provides."""

    def seeds(self, folder: Path) -> Sequence[bytes | Path]:
        """Small valid inputs; `folder` is a scratch folder for seeds that must be written first."""
        ...

    def mutate(self, content: bytes, random: Random) -> bytes:
        """A changed copy of an input; the same random state gives the same copy."""
        ...


@dataclass(frozen=True)
class Target:
    """A mutator, the file suffix of its inputs, and per mode the function `module:name` to run.

    A mode may have a mutator of its own.

    A mode's function takes the path of the input. It returns plain data, whose numbers are checked, or raises
    a SizeupError; it raises AssertionError if a result contradicts another.
    """

    mutator: str
    suffix: str
    modes: Mapping[str, str] = field(hash=False)
    mutators: Mapping[str, str] = field(default_factory=dict, hash=False)

    def load(self, mode: str = "analyze") -> Mutator:
        """The mutator of a mode: a module, or an object of one (`module:name`)."""
        module, _, name = self.mutators.get(mode, self.mutator).partition(":")
        found: Any = importlib.import_module(module)
        mutator: Mutator = getattr(found, name) if name else found
        return mutator

    def runner(self, mode: str) -> Callable[[Path], Any]:
        """The function that runs one input."""
        module, _, name = self.modes[mode].partition(":")
        function: Callable[[Path], Any] = getattr(importlib.import_module(module), name)
        return function


_MODEL_MODES = {mode: f"fuzzing.model_modes:{mode}" for mode in ("analyze", "plan", "check", "optimize")}
TARGETS: Mapping[str, Target] = {
    "tflite": Target(
        "fuzzing.tflite_models",
        ".tflite",
        {**_MODEL_MODES, "gate": "fuzzing.gate:tflite"},
        {"gate": "fuzzing.tflite_cheats"},
    ),
    "onnx": Target(
        "fuzzing.onnx_models",
        ".onnx",
        {**_MODEL_MODES, "gate": "fuzzing.gate:onnx"},
        {"gate": "fuzzing.onnx_cheats"},
    ),
    "devices": Target("fuzzing.texts:DEVICES", ".toml", {"analyze": "fuzzing.text_modes:devices"}),
    "calibrations": Target("fuzzing.texts:CALIBRATIONS", ".toml", {"analyze": "fuzzing.text_modes:devices"}),
    "budgets": Target("fuzzing.texts:BUDGETS", ".toml", {"analyze": "fuzzing.text_modes:budgets"}),
    "sweeps": Target("fuzzing.texts:SWEEPS", ".toml", {"analyze": "fuzzing.text_modes:sweeps"}),
    "coefficients": Target(
        "fuzzing.texts:COEFFICIENTS", ".toml", {"analyze": "fuzzing.text_modes:coefficients"}
    ),
    "precision-maps": Target(
        "fuzzing.texts:PRECISION_MAPS", ".json", {"analyze": "fuzzing.text_modes:precisions"}
    ),
    "gpu-specs": Target("fuzzing.texts:GPU_SPECS", ".json", {"analyze": "fuzzing.text_modes:devices"}),
    "pt2": Target("fuzzing.pt2", ".pt2", {"analyze": "fuzzing.model_modes:analyze"}),
    "llm-configs": Target(
        "fuzzing.language_models:CONFIGURATIONS",
        ".json",
        {"analyze": "fuzzing.language_models:configuration"},
    ),
    "diffusion-configs": Target(
        "fuzzing.language_models:DIFFUSION_MODELS",
        ".json",
        {"analyze": "fuzzing.language_models:diffusion_model"},
    ),
    "llm-quantizations": Target(
        "fuzzing.language_models:QUANTIZATIONS", ".json", {"analyze": "fuzzing.language_models:quantization"}
    ),
    "safetensors": Target(
        "fuzzing.language_models:SAFETENSORS",
        ".safetensors",
        {"analyze": "fuzzing.language_models:safetensors"},
    ),
    "gguf": Target("fuzzing.language_models:GGUF", ".gguf", {"analyze": "fuzzing.language_models:gguf_file"}),
    "clusters": Target(
        "fuzzing.language_models:CLUSTERS", ".toml", {"analyze": "fuzzing.language_models:cluster"}
    ),
    "serving-benchmarks": Target(
        "fuzzing.language_models:BENCHMARKS", ".json", {"analyze": "fuzzing.language_models:benchmark"}
    ),
    **{
        name: Target(
            f"fuzzing.table_files:{name.upper().replace('-', '_')}",
            suffix,
            {"analyze": f"fuzzing.table_files:{name.replace('-', '_')}"},
        )
        for name, suffix in (
            *(("prices", ".csv"), ("requests", ".csv"), ("accuracies", ".csv"), ("times", ".csv")),
            *(("lists", ".txt"), ("profiles", ".txt"), ("caches", ".jsonl"), ("losses", ".json")),
            *(("baselines", ".json"), ("own-targets", ".toml")),
        )
    },
    "stores": Target("fuzzing.folders:STORES", ".json", {"analyze": "fuzzing.folders:stores"}),
    "repositories": Target(
        "fuzzing.folders:REPOSITORIES", ".json", {"analyze": "fuzzing.folders:repositories"}
    ),
    "external-data": Target(
        "fuzzing.folders:EXTERNAL_DATA", ".json", {"analyze": "fuzzing.folders:external_data"}
    ),
    "hf": Target("fuzzing.hf_configs:FILES", ".json", {"analyze": "fuzzing.model_modes:configuration"}),
}
COMPARED = ("tflite", "onnx", "pt2")  # with a real runtime, in the mode `differential`
GROUPS: Mapping[str, tuple[str, ...]] = {
    "all": tuple(TARGETS),
    "toml": (
        *("devices", "calibrations", "budgets", "sweeps"),
        *("coefficients", "precision-maps", "gpu-specs"),
    ),
    "tables": (
        *("prices", "requests", "accuracies", "times", "lists"),
        *("profiles", "caches", "losses", "baselines", "own-targets"),
    ),
    "folders": ("stores", "external-data", "repositories"),
    "llm": (
        *("llm-configs", "diffusion-configs", "llm-quantizations", "safetensors"),
        *("gguf", "clusters", "serving-benchmarks"),
    ),
}


@functools.cache
def seeds_of(target: Target, folder: Path, mode: str = "analyze") -> tuple[bytes, ...]:
    """The contents of all seeds of a target, in a fixed order."""
    seeds = target.load(mode).seeds(folder)
    return tuple(each if isinstance(each, bytes) else Path(each).read_bytes() for each in seeds)


def mutant(target: Target, folder: Path, seed: int, index: int, mode: str = "analyze") -> bytes:
    """The input with that number: the same for the same seed, whatever worker makes it."""
    random = Random((seed << 40) | index)
    return target.load(mode).mutate(random.choice(seeds_of(target, folder, mode)), random)
