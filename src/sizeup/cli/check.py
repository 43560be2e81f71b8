"""`sizeup check`: does it fit, and what would make it?"""

from __future__ import annotations

import json as json_text
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sizeup.cli import completion
from sizeup.cli.exits import BAD_INPUT, FAILED, INCOMPLETE, verb
from sizeup.cli.options import Bind, Inputs, Precision, Rules, bindings, model_inputs

if TYPE_CHECKING:
    from sizeup.checks.baselines import Update
    from sizeup.results.check import Check

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
            help="What it must fit: DEVICE or DEVICE/RUNTIME, as stm32f746/tflm, or a device file.",
            autocompletion=completion.devices,
            show_default=False,
        ),
    ] = None,
    budget: Annotated[
        Path | None, _limit("FILE", "A .toml file of budgets, by patterns of models (docs/checking.md).")
    ] = None,
    against: Annotated[
        str | None,
        _limit(
            "REV", "Compare with the model files of a git revision, as origin/main; growth is then since it."
        ),
    ] = None,
    update_baselines: Annotated[
        bool,
        typer.Option("--update-baselines", help="Write the present amounts as baselines of growth limits."),
    ] = False,
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
        bool, typer.Option("--strict", help="Exit with 3 if part of the model is not counted.")
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
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write .json, .md, .xml (JUnit) or .codequality.json (GitLab); repeatable.",
        ),
    ] = None,
    junit: Annotated[Path | None, _limit("FILE", "Write JUnit's XML, one case per limit.")] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown for a pull request.")] = False,
    github: Annotated[
        bool, typer.Option("--github", help="Also print annotations, as GitHub Actions shows them.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on stdout.")] = False,
    rules: Rules = None,
) -> None:
    """Check whether models fit a target or keep to budgets, and what would make them.

    Exit codes: 0 if all fit; 1 if one does not or could not be judged; 3 if one is undetermined; 2 if none
    could be judged at all.
    """
    from sizeup.api import budgets as budgets_api
    from sizeup.api import check as api
    from sizeup.api import models as models_api
    from sizeup.cli import terminal
    from sizeup.render.console.check import updated
    from sizeup.results.check import Checks

    limits = {"ram": ram, "flash": flash, "arena": arena, "latency": latency, "energy": energy}
    limits |= {"macs": macs, "params": params}
    alone = {"-d": device, "--precision": precision, "--input": input, "--bind": bind}
    alone |= {f"--{name}": value for name, value in limits.items()}
    _demand_sense(models, budget, {name for name, value in alone.items() if value})
    if update_baselines and (budget is None or against is not None):
        raise typer.BadParameter(
            "give it with --budget and without --against", param_hint="--update-baselines"
        )
    models = _selected(models, budget, changed)
    written = _writable(output or [], junit)
    updates: tuple[Update, ...] = ()
    with terminal.steps("checking") as show:

        def progress(done: int, total: int, model: str) -> None:
            if show is not None:
                show(done, total, f"checking {terminal.name_of(model)}")

        for rule in rules or ():
            models_api.load_rules(rule)
        if budget is not None:
            found, updates = budgets_api.run_budgets(
                budget,
                models or (),
                remedies=bool(remedies),
                against=against,
                update_baselines=update_baselines,
                expected=expected,
                strict=strict,
                progress=progress,
            )
        else:
            asked = {name: value for name, value in limits.items() if value is not None}
            options = api.CheckOptions(
                device,
                **model_inputs(input),
                bind=bindings(bind),
                precision=precision,
                limits=asked,
                expected=expected,
                strict=strict,
                remedies=remedies is not False,
            )
            found = api.check_models(models or (), options, against=against, progress=progress)
    for path in written:
        Checks(tuple(found)).save(path)
    _print(found, as_json=json, as_markdown=markdown, annotated=github)
    for update in updates:
        for line in updated(update):
            terminal.remark(line)
    terminal.tell_written([*(update.path for update in updates), *written])
    code = _exit_code(found)
    if code:
        sys.stdout.flush()
        raise typer.Exit(code)


def _writable(output: list[Path], junit: Path | None) -> list[Path]:
    """The files to write, which all have an ending and a folder."""
    from sizeup import render

    if junit is not None and junit.suffix.lower() != ".xml":
        raise typer.BadParameter(f"{junit}: JUnit's format is written as .xml", param_hint="--junit")
    written = [*output, *([] if junit is None else [junit])]
    for path in written:
        render.check_path("Checks", path)
    return written


def _exit_code(checks: Sequence[Check]) -> int:
    from sizeup.results.check import fits

    if _nothing_judged(checks):
        return BAD_INPUT
    return {True: 0, False: FAILED, None: INCOMPLETE}[fits(checks)]


def _nothing_judged(checks: Sequence[Check]) -> bool:
    """Whether there are errors and nothing else; a model that was removed is no error."""
    return any(each.error for each in checks) and not any(each.is_judged for each in checks)


def _selected(files: list[str] | None, budget: Path | None, changed: bool) -> list[str] | None:
    """The models to check; those of changed files that a budget names, None for all of its models."""
    from sizeup.api import budgets as budgets_api
    from sizeup.cli import terminal

    if not changed:
        return files
    if budget is None:
        raise typer.BadParameter("give it with --budget", param_hint="--changed")
    models, others = budgets_api.affected_models(budget, files or ())
    for file in others:
        if Path(file).suffix.lower() in (".tflite", ".onnx", ".pt2"):
            terminal.remark(f"{file}: skipped, no budget in {budget} names it")
    if models == []:
        raise typer.Exit
    return models


def _demand_sense(models: list[str] | None, budget: Path | None, given: set[str]) -> None:
    if budget is None and not models:
        raise typer.BadParameter("give a MODEL or --budget FILE", param_hint="MODEL")
    if budget is not None and given:
        first = sorted(given)[0]
        raise typer.BadParameter(
            f"{first} cannot be combined with --budget; {_in_budget(first)} in {budget}",
            param_hint="--budget",
        )


def _in_budget(option: str) -> str:
    """What to do instead of an option if there is a file of budgets."""
    if option == "--input":  # budgets set sizes by name only
        return "set symbolic sizes by bind = {...}"
    name = {"-d": "target"}.get(option, option.removeprefix("--"))
    return "set bind = {...}" if name == "bind" else f'set {name} = "..."'


def _print(checks: Sequence[Check], *, as_json: bool, as_markdown: bool, annotated: bool) -> None:
    from sizeup.cli import terminal
    from sizeup.render import markdown as check_comment
    from sizeup.render.console import check as console
    from sizeup.render.data import ci
    from sizeup.results.check import Checks

    if as_json:
        content = Checks(tuple(checks)).to_dict()
        sys.stdout.write(json_text.dumps(content, indent=2, allow_nan=False) + "\n")
        return
    with ci.without_commands(sys.stdout) if annotated else nullcontext():
        if as_markdown:
            sys.stdout.writelines(check_comment.markdown(checks))
        elif _nothing_judged(checks):
            for check in checks:
                terminal.complain(check.error)
        else:
            console.render(checks, terminal.output())
    if annotated:
        sys.stdout.writelines(ci.annotated(checks))
