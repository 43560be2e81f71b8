"""Model files for the pages on the first five minutes."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from documentation.links import ROOT


def tflite(folder: Path) -> None:
    """Write the sample of `sizeup demo` as model.tflite."""
    shutil.copyfile(ROOT / "src" / "sizeup" / "cli" / "sample.tflite", folder / "model.tflite")


def onnx(folder: Path) -> None:
    """Run the Python of the page for inference engineers, which writes model.onnx."""
    page = (ROOT / "docs" / "start" / "inference.md").read_text("utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=True)


def registry(folder: Path) -> None:
    """Write two models and the files of the page for owners of a registry, and run its sweep.

    The first line of each file is its name.
    """
    tflite(folder)
    onnx(folder)
    page = (ROOT / "docs" / "start" / "registry.md").read_text("utf-8")
    for name, content in re.findall(r"```toml\n# (\S+)\n(.*?)```", page, re.DOTALL):
        (folder / name).write_text(content, "utf-8")
    sweep = [sys.executable, "-m", "sizeup", "sweep", "registry.toml", "-o", "results"]
    subprocess.run(sweep, cwd=folder, check=True, capture_output=True)


# What the commands of each page need.
FILES = {
    "docs/start/embedded.md": tflite,
    "docs/start/inference.md": onnx,
    "docs/start/registry.md": registry,
}
