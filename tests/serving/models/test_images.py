"""Images in prompts: tokens and MACs by hand, and against the processors and towers of transformers."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from published_configs import CONFIGS
from sizeup.errors import SizeupError
from sizeup.serving.models.architecture import Architecture, Images, Tower
from sizeup.serving.models.images import patch_grid, tower_macs, with_images
from sizeup.serving.models.reader import architecture_of

QWEN = CONFIGS["Qwen3-VL-8B"]
_TEXT = {
    "vocab_size": 96, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 1,
    "num_attention_heads": 8, "num_key_value_heads": 4, "dtype": "bfloat16",
}  # fmt: skip
KIMI: dict[str, Any] = {
    "model_type": "kimi_k25",
    "text_config": {
        **_TEXT, "q_lora_rank": 32, "kv_lora_rank": 16, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8,
        "v_head_dim": 16, "moe_intermediate_size": 32, "n_routed_experts": 8, "num_experts_per_tok": 2,
        "n_shared_experts": 1, "first_k_dense_replace": 1,
    },
    "vision_config": {
        "vt_hidden_size": 64, "vt_num_hidden_layers": 2, "vt_intermediate_size": 96, "patch_size": 14,
        "vt_num_attention_heads": 4, "init_pos_emb_height": 8, "init_pos_emb_width": 8,
    },
}  # fmt: skip
GEMMA: dict[str, Any] = {
    "model_type": "gemma4",
    "text_config": {**_TEXT, "head_dim": 8, "sliding_window": 16, "layer_types": ["full_attention"]},
    "vision_config": {
        "hidden_size": 64, "num_hidden_layers": 2, "intermediate_size": 96, "num_attention_heads": 4,
        "head_dim": 8, "patch_size": 16, "pooling_kernel_size": 3, "position_embedding_size": 128,
    },
}  # fmt: skip
SMALL_QWEN: dict[str, Any] = {
    "model_type": "qwen3_vl",
    "text_config": _TEXT,
    "vision_config": {
        "depth": 3, "hidden_size": 64, "intermediate_size": 96, "num_heads": 4, "patch_size": 16,
        "temporal_patch_size": 2, "spatial_merge_size": 2, "num_position_embeddings": 64,
        "out_hidden_size": 64, "deepstack_visual_indexes": [1],
    },
}  # fmt: skip


def read(content: dict[str, Any]) -> Architecture:
    return architecture_of(content, "model.json")


def images_of(
    content: dict[str, Any], size: str, config: str | Path = "model.json", count: int = 1
) -> Images:
    images = with_images(read(content), count, size, config)[0].images
    assert images is not None
    return images


@pytest.mark.parametrize(
    ("content", "size", "tokens", "patches"),
    [
        (QWEN, "1024x768", 768, 3072),  # 32 x 24 tokens of 32 pixels
        (QWEN, "32x32", 64, 256),  # scaled up to 65,536 pixels: 8 x 8 tokens
        (QWEN, "4096x4096", 16384, 65536),  # the largest
        (
            QWEN,
            "8192x4096",
            16290,
            65160,
        ),  # 16,777,216 pixels at 2 : 1 are 5,792.6 x 2,896.3: 181 x 90 tokens
        (KIMI, "1024x768", 1036, 4144),  # 37 x 28 tokens of 28 pixels, padded from 36.57 x 27.4
        (KIMI, "10x10", 1, 4),
        (GEMMA, "1024x768", 266, 2520),  # 645,120 pixels at 4 : 3 are 927.5 x 695.6: 19 x 14 tokens of 48
        (GEMMA, "16x16", 256, 2520),  # scaled up to 803 pixels: 16 x 16 tokens
        (GEMMA, "5000x10", 280, 2520),  # one row, at most 280 tokens
    ],
)
def test_tokens_of_an_image_by_hand(content: dict[str, Any], size: str, tokens: int, patches: int) -> None:
    images = images_of(content, size)
    assert (images.tokens, images.patches) == (tokens, patches)


def test_macs_of_a_tower_by_hand() -> None:
    block = 4 * 1152 * 1152 + 2 * 1152 * 4304
    per_patch = 3 * 2 * 16 * 16 * 1152 + 27 * block
    merger = 4608 * 4608 + 4608 * 4096  # one, and three of DeepStack
    attention = 27 * 2 * 3072 * 3072 * 1152
    expected = 2 * (3072 * per_patch + 768 * 4 * merger + attention)
    assert (
        tower_macs(with_images(read(QWEN), 2, "1024x768", "model.json")[0]) == expected == 3_957_048_999_936
    )


@pytest.mark.parametrize(
    ("count", "size", "message"),
    [
        (0, "64x64", "give images and their size together"),
        (10_001, "64x64", "images: give a number from 1 to 10,000"),
        (True, "64x64", "images: give a number"),
        (1, "64", "give width x height in pixels, such as 1024x768, each at most 99,999; not '64'"),
        (1, "0x64", "give width x height"),
        (1, "100000x64", "give width x height"),
        (1, (64, 64), "give width x height"),
        (1, "9999x9", "one side is more than 200 times the other"),
    ],
)
def test_images_that_cannot_be_counted_are_refused(count: Any, size: Any, message: str) -> None:
    with pytest.raises(SizeupError, match=message):
        with_images(read(QWEN), count, size, "model.json")


def test_a_model_without_a_tower_refuses_images() -> None:
    with pytest.raises(SizeupError, match=r"Llama-3\.1-8B has no vision tower"):
        with_images(architecture_of(CONFIGS["Llama-3.1-8B"], "Llama-3.1-8B.json"), 1, "64x64", "model.json")


@pytest.mark.parametrize(
    ("content", "file", "settings", "tokens"),
    [
        (QWEN, "preprocessor_config.json", {"size": {"shortest_edge": 65536, "longest_edge": 262144}}, 234),
        (QWEN, "preprocessor_config.json", {"max_pixels": 262144}, 234),  # 591.2 x 443.4: 18 x 13
        (QWEN, "processor_config.json", {"image_processor": {"size": {"longest_edge": 262144}}}, 234),
        (KIMI, "preprocessor_config.json", {"media_proc_cfg": {"in_patch_limit": 1024}}, 266),
        (GEMMA, "processor_config.json", {"image_processor": {"max_soft_tokens": 70}}, 63),
    ],
)
def test_limits_next_to_a_config_json_count(
    content: dict[str, Any], file: str, settings: dict[str, Any], tokens: int, tmp_path: Path
) -> None:
    (tmp_path / file).write_text(json.dumps(settings), "utf-8")
    default = images_of(content, "1024x768").tokens
    assert images_of(content, "1024x768", tmp_path / "config.json").tokens == tokens < default
    assert images_of(content, "1024x768", tmp_path / "other.json").tokens == default


def test_limits_that_a_file_does_not_state_are_not_its_own(tmp_path: Path) -> None:
    file, config = tmp_path / "preprocessor_config.json", tmp_path / "config.json"
    sources = []
    for content in ({"image_mean": [0.5]}, {"max_pixels": 262144}):
        file.write_text(json.dumps(content), "utf-8")
        sources.append(with_images(read(QWEN), 1, "64x64", config)[1][0].partition(" (")[2])
    assert sources == [
        "published default, which preprocessor_config.json does not change)",
        "preprocessor_config.json)",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "[]", "{", '{"size": 5}', '{"size": {"longest_edge": -1}}', '{"size": {"longest_edge": 0}}',
        '{"size": {"longest_edge": 1e99}}', '{"max_pixels": "many"}', '{"do_resize": false}',
        '{"max_pixels": 1}', '{"patch_size": 99}', '{"image_processor": []}',
        '{"image_processor": {"merge_size": true}}',
    ],
)  # fmt: skip
def test_invalid_limits_are_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "preprocessor_config.json").write_text(text, "utf-8")
    with pytest.raises(SizeupError, match=r"preprocessor_config\.json: "):
        with_images(read(QWEN), 1, "64x64", tmp_path)


def _module(model: str, kind: str) -> Any:
    """A module of transformers, some of which import torchvision."""
    pytest.importorskip("torch")
    from sizeup.formats.torch.zoo import import_torchvision

    import_torchvision()
    return pytest.importorskip(f"transformers.models.{model}.{kind}_{model}")


_LIMITS = {"pixels": (65_536, 1_000_000), "patches": (1024, 40), "tokens": (70, 0)}


@pytest.mark.slow  # imports transformers
@pytest.mark.extras
@pytest.mark.parametrize("limit", _LIMITS)
def test_images_are_scaled_as_by_transformers(limit: Any) -> None:
    numbers = random.Random(0)
    for _ in range(500):
        width, height = (int(2 ** numbers.uniform(3, 13)) for _ in range(2))
        if max(width, height) > 200 * min(width, height):
            continue
        if limit == "pixels":
            tower = Tower(limit, _LIMITS[limit], 16, 2, 1, 1)
            scale = _module("qwen2_vl", "image_processing_pil").smart_resize
            scaled = scale(height, width, 32, *tower.limits)
        elif limit == "patches":
            tower = Tower(limit, _LIMITS[limit], 14, 2, 1, 1)
            scale = _module("kimi_k25", "image_processing").navit_resize
            scaled = scale(height, width, 14, 2, *tower.limits)[1]
        else:
            tower = Tower(limit, _LIMITS[limit], 16, 3, 1, 1)
            scale = _module("gemma4", "image_processing_pil").get_aspect_ratio_preserving_size
            scaled = scale(height, width, 16, 9 * tower.limits[0], 3)
        expected = tuple(length // tower.patch_size for length in scaled)
        assert patch_grid(tower, width, height) == expected, (width, height)


def _counted(module: Any, *inputs: Any) -> int:
    """MACs of a module by torch's counter, without those of rotary embeddings."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        module(*inputs)
    counts = counter.get_flop_counts()
    rotary = sum(
        sum(each.values()) for name, each in counts.items() if name.endswith(("rotary_emb", "rotary_pos_emb"))
    )
    return int(sum(counts["Global"].values()) - rotary) // 2


