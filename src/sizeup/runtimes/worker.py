"""The process in which a runtime runs: `python -m sizeup.runtimes.worker RUNTIME MODEL FOLDER`."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from sizeup.runtimes.process import load_samples, save_samples


def main(runtime: str, model: str, folder: str) -> int:
    """Run the samples of a folder and leave the outputs, or what went wrong, beside them."""
    home = Path(folder)
    try:
        execute = importlib.import_module(f"sizeup.runtimes.{runtime}").execute
        save_samples(home / "outputs.npz", execute(model, load_samples(home / "inputs.npz")))
    # Whatever a runtime raises is the answer that the caller waits for.
    except Exception as error:
        (home / "error.txt").write_text(f"{type(error).__name__}: {error}", "utf-8")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
