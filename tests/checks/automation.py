"""A repository as CI sees it, and `sizeup` and `python` on the path as an installed wheel puts them there."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

SMALL, LARGE = "models/tflm_hello_int8.tflite", "models/mlperf_kws_int8.tflite"  # 0 and 2.66 million MACs
BUDGET = '[[budget]]\nmodels = "models/*.tflite"\nmacs = "1 M"\nparams = "100 k"\n'


def write_repository(folder: Path, shared: Path) -> Path:
    """Two models and a budget file that one of them exceeds."""
    (folder / "models").mkdir(parents=True)
    for name in (SMALL, LARGE):
        shutil.copy(shared / name, folder / name)
    (folder / "budgets.toml").write_text(BUDGET, "utf-8")
    return folder


def write_programs(folder: Path) -> Path:
    """A folder for the path with the programs that the Action and the hook call."""
    folder.mkdir()
    start = "import sys\nfrom sizeup.cli import main\nsys.exit(main())\n"
    (folder / "sizeup").write_text(f"#!{sys.executable}\n{start}", "utf-8")
    (folder / "python").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n', "utf-8")
    for name in ("sizeup", "python"):
        (folder / name).chmod(0o755)
    return folder


def run(command: list[str], folder: Path, programs: Path, **further: str) -> subprocess.CompletedProcess[str]:
    """A command in a folder, with these programs before all others."""
    environment = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", **further}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
