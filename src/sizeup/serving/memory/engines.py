"""Serving engines: what each reserves on a GPU, and how it divides the rest into a key-value cache.

Sizes that depend on the driver, the version or the kernels are ranges, each with its source.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sizeup.errors import TargetError
from sizeup.targets import Device
from sizeup.units import quoted

GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Range:
    """A number of bytes that is not known exactly."""

    low: int
    expected: int
    high: int
    source: str = ""

    def __add__(self, other: Range) -> Range:
        return Range(self.low + other.low, self.expected + other.expected, self.high + other.high)


NOTHING = Range(0, 0, 0)


def _gib(low: float, expected: float, high: float, source: str) -> Range:
    return Range(int(low * GIB), int(expected * GIB), int(high * GIB), source)


CONTEXT = _gib(0.4, 0.5, 0.6, "CUDA context of one process: 0.5 GiB in start-up logs of vLLM")
COMMUNICATION = _gib(
    0.34, 0.36, 0.38, "NCCL and custom all-reduce buffers: start-up logs of vLLM, 2 to 8 GPUs"
)
GRAPHS = _gib(0.4, 0.8, 1.3, "CUDA graphs of the default batch sizes: start-up logs of vLLM")
# Shares of the memory of a data sheet, and what a small GPU may lose at most.
_DRIVER = (0.004, 0.010, 0.013)
_DRIVER_HIGH = GIB // 2
_DRIVER_SOURCE = (
    "driver: PyTorch reports 79.1 to 79.3 of 80 GiB (A100, H100), 139.8 of 141 GiB (H200), 23.7 of 24 GiB"
    " (RTX 3090: https://github.com/vllm-project/vllm/issues/16343), and, without ECC bits, 44.4 of 45 GiB"
    " (L40: https://github.com/QwenLM/Qwen3-VL/issues/2097) and 22.0 of 22.5 GiB (L4:"
    " https://github.com/ArcInstitute/evo2/issues/190) as total memory"
)
LLAMACPP_GRAPHS = Range(0, 0, 0, "graphs of llama.cpp hold no buffers")


@dataclass(frozen=True, slots=True)
class Engine:
    """A serving engine with its defaults."""

    name: str
    title: str
    version: str
    batched_tokens: int  # tokens of one step
    logits: int  # sequences or tokens whose logits one step computes at most
    block_tokens: int  # tokens of a block of the cache
    graphs: Range
    defaults: str
    verification: str  # of its capacity
    source: str
    kv: str | None = None  # precision of its cache; None: that of the checkpoint
    is_local: bool = False  # a runtime of laptops and phones: one sequence, and buffers that are not known

    def on(self, device: str, memory_bytes: int) -> Engine:
        """The engine with the defaults that its server has on a device."""
        # vLLM 0.24, `get_batch_defaults` in vllm/engine/arg_utils.py: large steps are slower on an A100.
        if self.name != "vllm" or (memory_bytes >= 70 * GIB and "a100" not in device.casefold()):
            return self
        return replace(self, batched_tokens=2048, logits=256, defaults=_vllm_defaults(2048, 256))


def _vllm_defaults(tokens: int, sequences: int) -> str:
    return (
        f"--gpu-memory-utilization 0.92, --max-num-batched-tokens {tokens}, --max-num-seqs as many as fit"
        f" (default {sequences})"
    )


ENGINES = {
    "vllm": Engine(
        "vllm", "vLLM", "0.24", 8192, 1024, 16, GRAPHS,
        _vllm_defaults(8192, 1024),
        "within 0.003 % of two logged servers of one model",
        "vllm/v1/core/kv_cache_utils.py, vllm/v1/kv_cache_interface.py, vllm/engine/arg_utils.py;"
        " utilization 0.90 before 0.22",
    ),
    "sglang": Engine(
        "sglang", "SGLang", "0.5", 8192, 512, 1, GRAPHS,
        "--mem-fraction-static from the reserved memory, --swa-full-tokens-ratio 0.8,"
        " --mamba-full-memory-ratio 0.9",
        "not compared with a server",
        "python/sglang/srt/server_args.py",
    ),
    "trtllm": Engine(
        "trtllm", "TensorRT-LLM", "1.0", 8192, 2048, 32, GRAPHS,
        "free_gpu_memory_fraction 0.9, tokens_per_block 32, max_num_tokens 8192",
        "not compared with a server",
        "tensorrt_llm/llmapi/llm_args.py",
    ),
    "llamacpp": Engine(
        "llamacpp", "llama.cpp", "b6000", 512, 512, 256, LLAMACPP_GRAPHS,
        "one cache for all sequences, allocated at start, --ubatch-size 512, --flash-attn, all layers on GPU",
        "not compared with a server",
        "src/llama-kv-cache-unified.cpp; logits of all tokens of a step: src/llama-context.cpp",
    ),
}  # fmt: skip
"""Serving engines by the name after the slash of a target."""


def _local(name: str, title: str, source: str, kv: str | None = None) -> Engine:
    return Engine(name, title, "not stated", 0, 0, 1, unknown_bytes(), "", "", source, kv, is_local=True)


def unknown_bytes(high: int = 0) -> Range:
    """A number of bytes of which at most an upper bound is known."""
    return Range(0, high, high, "not known")


LOCAL_ENGINES = {
    "openvino-gpu": _local(
        "openvino-gpu", "OpenVINO (built-in GPU)",
        "https://docs.openvino.ai/2025/about-openvino/performance-benchmarks/generative-ai-performance.html:"
        " inference on built-in GPUs, batch 1",
    ),
    "qnn": _local(
        "qnn", "Qualcomm AI Engine Direct",
        "https://github.com/qualcomm/ai-hub-models: 4-bit weights, 16-bit activations, 8-bit cache",
        "int8",
    ),
}  # fmt: skip
"""Runtimes of laptops and phones, by their names in the catalog."""
_SAME = {"openvino": "openvino-gpu"}  # language models were measured on the built-in GPU alone


def alias_note(name: str, engine: Engine) -> Iterator[str]:
    """Which unit is meant by the name of a runtime that other commands have for another unit."""
    if _SAME.get(name.strip().casefold()) == engine.name:
        yield (
            f"{name.strip().casefold()} is {engine.name}, {engine.title}; for other models it is the CPU,"
            " on which no language model was measured"
        )


def engine_of(name: str, device: Device | None = None) -> Engine:
    """The engine of that name; without one, the runtime of a laptop or phone, and vLLM on other devices.

    Without a device, laptops and phones are no targets.
    """
    key = name.strip().casefold()
    if not key and device is not None and not is_gpu(device):
        key = local_engine(device)
    known = ENGINES if device is None else {**ENGINES, **LOCAL_ENGINES}
    engine = known.get(_SAME.get(key, key) or "vllm")
    if engine is None:
        local = "" if device is None or is_gpu(device) else local_engine(device)
        use = f"use {local} on {device.name}" if device and local else f"use one of {', '.join(known)}"
        raise TargetError(f"serving engine {quoted(name)} is unknown; {use}")
    return engine


def server_engine(name: str, device: Device) -> Engine:
    """The engine of that name; raises TargetError for a runtime of laptops and phones."""
    engine = engine_of(name, device)
    if engine.is_local:
        raise TargetError(
            f"{device.name}/{engine.name} runs one sequence at a time: sizeup llm takes it,"
            " sweeps and grids do not"
        )
    return engine


def local_engine(device: Device) -> str:
    """The first runtime of laptops and phones that a device has; empty if it has none."""
    return next((name for name in LOCAL_ENGINES if name in device.runtimes), "")


def is_gpu(device: Device) -> bool:
    """Whether a device is a GPU or accelerator with its own memory, or a Jetson."""
    return device.device_class in ("gpu", "accelerator") or device.vendor == "NVIDIA"


def vllm_utilization(version: str = "0.24") -> float:
    """The share of a GPU's memory that vLLM uses by default."""
    major, minor = (int(part) for part in version.split(".")[:2])
    return 0.92 if (major, minor) >= (0, 22) else 0.90


def sglang_static_fraction(memory_bytes: int, tensor: int, pipeline: int, data: int) -> float:
    """The share of a GPU's memory that SGLang uses for weights and cache by default."""
    mib = memory_bytes / (1 << 20)
    is_large = mib > 160 * 1024
    graph_batch = 512 if is_large or tensor >= 4 else 256
    reserved = 512 + (16384 if is_large else 8192) * 1.5 + graph_batch * 2 + tensor * pipeline / 8 * 1024
    if data > 1:
        reserved += graph_batch * data * (3 if graph_batch <= 300 else 4.5)
    if mib > 60 * 1024:
        reserved = max(reserved, 10 * 1024)
    return round(max(mib - reserved, 0) / mib, 3)


def driver_memory(memory_bytes: int) -> Range:
    """Memory of a GPU that programs cannot allocate."""
    low, expected, high = (int(share * memory_bytes) for share in _DRIVER)
    return Range(low, expected, max(high, min(_DRIVER_HIGH, memory_bytes)), _DRIVER_SOURCE)
