"""`sizeup check`: does it fit, and what would make it?"""

from __future__ import annotations

import json as json_text
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sizeup.cli import completion
from sizeup.cli.exits import FAILED, INCOMPLETE, verb
from sizeup.cli.options import Bind, Inputs, Precision, Rules, bindings, model_inputs

if TYPE_CHECKING:
    from sizeup.report.checked import Check

EXAMPLE = "Example: sizeup check model.tflite -d stm32f746/tflm --latency 20ms"


def _limit(metavar: str, help: str) -> Any:
    return typer.Option(metavar=metavar, help=help, show_default=False)


@verb
def check(
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[MODEL]...",
            help="Files, or names such as torchvision:NAME; with --budget all that it names.",
            show_default=False,
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            "--device",
            "-d",
            metavar="TARGET",
            help="What it must fit: DEVICE or DEVICE/RUNTIME, as stm32f746/tflm (sizeup devices lists all).",
            autocompletion=completion.devices,
            show_default=False,
        ),
    ] = None,
    budget: Annotated[
        Path | None, _limit("FILE", "A .toml file of budgets, by patterns of models (docs/checking.md).")
    ] = None,
    changed: Annotated[
        bool,
        typer.Option(
            "--changed",
            help="MODELs are changed files: skip those that no budget names; check all models if the budget"
            " file or a baseline is among them.",
        ),
    ] = False,
    latency: Annotated[str | None, _limit("TIME", "The longest pass there, as 20ms.")] = None,
    energy: Annotated[str | None, _limit("ENERGY", "The most for a pass, as 3mJ.")] = None,
    ram: Annotated[str | None, _limit("SIZE", "RAM that is left for the model, as 128KiB.")] = None,
    flash: Annotated[str | None, _limit("SIZE", "Flash that is left for model and runtime.")] = None,
    arena: Annotated[str | None, _limit("SIZE", "The most for TFLite Micro's arena.")] = None,
    macs: Annotated[str | None, _limit("COUNT", "The most MACs of a pass, as 20M.")] = None,
    params: Annotated[str | None, _limit("COUNT", "The most parameters, as 300k.")] = None,
    precision: Precision = None,
    input: Inputs = None,
    bind: Bind = None,
    expected: Annotated[
        bool, typer.Option("--expected", help="Judge times by what is expected, not by their range.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 3 where an operator is not counted.")
    ] = False,
    remedies: Annotated[
        bool | None,
        typer.Option(
            "--remedies/--no-remedies",
            help="Carry out what would help; without a wish for targets, not for budgets.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        list[Path] | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write a .json, .md or .xml file; repeatable."),
    ] = None,
    junit: Annotated[Path | None, _limit("FILE", "Write JUnit's XML, one case a limit.")] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown for a pull request.")] = False,
    github: Annotated[
        bool, typer.Option("--github", help="Also print annotations, as GitHub Actions shows them.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on stdout.")] = False,
    rules: Rules = None,
) -> None:
    """Say whether a model fits a target or keeps to budgets, and what would make it.

    Ends with 0 where it fits, 1 where it does not, 2 for bad input, and 3 where nobody can tell.
    """
    from sizeup import api
    from sizeup.cli import terminal
    from sizeup.report import checked

    limits = {"ram": ram, "flash": flash, "arena": arena, "latency": latency, "energy": energy}
    limits |= {"macs": macs, "params": params}
    alone = {"-d": device, "--precision": precision, "--input": input, "--bind": bind}
    alone |= {f"--{name}": value for name, value in limits.items()}
    _demand_sense(models, budget, {name for name, value in alone.items() if value})
    if changed:
        models = _affected(models, budget)
        if not models:
            return
    written = [*(output or ()), *([] if junit is None else [junit])]
    for path in written:
        checked.check_path(path)
    if junit is not None and junit.suffix.lower() != ".xml":
        raise typer.BadParameter(f"{junit}: JUnit's format is written as .xml", param_hint="--junit")
    with terminal.busy("checking"):
        for rule in rules or ():
            api.load_rules(rule)
        if budget is not None:
            found = list(api.check_budgets(budget, models or (), remedies=bool(remedies)))
        else:
            given = {**model_inputs(input), "bind": bindings(bind), "precision": precision, **limits}
            settings: dict[str, Any] = {
                "expected": expected,
                "strict": strict,
                "remedies": remedies is not False,
            }
            found = [api.check(model, device, **given, **settings) for model in models or ()]
    for path in written:
        checked.save(found, path)
    _print(found, as_json=json, as_markdown=markdown, annotated=github)
    terminal.tell_written(written)
    answer = checked.fits(found)
    if answer is not True:
        sys.stdout.flush()
        raise typer.Exit(FAILED if answer is False else INCOMPLETE)


def _affected(files: list[str] | None, budget: Path | None) -> list[str]:
    """The models to check after files changed; a line on stderr for each model file that is skipped."""
    from sizeup import api
    from sizeup.cli import terminal

    if budget is None:
        raise typer.BadParameter("--changed needs --budget FILE", param_hint="--changed")
    models, others = api.affected_models(budget, files or ())
    for file in others:
        if Path(file).suffix.lower() in (".tflite", ".onnx", ".pt2"):
            terminal.remark(f"{file}: skipped, no budget in {budget} names it")
    return models


def _demand_sense(models: list[str] | None, budget: Path | None, given: set[str]) -> None:
    if budget is None and not models:
        raise typer.BadParameter("a model, or --budget FILE, is what a check is of", param_hint="MODEL")
    if budget is not None and given:
        first = sorted(given)[0]
        raise typer.BadParameter(f"{first} belongs into the file of budgets", param_hint="--budget")


def _print(found: list[Check], *, as_json: bool, as_markdown: bool, annotated: bool) -> None:
    from sizeup.cli import terminal
    from sizeup.report import checked, checked_ci, checked_pages

    if as_json:
        content = found[0].to_dict() if len(found) == 1 else checked.to_dict(found)
        sys.stdout.write(json_text.dumps(content, indent=2, allow_nan=False) + "\n")
        return
    with checked_ci.without_commands(sys.stdout) if annotated else nullcontext():
        if as_markdown:
            sys.stdout.writelines(checked_pages.markdown(found))
        else:
            checked_pages.render(found, terminal.output())
    if annotated:
        sys.stdout.writelines(checked_ci.annotated(found))
