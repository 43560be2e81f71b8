"""Diffusion transformers: parameters, bytes and FLOPs of diffusers' modules, and configurations to refuse."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import sizeup
from published_configs import DIFFUSION
from sizeup.errors import LoadError, SizeupError, TargetError
from sizeup.serving.models.diffusion import DiffusionTransformer, diffusion_of, read_diffusion

FLUX, SD3 = DIFFUSION["FLUX.1-dev"], DIFFUSION["SD-3.5-large"]
_H100_BF16, _H100_FP8 = 494.7e12, 989.45e12  # MACs per second of the data sheet, without sparsity
_SMALL = {"attention_head_dim": 16, "joint_attention_dim": 40, "pooled_projection_dim": 24}
_SMALL_FLUX = {
    **_SMALL, "num_attention_heads": 4, "num_layers": 2, "num_single_layers": 3, "in_channels": 12,
    "axes_dims_rope": (4, 6, 6),
}  # fmt: skip
_SMALL_SD3 = {
    **_SMALL, "num_attention_heads": 3, "num_layers": 4, "caption_projection_dim": 48, "in_channels": 4,
    "out_channels": 6, "pos_embed_max_size": 12, "sample_size": 16,
}  # fmt: skip


def read(content: dict[str, Any]) -> DiffusionTransformer:
    return diffusion_of(content, "model.json")


@pytest.mark.parametrize(
    ("class_name", "config"),
    [
        ("FluxTransformer2DModel", _SMALL_FLUX),
        ("FluxTransformer2DModel", {**_SMALL_FLUX, "guidance_embeds": True, "out_channels": 8}),
        ("FluxTransformer2DModel", {**_SMALL_FLUX, "num_single_layers": 0}),
        ("SD3Transformer2DModel", _SMALL_SD3),
        ("SD3Transformer2DModel", {**_SMALL_SD3, "num_layers": 1, "patch_size": 4}),
        ("SD3Transformer2DModel", {**_SMALL_SD3, "qk_norm": "rms_norm"}),
        ("SD3Transformer2DModel", {**_SMALL_SD3, "qk_norm": "rms_norm", "dual_attention_layers": (0, 2)}),
        ("SD3Transformer2DModel", {**_SMALL_SD3, "dual_attention_layers": (3,)}),
    ],
)
def test_parameters_bytes_and_flops_are_those_of_diffusers(class_name: str, config: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    from sizeup.formats.torch.zoo import import_torchvision

    import_torchvision()  # diffusers imports it, and its build may be for another torch
    diffusers = pytest.importorskip("diffusers", reason="diffusers is not installed", exc_type=ImportError)
    from torch.utils.flop_counter import FlopCounterMode

    rows, columns, text = 8, 6, 7
    with torch.device("meta"):
        module = getattr(diffusers, class_name)(**config).eval()
        step = {
            "encoder_hidden_states": torch.zeros(1, text, config["joint_attention_dim"]),
            "pooled_projections": torch.zeros(1, config["pooled_projection_dim"]),
            "timestep": torch.zeros(1),
        }
        if class_name == "FluxTransformer2DModel":
            step["hidden_states"] = torch.zeros(1, rows * columns, config["in_channels"])
            step["img_ids"], step["txt_ids"] = torch.zeros(rows * columns, 3), torch.zeros(text, 3)
            if config.get("guidance_embeds"):
                step["guidance"] = torch.zeros(1)
        else:
            patch = config.get("patch_size", 2)
            step["hidden_states"] = torch.zeros(1, config["in_channels"], rows * patch, columns * patch)
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            module(**step)
    model = read(json.loads(module.to_json_string()))
    assert model.parameters == sum(parameter.numel() for parameter in module.parameters())
    assert model.stored_bytes == sum(2 * tensor.numel() for tensor in module.state_dict().values())
    tokens = model.image_tokens(columns * model.token_pixels, rows * model.token_pixels)
    macs = sum(model.weight_macs(tokens, text).values()) + model.attention_macs(tokens, text)
    assert 2 * macs == counter.get_total_flops()


# FLUX.1-dev and -schnell, Stable Diffusion 3 medium, 3.5 medium and 3.5 large, as diffusers builds them.
@pytest.mark.parametrize(
    ("config", "parameters"),
    [
        (FLUX, 11_901_408_320),
        ({**FLUX, "guidance_embeds": False}, 11_891_178_560),
        (
            {
                **SD3, "num_layers": 24, "num_attention_heads": 24, "caption_projection_dim": 1536,
                "qk_norm": None,
            },
            2_028_328_000,
        ),
        (
            {
                **SD3, "num_layers": 24, "num_attention_heads": 24, "caption_projection_dim": 1536,
                "pos_embed_max_size": 384, "dual_attention_layers": list(range(13)),
            },
            2_243_171_520,
        ),
        (SD3, 8_056_627_520),
    ],
)  # fmt: skip
def test_published_models_have_their_parameters(config: dict[str, Any], parameters: int) -> None:
    assert read(config).parameters == parameters


def estimate(tmp_path: Path, content: dict[str, Any] = FLUX, target: str = "h100", **options: Any) -> Any:
    path = tmp_path / "model.json"
    path.write_text(json.dumps(content), "utf-8")
    return sizeup.llm(path, target=target, **{"steps": 28, **options})


def test_an_image_takes_its_steps_and_the_least_time_is_arithmetic_alone(tmp_path: Path) -> None:
    image = estimate(tmp_path, steps=4)
    assert (image.image_tokens, image.text_tokens, image.inferences) == (4096, 512, 1)
    # As many as torch counts for one inference of the module on 4,096 and 512 tokens.
    assert image.step_macs == 37_192_326_709_248
    assert image.image_macs == 4 * image.step_macs
    assert image.least_step_seconds == pytest.approx(image.step_macs / _H100_BF16)
    assert image.least_image_seconds == pytest.approx(4 * image.step_macs / _H100_BF16)
    guided = estimate(tmp_path, steps=4, guidance=True)
    assert guided.image_macs == 2 * image.image_macs
    assert guided.least_image_seconds == pytest.approx(2 * image.least_image_seconds)


def test_a_published_time_is_above_the_bound(tmp_path: Path) -> None:
    # https://pruna.ai/blog/comparison-flux-torch-compile-tensor-rt-pruna: 8.71 s
    image = estimate(tmp_path, target="l40s", image_size="512x512", steps=50)
    assert image.least_image_seconds < 8.71


def test_narrow_weights_of_blocks_have_the_best_rate_of_their_width(tmp_path: Path) -> None:
    image, fp8 = estimate(tmp_path), estimate(tmp_path, weights="fp8")
    width, blocks, pairs = 24 * 128, 19 + 38, 4608**2
    outside = (
        4096 * 2 * 64 * width + 512 * 4096 * width + (2 * (256 + width) + 768 + width + 2 * width) * width
    )
    wide = outside + blocks * 2 * pairs * width
    seconds = wide / _H100_BF16 + (image.step_macs - wide) / _H100_FP8
    assert fp8.least_step_seconds == pytest.approx(seconds)
    assert fp8.model.parameters == image.model.parameters
    assert 0.5 < fp8.model.stored_bytes / image.model.stored_bytes < 0.51


def test_a_dtype_that_is_stated_holds_unless_another_is_given() -> None:
    stated, count = {**FLUX, "torch_dtype": "float32"}, 11_901_408_320
    assert diffusion_of(stated, "model.json").stored_bytes == 4 * count
    for weights in ("bf16", "fp16"):
        assert diffusion_of(stated, "model.json", weights).stored_bytes == 2 * count


def test_only_weights_that_exceed_the_memory_decide_the_fit(tmp_path: Path) -> None:
    assert estimate(tmp_path, target="rtx-4090").fits == "undetermined"
    assert estimate(tmp_path, target="t4").fits == "no"
    assert estimate(tmp_path, target="t4", weights="int4").fits == "undetermined"


def test_a_device_without_a_peak_rate_has_no_time(tmp_path: Path) -> None:
    image = estimate(tmp_path, target="core-ultra-7-258v")
    assert (image.least_step_seconds, image.least_image_seconds) == (None, None)
    assert not any(text.startswith("time:") for text in image.assumptions)


def test_tokens_follow_the_size_of_the_image_and_the_class(tmp_path: Path) -> None:
    assert read(FLUX).image_tokens(1024, 768) == 64 * 48
    assert read({**SD3, "patch_size": 4}).image_tokens(1024, 768) == 32 * 24
    assert estimate(tmp_path, SD3).text_tokens == 77 + 256
    assert estimate(tmp_path, SD3, text_tokens=77).text_tokens == 77
    with pytest.raises(SizeupError, match="multiples of 16 pixels"):
        estimate(tmp_path, image_size="1000x1024")
    with pytest.raises(SizeupError, match="at most 3,072 pixels"):
        estimate(tmp_path, SD3, image_size="1024x3088")


def test_the_folder_of_a_pipeline_names_the_model(tmp_path: Path) -> None:
    folder = tmp_path / "FLUX.1-dev" / "transformer"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(FLUX), "utf-8")
    for path in (folder.parent, folder, folder / "config.json"):
        assert read_diffusion(path).name == "FLUX.1-dev"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"_class_name": "UNet2DConditionModel"}, "class 'UNet2DConditionModel' is not supported"),
        ({"model_type": "llama"}, "not a model of diffusers; sizeup llm reads FluxTransformer2DModel"),
        ({**FLUX, "experts": 8}, "'experts' is an unknown setting"),
        ({**FLUX, "patch_size": 2}, "patch_size is not 1"),
        ({**FLUX, "num_layers": 501}, "num_layers is 501; at most 500"),
        ({**FLUX, "num_layers": -1}, "num_layers is -1"),
        ({**FLUX, "in_channels": None}, "in_channels is missing"),
        ({**FLUX, "guidance_embeds": 1}, "guidance_embeds is 1, not true or false"),
        ({**FLUX, "attention_head_dim": 1 << 24}, "more than"),
        (
            {**FLUX, "quantization_config": {"quant_method": "bitsandbytes"}},
            "quantization_config of diffusers",
        ),
        ({**SD3, "num_layers": 0}, "num_layers is 0"),
        ({**SD3, "qk_norm": "layer_norm"}, "qk_norm 'layer_norm' is unknown"),
        (
            {**SD3, "caption_projection_dim": 4096},
            "caption_projection_dim is not the width",
        ),
        ({**SD3, "dual_attention_layers": [38]}, "dual_attention_layers has 38, not a layer from 0 to 37"),
        ({**SD3, "pos_embed_max_size": None}, "pos_embed_max_size is missing"),
        ({**SD3, "pos_embed_max_size": 1 << 24}, "more than"),
    ],
)
def test_what_is_unknown_or_out_of_range_is_refused_by_name(content: dict[str, Any], message: str) -> None:
    with pytest.raises(LoadError, match=re.escape(message)):
        read(content)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 0}, "steps: give a number from 1 to 10,000"),
        ({"steps": True}, "steps: give a number from 1 to 10,000"),
        ({"text_tokens": 1 << 40}, "text tokens: give a number from 1 to 1,000,000"),
        ({"image_size": "big"}, "image size: give width x height in pixels"),
        ({"guidance": 7.5}, "guidance is 7.5, not True or False"),
        ({"weights": "fp3"}, "weight precision 'fp3' is unknown"),
    ],
)
def test_options_out_of_range_are_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(SizeupError, match=re.escape(message)):
        estimate(tmp_path, **options)


@pytest.mark.parametrize("target", ["8xh100", "h100/vllm", "dgx-h100"])
def test_several_gpus_or_an_engine_are_refused(tmp_path: Path, target: str) -> None:
    with pytest.raises(TargetError, match=r"give one GPU and no engine, e\.g\. -d h100-sxm"):
        estimate(tmp_path, target=target)
