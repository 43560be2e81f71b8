"""The process in which a runtime runs: `python -m sizeup.runtimes.worker RUNTIME MODEL FOLDER`."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np

from sizeup.runtimes.process import Array


def main(runtime: str, model: str, folder: str) -> int:
    """Run the samples of a folder and leave the outputs, or what went wrong, beside them."""
    home = Path(folder)
    samples: dict[int, list[Array]] = {}
    with np.load(home / "inputs.npz", allow_pickle=False) as file:
        for key in file.files:
            samples.setdefault(int(key.partition(".")[0]), []).append(file[key])
    try:
        execute = importlib.import_module(f"sizeup.runtimes.{runtime}").execute
        outputs = execute(model, [samples[index] for index in sorted(samples)])
    # Whatever a runtime raises is the answer that the caller waits for.
    except Exception as error:
        (home / "error.txt").write_text(f"{type(error).__name__}: {error}", "utf-8")
        return 1
    arrays = {
        f"{index}.{place}": each for index, made in enumerate(outputs) for place, each in enumerate(made)
    }
    np.savez(home / "outputs.npz", allow_pickle=False, **arrays)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
