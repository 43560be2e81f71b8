"""Families of timm and architectures of transformers: all operators known, MACs as torch's own counter says.

The second opinion is torch.utils.flop_counter, which shares no code with sizeup. It sees nothing of
fused attention on a CPU, so attention is computed by its parts there, and nothing of grouped
products, so mixtures of experts are not among the models compared.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

import sizeup
from sizeup.formats.torch.eager import fake_mode
from sizeup.formats.torch.huggingface import build_configuration
from sizeup.formats.torch.inputs import prepare
from sizeup.formats.torch.sources import build
from sizeup.formats.torch.zoo import Built


def _words(text: str) -> list[str]:
    return text.split()


# One model of each family (timm's module), the smallest that shows what the family does.
TIMM = _words(
    """
    beit_base_patch16_224 botnet26t_256 gernet_s cait_xxs24_224 coat_lite_tiny convit_tiny convmixer_768_32
    convnext_atto cpubone_nano crossvit_tiny_240 csatv2 cs3darknet_focus_s davit_tiny deit_tiny_patch16_224
    densenet121 dla34 dpn48b edgenext_xx_small efficientformer_l1 efficientformerv2_s0 tinynet_e
    efficientvim_m1 efficientvit_b0 efficientvit_m0 eva02_tiny_patch14_224 fasternet_t0 fastvit_t8
    focalnet_tiny_lrf gcvit_xxtiny ghostnet_050 hardcorenas_a hgnet_tiny hiera_tiny_224 sam2_hiera_tiny
    hrnet_w18_small iformer_t inception_next_atto inception_resnet_v2 inception_v3 inception_v4
    lcnetv2_small levit_128s lowformer_b0 mambaout_femto maxvit_rmlp_pico_rw_256 caformer_s18 gmlp_ti16_224
    mobilenetv3_small_050 mobilevit_xxs mvitv2_tiny naflexvit_base_patch16_siglip nasnetalarge nest_tiny
    nextvit_small nf_seresnet26 pit_ti_224 pnasnet5large pvt_v2_b0 qwen3_vit_88m rdnet_tiny regnetx_002
    repghostnet_050 repvit_m0_9 res2net50_14w_8s resnest14d resnet18 resnetv2_18 rexnet_100 selecsls42
    legacy_senet154 sequencer2d_s shvit_s1 skresnet18 starnet_s1 swiftformer_xs swin_s3_tiny_224
    swinv2_tiny_window8_256 swinv2_cr_tiny_224 tiny_vit_5m_224 tnt_s_legacy_patch16_224 tresnet_m
    twins_pcpvt_small vgg11 visformer_tiny vit_tiny_patch16_224 vit_tiny_r_s16_p8_224
    vit_relpos_small_patch16_224 samvit_base_patch16 vitamin_small_224 volo_d1_224 ese_vovnet19b_slim
    legacy_xception xception41 xcit_nano_12_p16_224
    """
)

TRANSFORMERS = _words(
    """
    aimv2 albert altclip audio-spectrogram-transformer bart beit bert big_bird biogpt blip bloom canine clip
    clipseg codegen cohere convbert convnext convnextv2 cvt data2vec-audio deberta deberta-v2 deit dinov2
    dinov3_vit distilbert dpt electra ernie ernie4_5 falcon focalnet funnel gemma gemma2 gemma3_text git glm
    gpt2 gpt_bigcode gpt_neo gpt_neox gptj granite groupvit hiera hubert ibert layoutlm levit llama m2m_100
    marian megatron-bert mistral mobilebert mobilenet_v2 mobilevit mpnet mpt mt5 olmo opt owlvit pegasus phi
    phi3 pvt_v2 qwen2 qwen3 regnet roberta roformer segformer siglip smollm3 squeezebert stablelm starcoder2
    swin swinv2 t5 timesformer vit vivit wav2vec2 wavlm whisper xglm yolos
    """
)

# What stays unknown, and its operators: docs/counting.md lists them with their share.
PARTLY_KNOWN = {"fnet": {"aten._fft_c2c"}}

# Warnings of the model libraries about their own code.
pytestmark = pytest.mark.filterwarnings("ignore")


def _second_opinion(built: Built) -> int:
    """MACs by torch's own counter, on content-free tensors."""
    if any(isinstance(each, torch.nn.LSTM) for each in built.module.modules()):
        return _second_opinion_of_steps(built)
    mode = built.mode or fake_mode()
    inputs = (built.inputs or (), dict(built.kwargs))
    args, kwargs = prepare(inputs, torch.device("cpu"), torch.float32, mode)
    with mode, sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        built.module(*args, **kwargs)
    return int(counter.get_total_flops()) // 2


def _second_opinion_of_steps(built: Built) -> int:
    """The same on the meta device, where torch takes recurrent layers apart step by step."""
    assert built.real is not None
    with torch.device("meta"), torch.no_grad():
        module = built.real().eval()
        with FlopCounterMode(display=False) as counter:
            module(*(torch.empty(shape) for shape in built.inputs))
    return int(counter.get_total_flops()) // 2


@pytest.mark.parametrize("name", TIMM)
def test_timm_family_is_known_and_right(name: str) -> None:
    cost = sizeup.count(f"timm:{name}")
    assert not cost.reasons
    assert cost.total_macs == _second_opinion(build(f"timm:{name}", {}))


def _configuration(folder: Path, kind: str, **settings: Any) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps({"model_type": kind, **settings}))
    return path


@pytest.mark.parametrize("kind", TRANSFORMERS)
def test_transformers_architecture_is_known_and_right(kind: str, tmp_path: Path) -> None:
    path = _configuration(tmp_path, kind)
    cost = sizeup.count(f"hf:{path}")
    assert not cost.reasons
    assert cost.total_macs == _second_opinion(build_configuration(str(path), {}))


@pytest.mark.parametrize("kind", PARTLY_KNOWN)
def test_what_is_not_known_is_named(kind: str, tmp_path: Path) -> None:
    report = sizeup.analyze(f"hf:{_configuration(tmp_path, kind)}")
    assert report.coverage < 1
    assert {row.source for row in report.ops if not row.known} == PARTLY_KNOWN[kind]


def test_as_many_families_as_promised() -> None:
    assert len(TIMM) == len(set(TIMM)) >= 60
    assert len(TRANSFORMERS) == len(set(TRANSFORMERS)) >= 40
