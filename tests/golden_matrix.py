"""What `check`, `analyze` and the verbs about a file say for twelve models on fifteen targets.

One file per model in `golden/matrix`: every command, what it prints, and the JSON that it writes as one line.
`make golden` records it again.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

from golden_outputs import make_models, rounded, run, shortened, without_variables

FOLDER = Path(__file__).parent / "golden" / "matrix"
FILES = {
    "wake_word": "pmw_okay_nabu",
    "lstm": "tflm_mnist_lstm_int8",
    "segmentation": "mp_selfie_segmentation",
    "vela": "tflm_person_detect_vela",
    "autoencoder": "mlperf_ad01_int8",
}
# A microcontroller of each library, NPUs, and boards, phones and servers of each runtime with rules.
_SMALL = ("stm32f746", "nrf52840", "esp32", "esp32-s3", "rp2040", "corstone-300", "max78000/ai8x")
_LARGE = (
    "rpi5/ort",
    "rpi5",
    "edgetpu",
    "hailo-8",
    "jetson-orin-nano",
    "rtx-4090/torch-eager",
    "h100",
    "apple-m2",
)
_TIMED = ("stm32f746", "esp32-s3", "corstone-300", "rpi5/ort", "rpi5", "rtx-4090/torch-eager")
_OF_FILES = (
    "explain MODEL 0",
    "plan MODEL",
    "optimize MODEL -o smaller.tflite --no-verify",
    "tradeoff MODEL -d rpi5/ort",
)
_TEXT = "hf:llama.json --input input_ids:1x16:int64"
# Model arguments -> targets of `check`, targets of `analyze`, and other commands.
MODELS: dict[str, tuple[str, tuple[str, ...], tuple[str, ...], tuple[str, ...]]] = {
    **{
        name: (f"{name}.tflite", (*_SMALL, *_LARGE), _TIMED, _OF_FILES)
        for name in ("keywords", "keywords_float", "person", *FILES)
    },
    "residual": ("residual.onnx --bind batch=1", (*_SMALL, *_LARGE), _TIMED, _OF_FILES),
    "unknown": ("unknown.onnx", (*_SMALL, *_LARGE), _TIMED, _OF_FILES),
    "resnet18": ("torchvision:resnet18", _LARGE, _TIMED[-2:], ()),
    "llama": (_TEXT, _LARGE, _TIMED[-2:], ()),
}


def make(folder: Path, shared: Path) -> None:
    """Write all models to a folder."""
    make_models(folder, shared)
    for name, file in FILES.items():
        (folder / f"{name}.tflite").write_bytes((shared / "models" / f"{file}.tflite").read_bytes())


def commands(name: str) -> list[str]:
    """The commands for a model."""
    model, checked, analyzed, others = MODELS[name]
    return [
        *(f"check {model} -d {target} --no-run" for target in checked),
        *(f"analyze {model} -d {target} --by kind" for target in analyzed),
        *(each.replace("MODEL", model).replace(".tflite", Path(model.split()[0]).suffix) for each in others),
    ]


def outputs(name: str, folder: Path) -> str:
    """What all commands for a model print and write."""
    return "\n".join(_output(command, folder) for command in commands(name))


def _output(command: str, folder: Path) -> str:
    written = folder / "written.json"
    is_written = not command.startswith(("explain", "optimize"))
    ended, printed = run([*shlex.split(command), *(["-o", str(written)] if is_written else [])], folder)
    text = f"$ sizeup {command}\n{printed}" + (f"exit code {ended}\n" if ended else "")
    if written.exists():
        document = _short(rounded(json.loads(written.read_text("utf-8"))))
        text += json.dumps(document, ensure_ascii=False, separators=(",", ":")) + "\n"
        written.unlink()
    return without_variables(text, folder)


def _short(document: Any) -> Any:
    """The document; rows of operators, tensors and layers are shortened."""
    return shortened(document) if isinstance(document, dict) and "grid" not in document else document
