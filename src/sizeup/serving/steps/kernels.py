"""Kernels that one step launches, and the dtypes of their arithmetic.

Counts are those of engines with fused kernels (vLLM, SGLang, TensorRT-LLM): queries, keys and values are one
matrix product, gate and up projections another, and a residual is added in the norm that follows. In decode,
every kernel has a floor of a few microseconds, which dominates the steps of small batches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from sizeup.serving.models.architecture import Architecture, Layer, Part, Weight

# Norm, projections, rotary embedding, cache update, attention, output projection; MLA has projections to and
# from the latent space, linear attention a convolution, gates and a gated norm.
_ATTENTION: Mapping[str, tuple[int, int]] = {
    "full": (6, 2), "window": (6, 2), "latent": (11, 4), "linear": (9, 2), "state_space": (7, 2),
    "none": (0, 0),
}  # fmt: skip
# Norm, gate and up, activation, down. Routed experts: norm, router, top k, permutation, two grouped products,
# activation, combination. The second number counts matrix products, whose inputs may have to be quantized.
_FEED_FORWARD: Mapping[str, tuple[int, int]] = {"dense": (4, 2), "shared_experts": (3, 2), "experts": (8, 2)}


def kernel_counts(architecture: Architecture) -> tuple[int, int]:
    """Kernels of a step without quantization of activations, and kernels that quantize activations."""
    kernels = quantizations = 0
    for layer, layers in layer_counts(architecture):
        for (count, products), weights in _modules(layer):
            kernels += layers * count
            if any(_is_quantized_at_run_time(weight.precision) for weight in weights):
                quantizations += layers * products
    return kernels, quantizations


def tower_kernels(part: Part) -> int:
    """Kernels of a vision tower: of its blocks, the patch embedding, and projectors with their norms."""
    blocks = 0 if part.tower is None else part.tower.blocks
    products = sum(weight.role == "projector" and weight.macs > 0 for weight in part.weights)
    return blocks * (_ATTENTION["full"][0] + _FEED_FORWARD["dense"][0]) + 1 + 2 * products


def layer_counts(architecture: Architecture) -> list[tuple[Layer, int]]:
    """Layers that are one object, and how many there are."""
    counts = Counter(map(id, architecture.layers))
    layers = {id(layer): layer for layer in architecture.layers}
    return [(layers[key], count) for key, count in counts.items()]


def _modules(layer: Layer) -> Iterable[tuple[tuple[int, int], list[Weight]]]:
    def of(role: str) -> list[Weight]:
        return [weight for weight in layer.weights if weight.role == role and weight.macs]

    yield _ATTENTION[layer.attention.kind], of("attention")
    for role, counts in _FEED_FORWARD.items():
        if of(role):
            yield counts, of(role)


def _is_quantized_at_run_time(precision: str) -> bool:
    """Whether an extra kernel quantizes inputs: with scales by block; one scale is fused instead."""
    return arithmetic_dtype(precision) in ("fp8_block", "fp4")


def arithmetic_dtype(precision: str) -> str:
    """The dtype in which weights of a precision are multiplied; weight-only formats are expanded to bf16.

    `fp8_block` is fp8 with a scale per block of the matrix, whose products are slower.
    """
    label = precision.casefold()
    if "nvfp4" in label:
        return "fp4"
    if "fp8" in label and not label.startswith("mx"):
        return "fp8_block" if "block" in label else "fp8"
    return "bf16"
