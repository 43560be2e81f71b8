"""Correcting the times of a served language model by benchmarks of a server."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from sizeup.serving.times import calibrate
from sizeup.serving.times.calibrate import ServingCalibration, ServingCalibrationOptions


def calibrate_serving(
    files: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    model: str | os.PathLike[str],
    target: str,
    layout: str | None = None,
    weights: str | None = None,
    kv: str | None = None,
    out: str | os.PathLike[str] | None = None,
) -> ServingCalibration:
    """Compare benchmarks of a language model on a server with estimates, and store what was measured.

    `files` are results of `vllm bench serve`, `sglang.bench_serving` or `trtllm-bench`, `model` is the
    config.json, `target` a cluster and an engine such as "8xh100/vllm"; `layout`, `weights` and `kv` are
    those of the server, as for `llm`. Afterwards `llm` corrects its times for this model in this layout.
    """
    paths = [files] if isinstance(files, str | os.PathLike) else files
    options = ServingCalibrationOptions(
        tuple(os.fspath(path) for path in paths), os.fspath(model), target, layout, weights, kv,
        None if out is None else Path(out),
    )  # fmt: skip
    return calibrate.calibrate_serving(options)
