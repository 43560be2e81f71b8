"""Parts apart from the decoder: vision towers with their projectors, and multi-token prediction layers."""

from __future__ import annotations

from dataclasses import replace

from sizeup.serving.models.architecture import Part, Role, Tower, Weight
from sizeup.serving.models.families import BuildLayer
from sizeup.serving.models.modules import Modules
from sizeup.serving.models.settings import Settings


def _norm(modules: Modules, name: str, size: int, *, bias: bool = True) -> list[Weight]:
    return modules.vector(name, size * (2 if bias else 1), "tower")


def _linear(
    modules: Modules, name: str, outputs: int, inputs: int, role: Role = "tower", *, bias: bool = True
) -> list[Weight]:
    """A matrix of a tower; engines replicate towers or divide them by request, so each GPU holds all."""
    return modules.linear(name, outputs, inputs, role, 1, bias=bias)


def _convolution(modules: Modules, width: int, inputs: int) -> list[Weight]:
    """The convolution of a patch, with a bias."""
    return modules.vector("patch_embed.proj", width * (inputs + 1), "tower", macs=width * inputs)


def _part(weights: list[Weight], tower: Tower) -> Part:
    return Part("vision tower", "vision", tuple(weights), tower=tower)


def qwen3_vision(settings: Settings, hidden: int, modules: Modules) -> Part:
    """The vision tower of Qwen3-VL and Qwen3.5."""
    width, depth = settings.size("hidden_size"), settings.count("depth")
    inner, merge = settings.size("intermediate_size"), settings.size("spatial_merge_size")
    channels = settings.size("in_channels", default=3) * settings.size("temporal_patch_size", default=2)
    patch = settings.size("patch_size")
    positions, output = settings.size("num_position_embeddings"), settings.size("out_hidden_size")
    deepstack = len(settings.items("deepstack_visual_indexes") or [])
    settings.skip("num_heads")
    settings.refuse_unread()
    visual = modules.within("model.visual")
    weights = _convolution(visual, width, channels * patch * patch)
    weights += visual.vector("pos_embed", positions * width, "tower")
    for index in range(depth):
        block = visual.within(f"blocks.{index}")
        weights += [*_norm(block, "norm1", width), *_norm(block, "norm2", width)]
        weights += _linear(block, "attn.qkv", 3 * width, width) + _linear(block, "attn.proj", width, width)
        weights += _linear(block, "mlp.linear_fc1", inner, width) + _linear(
            block, "mlp.linear_fc2", width, inner
        )
    merged = width * merge * merge
    weights += _norm(visual, "merger.norm", width)
    for name in ("merger", *(f"deepstack_merger_list.{index}" for index in range(deepstack))):
        merger = visual.within(name)
        weights += _linear(merger, "linear_fc1", merged, merged, "projector")
        weights += _linear(merger, "linear_fc2", output, merged, "projector")
        if name != "merger":
            weights += _norm(merger, "norm", merged)
    return _part(weights, Tower("pixels", (65_536, 16_777_216), patch, merge, depth, width))


