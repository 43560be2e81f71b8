"""Architectures of two published models, written from their published sizes."""

from __future__ import annotations

from sizeup.serving.models.architecture import Architecture, Attention, Experts, Layer, Role, Weight


def _matrix(
    name: str,
    outputs: int,
    inputs: int,
    role: Role = "attention",
    ways: int = 0,
    fp8: bool = False,
    count: int = 1,
) -> Weight:
    """A matrix of bf16, or of fp8 with a scale of 4 bytes per block of 128 x 128."""
    scales = -(-outputs // 128) * -(-inputs // 128)
    stored = outputs * inputs + 4 * scales if fp8 else 2 * outputs * inputs
    return Weight(name, role, count * outputs * inputs, count * stored, "fp8" if fp8 else "bf16", ways)


def _experts(role: Role, count: int, width: int, hidden: int) -> tuple[Weight, ...]:
    return (
        _matrix("gate_proj", width, hidden, role, fp8=True, count=count),
        _matrix("up_proj", width, hidden, role, fp8=True, count=count),
        _matrix("down_proj", hidden, width, role, fp8=True, count=count),
    )


def _norm(size: int) -> Weight:
    return Weight("norm", "norm", size, 2 * size, ways=1)


def llama_405b() -> Architecture:
    """Llama-3.1-405B: 126 layers of 16,384, 128 heads of 128, 8 key-value heads."""
    d, wide = 16384, 53248
    layer = Layer(
        Attention("full", 128, 8, cache_elements=2 * 8 * 128),
        (
            _matrix("q_proj", d, d),
            _matrix("k_proj", 1024, d, ways=8),
            _matrix("v_proj", 1024, d, ways=8),
            _matrix("o_proj", d, d),
            _matrix("gate_proj", wide, d, "dense"),
            _matrix("up_proj", wide, d, "dense"),
            _matrix("down_proj", d, wide, "dense"),
            _norm(2 * d),
        ),
    )
    embedding = _matrix("embed_tokens", 128256, d, "embedding")
    head = (_norm(d), _matrix("lm_head", 128256, d, "head"))
    return Architecture("llama-405b", "llama", d, 128256, (embedding,), (layer,) * 126, head)


def deepseek_v3() -> Architecture:
    """DeepSeek-V3 in fp8: 61 layers of 7,168, latent attention of 128 heads, 8 of 256 experts."""
    d, moe, dense = 7168, 2048, 18432
    attention = Attention("latent", 128, 1, cache_elements=512 + 64)
    projections = (
        _matrix("q_a_proj", 1536, d, ways=1, fp8=True),
        _matrix("q_b_proj", 128 * 192, 1536, fp8=True),
        _matrix("kv_a_proj_with_mqa", 576, d, ways=1, fp8=True),
        _matrix("kv_b_proj", 128 * 256, 512, fp8=True),
        _matrix("o_proj", d, 128 * 128, fp8=True),
        _norm(2 * d + 1536 + 512),
    )
    feed_forward = (
        _matrix("gate_proj", dense, d, "dense", fp8=True),
        _matrix("up_proj", dense, d, "dense", fp8=True),
        _matrix("down_proj", d, dense, "dense", fp8=True),
    )
    mixture = (
        _matrix("gate", 256, d, "router", ways=1),
        *_experts("experts", 256, moe, d),
        *_experts("shared_experts", 1, moe, d),
    )
    first = Layer(attention, (*projections, *feed_forward))
    other = Layer(attention, (*projections, *mixture), Experts(256, 8, 1))
    embedding = _matrix("embed_tokens", 129280, d, "embedding")
    head = (_norm(d), _matrix("lm_head", 129280, d, "head"))
    layers = (first,) * 3 + (other,) * 58
    return Architecture("deepseek-v3", "deepseek_v3", d, 129280, (embedding,), layers, head)
