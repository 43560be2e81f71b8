"""Makes the model registry that docs/querying.md queries: real models under short names, in two versions.

    python tools/registry.py FOLDER

Makes FOLDER/today and FOLDER/yesterday (results of sweeps), and FOLDER/tasks.csv. The models are read from
`shared/models` next to the project, or from $SIZEUP_SHARED/models. In the later sweep the keyword spotter is
the float model instead of the quantized one, as if released by mistake.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODELS = Path(os.environ.get("SIZEUP_SHARED", ROOT.parent / "shared")) / "models"
# Name: file, task.
REGISTRY = {
    "alexa": ("pmw_alexa", "wake word"),
    "okay-nabu": ("pmw_okay_nabu", "wake word"),
    "keywords": ("mlperf_kws_fp32", "keywords"),
    "micro-speech": ("tflm_micro_speech", "keywords"),
    "person-96": ("mlperf_vww96_int8", "person detection"),
    "person-detect": ("tflm_person_detect", "person detection"),
    "mcunet-vww": ("te_vww", "person detection"),
    "resnet8": ("mlperf_resnet8_int8", "images"),
    "mobilenet-v2": ("tflm_mobilenetv2_224", "images"),
    "anomaly": ("mlperf_ad01_int8", "anomalies"),
    "selfie": ("mp_selfie_segmentation", "images"),
    "hello": ("tflm_hello_int8", "a sine"),
}
YESTERDAY = {"keywords": "mlperf_kws_int8"}
SPEC = {
    "targets": ["stm32f746", "stm32h743", "nrf52840", "rpi5/litert", "pixel-8"],
    "precisions": ["stored", "int8"],
}


def make(folder: Path) -> None:
    """Sweeps both versions of the registry."""
    import sizeup

    for day, others in (("yesterday", YESTERDAY), ("today", {})):
        files = folder / f"{day}-files"
        files.mkdir()
        for name, (file, _) in REGISTRY.items():
            (files / f"{name}.tflite").symlink_to(MODELS / f"{others.get(name, file)}.tflite")
        spec = files / "registry.toml"
        spec.write_text(
            "".join(f"{key} = {value}\n" for key, value in {"models": ["*.tflite"], **SPEC}.items())
        )
        sizeup.sweep(spec, folder / day, workers=2)
    rows = "".join(f"{name}.tflite,{task}\n" for name, (_, task) in REGISTRY.items())
    (folder / "tasks.csv").write_text(f"model,task\n{rows}", "utf-8")


if __name__ == "__main__":
    make(Path(sys.argv[1]))