def kimi_vision(settings: Settings, hidden: int, modules: Modules) -> Part:
    """The vision tower of Kimi-K2.5."""
    width, depth = settings.size("vt_hidden_size"), settings.count("vt_num_hidden_layers")
    inner, patch = settings.size("vt_intermediate_size"), settings.size("patch_size")
    rows, columns = settings.size("init_pos_emb_height"), settings.size("init_pos_emb_width")
    merge = settings.items("merge_kernel_size") or [2, 2]
    if settings.text("mm_projector_type", "patchmerger") != "patchmerger" or merge != [2, 2]:
        raise settings.unsupported("mm_projector_type or merge_kernel_size has an unknown value")
    settings.skip(
        "init_pos_emb_time", "merge_type", "mm_hidden_size", "pos_emb_type", "projector_ln_eps",
        "text_hidden_size", "video_attn_type", "vt_num_attention_heads",
    )  # fmt: skip
    settings.refuse_unread()
    tower = modules.within("vision_tower")
    weights = _convolution(tower, width, 3 * patch * patch)
    weights += tower.vector("patch_embed.pos_emb", rows * columns * width, "tower")
    for index in range(depth):
        block = tower.within(f"layers.{index}")
        weights += [*_norm(block, "norm1", width), *_norm(block, "norm2", width)]
        weights += _linear(block, "attn.qkv", 3 * width, width) + _linear(block, "attn.proj", width, width)
        weights += _linear(block, "mlp.fc1", inner, width) + _linear(block, "mlp.fc2", width, inner)
    weights += _norm(tower, "final_layernorm", width)
    projector = modules.within("mm_projector")
    weights += _norm(projector, "pre_norm", width)
    weights += _linear(projector, "in_proj", 4 * width, 4 * width, "projector")
    weights += _linear(projector, "out_proj", hidden, 4 * width, "projector")
    return _part(weights, Tower("patches", (16_384, 512), patch, 2, depth, width))


def gemma4_vision(settings: Settings, hidden: int, modules: Modules) -> Part:
    """The vision tower of Gemma 4."""
    width, depth = settings.size("hidden_size"), settings.count("num_hidden_layers")
    inner, patch, size = (
        settings.size("intermediate_size"),
        settings.size("patch_size"),
        settings.size("head_dim"),
    )
    heads, positions = settings.size("num_attention_heads"), settings.size("position_embedding_size")
    if settings.size("num_key_value_heads", default=heads) != heads or settings.flag("use_clipped_linears"):
        raise settings.unsupported("num_key_value_heads or use_clipped_linears has an unknown value")
    has_standard = settings.flag("standardize")
    merge, most = (
        settings.size("pooling_kernel_size", default=3),
        settings.size("default_output_length", default=280),
    )
    settings.skip("global_head_dim", "attention_bias")
    settings.refuse_unread()
    tower = modules.within("model.vision_tower")
    weights = tower.vector("patch_embedder.position_embedding_table", 2 * positions * width, "tower")
    weights += _linear(tower, "patch_embedder.input_proj", width, 3 * patch * patch, bias=False)
    for index in range(depth):
        block = tower.within(f"encoder.layers.{index}")
        for name in ("q_proj", "k_proj", "v_proj"):
            weights += _linear(block, f"self_attn.{name}", heads * size, width, bias=False)
        weights += _linear(block, "self_attn.o_proj", width, heads * size, bias=False)
        weights += _norm(block, "self_attn.q_norm", size, bias=False) + _norm(
            block, "self_attn.k_norm", size, bias=False
        )
        weights += _linear(block, "mlp.gate_proj", inner, width, bias=False)
        weights += _linear(block, "mlp.up_proj", inner, width, bias=False)
        weights += _linear(block, "mlp.down_proj", width, inner, bias=False)
        weights += block.vector("norms", 4 * width, "tower")
    if has_standard:
        weights += [replace(weight, role="tower") for weight in tower.buffer("standardization", 2 * width)]
    projector = modules.within("model.embed_vision")
    weights += _linear(projector, "embedding_projection", hidden, width, "projector", bias=False)
    return _part(weights, Tower("tokens", (most, 0), patch, merge, depth, heads * size, width))


def prediction_layers(
    build: BuildLayer, first: int, count: int, hidden: int, modules: Modules, path: str, projection: str
) -> Part:
    """Multi-token prediction layers: norms of both inputs, their projection, a decoder layer, a final norm.

    Embedding and head are those of the model.
    """
    weights: list[Weight] = []
    layers = []
    for index in range(count):
        own = modules.within(path.format(first + index))
        layers.append(build(first + index, own))
        weights += own.linear(projection, hidden, 2 * hidden, "mtp", 1)
        weights += own.vector("norms", 3 * hidden, "mtp")
    return Part("MTP layers", "mtp", tuple(weights), tuple(layers))
