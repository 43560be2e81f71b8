"""Laptops and phones as targets: one sequence, in a runtime whose buffers are not known.

Weights and cache are counted; a model that exceeds the memory with them does not fit, and whether another one
fits is undetermined.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

from sizeup.errors import SizeupError, TargetError
from sizeup.serving.memory.engines import Engine, alias_note, local_engine
from sizeup.serving.models.architecture import Architecture, Weight
from sizeup.serving.models.modules import WEIGHT_PRECISIONS
from sizeup.targets.clusters import Cluster
from sizeup.targets.device import Memory
from sizeup.targets.quantities import SIZE, parse_limit

LOCAL_NOT_MODELED = (
    "loading and compiling the model",
    "clocks that fall under load or on battery",
    "speculative decoding and prefix caching",
    "images and audio in prompts; the weights of a vision tower are counted",
)
"""What the times of laptops and phones leave out."""
_COMPRESSED = {scheme.label for name in ("int8", "int4") if (scheme := WEIGHT_PRECISIONS[name]) is not None}
_RAM = replace(SIZE, limit="16GiB", needs_unit_below=math.inf)  # "16" may be meant as 16 GiB
_LEAST_RAM, _MOST_RAM = 1 << 20, 1 << 50


def parse_ram(ram: float | str | None) -> int | None:
    """Bytes of a laptop or phone, from a number or a text with its unit; raises SizeupError out of range."""
    size = parse_limit(ram, _RAM, "--ram")
    if size is not None and not _LEAST_RAM <= size <= _MOST_RAM:
        raise SizeupError("--ram: give the memory of the device, from 1MiB to 1024TiB, e.g. 16GiB")
    return None if size is None else int(size)


def with_ram(cluster: Cluster, engine: Engine, ram_bytes: int | None) -> Cluster:
    """The cluster with a laptop or phone of that memory; raises SizeupError for other devices."""
    if ram_bytes is None:
        return cluster
    if not engine.is_local:
        raise SizeupError(f"--ram is the memory of a laptop or phone; that of {cluster.device.name} is known")
    others = (memory for memory in cluster.device.memories if memory.role != "ram")
    memory = Memory("RAM", "ram", "--ram", ram_bytes)
    return replace(cluster, device=replace(cluster.device, memories=(memory, *others)))


def check_local(cluster: Cluster, engine: Engine, options: Mapping[str, object]) -> None:
    """Raise TargetError unless a runtime of laptops and phones runs on the device, and its memory is known.

    Raise SizeupError if one of the options, which are of servers, is not None.
    """
    if not engine.is_local:
        return
    device = cluster.device
    option = next((name for name, value in options.items() if value is not None), None)
    if option is not None:
        raise SizeupError(f"{option} is not supported on {device.name}: it is of servers with GPUs")
    if engine.name not in device.runtimes:
        known = local_engine(device)
        use = f"; use -d {device.name}/{known}" if known else ""
        raise TargetError(f"{engine.title} does not run on {device.name}{use}")
    if cluster.devices > 1:
        raise TargetError(f"{engine.title} runs on one device: use -d {device.name}/{engine.name}")
    if cluster.memory_bytes is None:
        raise TargetError(
            f"the memory of {device.name} depends on the computer or phone; give it, e.g. --ram 16GiB"
        )


def stored_locally(architecture: Architecture) -> Architecture:
    """The architecture as runtimes of laptops and phones store it.

    Next to compressed layers, embedding and head have 8 bits, as NNCF compresses them by default:
    https://github.com/openvinotoolkit/nncf/blob/develop/docs/compression_algorithms/CompressWeights.md
    """
    if not any(weight.precision in _COMPRESSED for layer in architecture.layers for weight in layer.weights):
        return architecture
    embedding, head = (
        tuple(_in_8_bits(weight) for weight in part) for part in (architecture.embedding, architecture.head)
    )
    return replace(architecture, embedding=embedding, head=head)


def _in_8_bits(weight: Weight) -> Weight:
    is_matrix = weight.role in ("embedding", "head")
    return replace(weight, stored_bytes=weight.parameters, precision="int8") if is_matrix else weight


def local_assumptions(architecture: Architecture, engine: Engine, kv: str | None, name: str) -> Iterator[str]:
    """What is assumed about weights, cache and memory, and about the name of the runtime."""
    yield from alias_note(name, engine)
    yield "memory: what the runtime, the system and other programs take is not known"
    if any(weight.precision == "int8" for weight in architecture.embedding):
        yield "weights: embedding and head in 8 bits"
    if kv is None:
        yield f"key-value cache: {engine.kv or 'the dtype of the checkpoint'}"
