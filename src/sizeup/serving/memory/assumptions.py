"""What an estimate of a served language model assumes, and what it leaves out."""

from __future__ import annotations

from sizeup.serving.memory.engines import Engine
from sizeup.serving.memory.local import LOCAL_NOT_MODELED, local_assumptions
from sizeup.serving.models.architecture import Architecture
from sizeup.targets.clusters import Cluster

_NOT_MODELED = (
    "requests of different lengths, other than in a trace",
    "prefix caching, other than --shared-prefix in a simulation",
    "speculative decoding, other than --draft: MTP layers are not loaded",
    "LoRA adapters, offloading to the host, and fragmentation of the allocator",
    "images and audio in prompts; the weights of a vision tower are counted",
)


def assumptions(
    architecture: Architecture,
    engine: Engine,
    kv: str | None,
    machines: Cluster,
    is_default_layout: bool,
    name: str,
) -> tuple[str, ...]:
    """What is assumed of engine, memory, layout and cache; `name` is that of the engine in the target."""
    if engine.is_local:
        return (*local_assumptions(architecture, engine, kv, name), *architecture.caveats)
    lines = [
        f"{engine.title} {engine.version}: {engine.defaults}; capacity {engine.verification}",
        "buffers of the engine: intervals from start-up logs",
        "activations: from half to twice the widest layer",
        "TTFT: requests arrive when others end; the first ones of a benchmark, all sent at once, wait longer",
    ]
    device = machines.device
    if device.vendor != "NVIDIA":
        lines.append(f"buffers are those of NVIDIA GPUs; none are known for {device.title}")
    if machines.has_inline_ecc:
        lines.append(f"memory: ECC is on, which takes 1/16 of the memory of {device.name}")
    if is_default_layout and machines.devices > 1:
        kind = "tensor parallelism within a node, pipeline stages across nodes"
        lines.append(f"layout: {'--split-mode layer' if engine.name == 'llamacpp' else kind}")
    if machines.devices > 1:
        lines.append("transfer: bytes at data-sheet bandwidth, all stages one after another, without latency")
    if kv is None:
        stated = "as the checkpoint states" if architecture.kv_dtype else "the checkpoint's dtype"
        lines.append(f"key-value cache: {stated}")
    return (*lines, *architecture.caveats)


def not_modeled(architecture: Architecture, engine: Engine, has_draft: bool) -> tuple[str, ...]:
    """What times and memory leave out."""
    if engine.is_local:
        return LOCAL_NOT_MODELED
    texts = tuple(text for text in _NOT_MODELED if not has_draft or "MTP" not in text)
    if architecture.images is not None:
        last = "audio in prompts, images on the host, and activations of the vision tower"
    elif any(part.tower is not None for part in architecture.parts):
        last = "images in prompts, other than --images, and audio; the weights of a vision tower are counted"
    else:
        return texts
    return (*texts[:-1], last)
