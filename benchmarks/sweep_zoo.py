"""A sweep over the zoos: every fifth model of timm, and transformers at their usual configurations.

    python benchmarks/sweep_zoo.py FOLDER [--engine ray] [--workers N]

It writes the configurations and the spec into FOLDER, sweeps into FOLDER/store (run again, it goes on), and
prints seconds and bytes for each model and each point, the figures of docs/scale.md.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

import numpy as np

import sizeup
from sizeup.formats.torch import zoo_names
from sizeup.sweeps import Progress, Store

EVERY = 5
# Text, images, sound and both; encoders, decoders, mixtures of experts, state spaces.
_TRANSFORMERS = """\
albert bart beit bert bert-generation big_bird biogpt bit blenderbot-small bloom camembert canine
clip_text_model clip_vision_model codegen cohere convbert convnext convnextv2 ctrl cvt data2vec-text
data2vec-vision deberta deberta-v2 deepseek_v2 deit dinov2 distilbert dpt efficientnet electra ernie esm
falcon flaubert fnet focalnet funnel gemma gemma2 gemma3_text glm glpn gpt2 gpt_bigcode gpt_neo gpt_neox
gptj granite granitemoe hiera hubert ibert ijepa imagegpt layoutlm levit lilt llama longformer mamba mamba2
mbart megatron-bert mistral mixtral mobilebert mobilenet_v1 mobilenet_v2 mobilevit mobilevitv2 modernbert
mpnet mpt mra nemotron nystromformer olmo olmo2 olmoe opt pegasus phi phi3 plbart poolformer pvt pvt_v2
qwen2 qwen2_moe qwen3 qwen3_moe regnet rembert resnet roberta roformer segformer siglip_text_model
siglip_vision_model squeezebert stablelm starcoder2 swiftformer swin swinv2 t5 unispeech vit vit_msn
wav2vec2 wavlm xglm xlm xlm-roberta xlnet yolos yoso"""
_TARGETS = """stm32h743 stm32f746 esp32-s3 nrf52840 apollo4 rpi4 rpi5 rk3588 jetson-orin-nano jetson-agx-orin
pixel-8 galaxy-s24 apple-a17-pro apple-m3 core-ultra-7-155h xeon-platinum-8480+ t4 rtx-4090 a100-80gb-sxm
h100-sxm"""
TRANSFORMERS, TARGETS = _TRANSFORMERS.split(), _TARGETS.split()


def write_spec(folder: Path) -> Path:
    """The spec, and a configuration for each transformer."""
    configurations = folder / "configurations"
    configurations.mkdir(parents=True, exist_ok=True)
    for name in TRANSFORMERS:  # without any setting, each is the model that its authors name first
        (configurations / f"{name}.json").write_text(json.dumps({"model_type": name}))
    (folder / "timm.txt").write_text("".join(f"timm:{name}\n" for name in zoo_names("timm")[::EVERY]))
    spec = folder / "sweep.toml"
    spec.write_text(
        'models = ["@timm.txt", "hf:configurations/*.json"]\n'
        f"targets = {json.dumps(TARGETS)}\n"
        'precisions = ["stored", "fp16", "int8"]\n'
        '[limits]\nseconds = 600\nmemory = "6 GiB"\n'
    )
    return spec


def tell(store: Store) -> None:
    """Seconds and bytes of every model and point."""
    root = Path(store.storage.address)
    lines = [json.loads(line) for path in sorted((root / "log").iterdir()) for line in path.open()]
    fresh = [line for line in lines if line["state"] == "done"]
    seconds = np.array([line["cpu_seconds"] or np.nan for line in fresh])
    rows = np.array([line["rows"] for line in fresh])
    size = np.array([Path(path).stat().st_size for path in map(store.storage.path, store.shards())])
    failed = sum(line["errors"] > 0 for line in fresh)
    print(f"{len(fresh)} models, {rows.sum():,} rows, {failed} models with errors")
    mean, middle, most = np.nanmean(seconds), np.nanmedian(seconds), np.nanmax(seconds)
    print(f"CPU seconds a model: mean {mean:.3f}, middle {middle:.3f}, most {most:.1f}")
    print(f"CPU seconds a point: mean {np.nansum(seconds) / rows[~np.isnan(seconds)].sum():.5f}")
    print(f"bytes a model: mean {size.mean():,.0f}; a point: {size.sum() / rows.sum():,.0f}")


def main() -> int:
    """Write the spec, run it, tell."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--engine", default="here", choices=["here", "ray"])
    arguments.add_argument("--workers", type=int)
    given = arguments.parse_args()
    os.environ["HF_HUB_OFFLINE"] = "1"
    spec = given.folder / "sweep.toml"
    spec = spec if spec.exists() else write_spec(given.folder)
    out = given.folder / "store"

    def show(progress: Progress) -> None:
        if progress.done % 10 == 0:
            print(progress, file=sys.stderr, flush=True)

    done = sizeup.sweep(spec, out, engine=given.engine, workers=given.workers, compact=True, progress=show)
    print(done)
    tell(Store(out))
    return 0


if __name__ == "__main__":
    sys.exit(main())
