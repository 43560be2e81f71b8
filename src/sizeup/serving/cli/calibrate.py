"""`sizeup calibrate --serving`: correct times of a served language model by benchmarks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer


def calibrate(
    files: list[Path],
    model: str | None,
    device: str | None,
    others: Mapping[str, object],
    options: Mapping[str, Any],
    *,
    as_json: bool,
) -> None:
    """Store the benchmarks of these files and print them; `others` are options that do not apply."""
    from sizeup.cli import terminal
    from sizeup.serving.api.calibrate import calibrate_serving
    from sizeup.serving.render.console import calibration as report

    for name, value in others.items():
        if value:
            raise typer.BadParameter("cannot be combined with --serving", param_hint=name)
    if model is None or device is None:
        raise typer.BadParameter(
            "needs --model config.json and --device TARGET, e.g. 8xh100/vllm", param_hint="--serving"
        )
    calibration = calibrate_serving(files, model=model, target=device, **options)
    if as_json:
        terminal.print_json(calibration.to_dict())
    else:
        report.render(calibration, terminal.output())