def _macs(content: dict[str, Any], size: str) -> int:
    return tower_macs(with_images(read(content), 1, size, "model.json")[0])


@pytest.mark.slow  # imports transformers
@pytest.mark.extras
def test_macs_of_qwen3_vision_equal_those_of_torch() -> None:
    torch = pytest.importorskip("torch")
    config = _module("qwen3_vl", "configuration").Qwen3VLVisionConfig(**SMALL_QWEN["vision_config"])
    config._attn_implementation = "eager"
    tower = _module("qwen3_vl", "modeling").Qwen3VLVisionModel(config)
    pixels = torch.zeros(16 * 24, 3 * 2 * 16 * 16)
    assert _counted(tower, pixels, torch.tensor([[1, 16, 24]])) == _macs(SMALL_QWEN, "384x256")


@pytest.mark.slow  # imports transformers
@pytest.mark.extras
def test_macs_of_kimi_vision_equal_those_of_torch() -> None:
    torch = pytest.importorskip("torch")
    config = _module("kimi_k25", "configuration").Kimi_K25VisionConfig(
        hidden_size=64, num_hidden_layers=2, intermediate_size=96, num_attention_heads=4, pos_emb_height=8,
        pos_emb_width=8,
    )  # fmt: skip
    config._attn_implementation = "eager"
    tower = _module("kimi_k25", "modeling").Kimi_K25VisionModel(config)
    counted = _counted(tower, torch.zeros(6 * 8, 3, 14, 14), torch.tensor([[1, 6, 8]]))
    projector = 12 * (256 * 256 + 256 * 64)  # 12 tokens of four patches
    assert counted + projector == _macs(KIMI, "112x84")


@pytest.mark.slow  # imports transformers
@pytest.mark.extras
def test_macs_of_gemma4_vision_equal_those_of_torch() -> None:
    torch = pytest.importorskip("torch")
    vision = {**GEMMA["vision_config"], "num_key_value_heads": 4}
    config = _module("gemma4", "configuration").Gemma4VisionConfig(**vision)
    config._attn_implementation = "eager"
    tower = _module("gemma4", "modeling").Gemma4VisionModel(config)
    rows, columns = 12, 18  # 4 x 6 tokens, of 30
    grid = torch.stack(torch.meshgrid(torch.arange(columns), torch.arange(rows), indexing="xy"), -1)
    positions = torch.full((1, 270, 2), -1)
    positions[0, : rows * columns] = grid.reshape(-1, 2)
    counted = _counted(tower, torch.zeros(1, 270, 3 * 16 * 16), positions)
    content = {**GEMMA, "vision_config": {**vision, "default_output_length": 30}}
    assert counted + 24 * 64 * 64 == _macs(content, "1024x768")  # with the projection of 24 tokens
