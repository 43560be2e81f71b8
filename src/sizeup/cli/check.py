"""`sizeup check`: whether models fit a target or meet budgets, and what would make them fit."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sizeup.cli.commands import USAGE_ERROR
from sizeup.cli.options import (
    Bind,
    Inputs,
    Json,
    MemoryLimit,
    Precision,
    Rules,
    TimeLimit,
    bindings,
    device_option,
    model_inputs,
    work_limits,
)
from sizeup.cli.runner import BAD_INPUT, FAILED, INCOMPLETE, command

if TYPE_CHECKING:
    from sizeup.api.limits import WorkLimits
    from sizeup.checks.baselines import Update
    from sizeup.results.check import Check

EXAMPLE = "Example: sizeup check model.tflite -d stm32f746/tflm --latency 20ms"


def _limit(metavar: str, help: str) -> Any:
    return typer.Option(metavar=metavar, help=help, show_default=False)


@command
def check(
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="MODEL",
            help="Model files, or names such as torchvision:resnet50 (default: all models of --budget).",
            show_default=False,
        ),
    ] = None,
    device: Annotated[
        str | None,
        device_option(
            "Target that the model must fit: DEVICE, DEVICE/RUNTIME or a device file, e.g. stm32f746/tflm."
        ),
    ] = None,
    budget: Annotated[
        str | None,
        _limit(
            "FILE|REV:FILE",
            "Budget file to check, also that of a git revision with all that it names, e.g."
            " origin/main:budgets.toml.",
        ),
    ] = None,
    against: Annotated[
        str | None,
        _limit("REV", "Git revision to compare the model files and their growth with, e.g. origin/main."),
    ] = None,
    update_baselines: Annotated[
        bool,
        typer.Option("--update-baselines", help="Write the current amounts as baselines for growth limits."),
    ] = False,
    changed: Annotated[
        bool,
        typer.Option(
            "--changed",
            help="Check only those MODEL files that a budget names, or all if the budget file or a baseline"
            " is among them, e.g. in pre-commit.",
        ),
    ] = False,
    latency: Annotated[str | None, _limit("TIME", "Maximum latency on the target, e.g. 20ms.")] = None,
    energy: Annotated[
        str | None, _limit("ENERGY", "Maximum energy per inference on the target, e.g. 3mJ.")
    ] = None,
    ram: Annotated[
        str | None, _limit("SIZE", "RAM available to the model, e.g. 128KiB (1024 B each) or 128KB (1000 B).")
    ] = None,
    flash: Annotated[
        str | None, _limit("SIZE", "Flash available to model and runtime, e.g. 512KiB or 4MB.")
    ] = None,
    arena: Annotated[str | None, _limit("SIZE", "Maximum TFLite Micro arena, e.g. 64KiB or 64KB.")] = None,
    macs: Annotated[str | None, _limit("COUNT", "Maximum MACs per inference, e.g. 20M.")] = None,
    params: Annotated[str | None, _limit("COUNT", "Maximum number of parameters, e.g. 300k.")] = None,
    precision: Precision = None,
    input: Inputs = None,
    bind: Bind = None,
    expected: Annotated[
        bool,
        typer.Option(
            "--expected",
            help="Compare expected times and energy with the limits, not the prediction interval.",
        ),
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with code 3 if part of the model is not counted.")
    ] = False,
    remedies: Annotated[
        bool | None,
        typer.Option(
            "--remedies/--no-remedies",
            help="Search for and verify changes that make it fit (default: on with -d, off with --budget).",
            show_default=False,
        ),
    ] = None,
    run: Annotated[
        bool | None,
        typer.Option(
            "--run/--no-run",
            help="Run one inference of a .tflite file on this machine, in TFLite Micro's interpreter, with"
            " limits of time and memory (default: on with -d if tflite-micro is installed, off with --budget"
            " or --no-remedies), e.g. sizeup check model.tflite -d stm32f746 --no-run.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        list[Path] | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write a .json, .md, .xml (JUnit) or .codequality.json (GitLab) file, e.g. check.json;"
            " repeatable.",
        ),
    ] = None,
    junit: Annotated[
        Path | None, _limit("FILE", "Write JUnit XML, one case per limit, e.g. check.xml.")
    ] = None,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print Markdown for a pull request comment.")
    ] = False,
    github: Annotated[
        bool, typer.Option("--github", help="Also print annotations for GitHub Actions.")
    ] = False,
    json: Json = False,
    rules: Rules = None,
    time_limit: TimeLimit = None,
    memory_limit: MemoryLimit = None,
) -> None:
    """Check whether models fit a target or meet budgets, and find changes that would make them fit.

    Exit codes: 0 all fit; 1 one does not fit or has an error; 2 all have errors; 3 one is undetermined.
    """
    from sizeup.api import check as api
    from sizeup.cli import terminal
    from sizeup.results.check import Checks

    limits = {"ram": ram, "flash": flash, "arena": arena, "latency": latency, "energy": energy}
    limits |= {"macs": macs, "params": params}
    unused_with_budget = {"-d": device, "--precision": precision, "--input": input, "--bind": bind}
    unused_with_budget |= {f"--{name}": value for name, value in limits.items()}
    names = {name for name, value in unused_with_budget.items() if value}
    _require_model_or_budget(models, budget, names)
    for model in () if budget else models or ():
        api.refuse_language_model(model, device, api.LLM_COMMAND, shlex.quote)
    if update_baselines and (budget is None or against is not None):
        raise typer.BadParameter(
            "needs --budget, and cannot be combined with --against", param_hint="--update-baselines"
        )
    limits_of_work = work_limits(time_limit, memory_limit, _default_limits(budget, update_baselines))
    if limits_of_work and update_baselines:
        raise typer.BadParameter(
            "cannot be combined with --time-limit or --memory-limit", param_hint="--update-baselines"
        )
    models = _select_models(models, budget, changed)
    written = _output_paths(output or [], junit)
    updates: tuple[Update, ...] = ()
    with terminal.steps("checking") as show:

        def progress(done: int, total: int, model: str) -> None:
            if show is not None:
                show(done, total, f"checking {terminal.name_of(model)}")

        _load_rules(rules)
        if budget is not None:
            from sizeup.api.budgets import run_budgets

            checks, updates = run_budgets(
                budget,
                models or (),
                remedies=bool(remedies),
                against=against,
                update_baselines=update_baselines,
                expected=expected,
                strict=strict,
                run=bool(run),
                progress=progress,
                work_limits=limits_of_work,
            )
        else:
            given_limits = {name: value for name, value in limits.items() if value is not None}
            options = api.CheckOptions(
                device,
                **model_inputs(input),
                bind=bindings(bind),
                precision=precision,
                limits=given_limits,
                expected=expected,
                strict=strict,
                remedies=remedies is not False,
                run=run,
            )
            checks = api.check_models(
                models or (), options, against=against, progress=progress, work_limits=limits_of_work
            )
    for path in written:
        Checks(tuple(checks)).save(path)
    _print(checks, as_json=json, as_markdown=markdown, annotated=github)
    _print_updates(updates, budget if update_baselines else None)
    terminal.print_written([*(update.path for update in updates), *written])
    code = _exit_code(checks)
    if code:
        sys.stdout.flush()
        raise typer.Exit(code)


def _default_limits(budget: str | None, update_baselines: bool) -> WorkLimits:
    """The limits of the work on a model: a budget is a gate, whose models may be of others."""
    from sizeup.api.limits import BUDGET_LIMITS, NO_LIMITS

    return NO_LIMITS if budget is None or update_baselines else BUDGET_LIMITS


def _print_updates(updates: Sequence[Update], budget: str | None) -> None:
    """Print the changes of baselines, or the reason that the updated budgets have none."""
    if not updates and budget is None:
        return
    from sizeup.api import budgets as budgets_api
    from sizeup.cli import terminal
    from sizeup.render.console.baselines import update_lines

    for update in updates:
        for line in update_lines(update):
            terminal.print_note(line)
    if budget is not None and not budgets_api.has_growth_limits(budget):
        terminal.print_note(
            f"no baselines were written, because no budget in {budget} limits growth;"
            ' to limit it, add for example growth = { macs = "5%" } to a [[budget]]'
        )


def _load_rules(rules: list[Path] | None) -> None:
    from sizeup.api import models

    for rule in rules or ():
        models.load_rules(rule)


def _output_paths(output: list[Path], junit: Path | None) -> list[Path]:
    """The files to write; raises an error for a suffix or a folder that cannot be used."""
    from sizeup import render

    if junit is not None and junit.suffix.lower() != ".xml":
        raise typer.BadParameter(f"{junit}: JUnit files end in .xml", param_hint="--junit")
    written = [*output, *([] if junit is None else [junit])]
    for path in written:
        render.check_path("Checks", path)
    return written


def _exit_code(checks: Sequence[Check]) -> int:
    from sizeup.results.check import fits

    if _has_no_verdict(checks):
        return BAD_INPUT
    return {True: 0, False: FAILED, None: INCOMPLETE}[fits(checks)]


def _has_no_verdict(checks: Sequence[Check]) -> bool:
    """Whether all models ended in errors; a model that was removed is not an error."""
    return any(check.error for check in checks) and not any(check.has_verdict for check in checks)


def _select_models(files: list[str] | None, budget: str | None, changed: bool) -> list[str] | None:
    """The models to check: with --changed those that a budget names; None for all models of the budget."""
    if not changed:
        return files
    from sizeup.api import budgets as budgets_api
    from sizeup.cli import terminal

    if budget is None:
        raise typer.BadParameter("needs --budget FILE", param_hint="--changed")
    models, others = budgets_api.affected_models(budget, files or ())
    for file in others:
        if Path(file).suffix.lower() in (".tflite", ".onnx", ".pt2"):
            terminal.print_note(f"{file}: skipped, not named by any budget in {budget}")
    if models == []:
        raise typer.Exit
    return models


def _require_model_or_budget(models: list[str] | None, budget: str | None, options: set[str]) -> None:
    if budget is None and not models:
        raise USAGE_ERROR("give a MODEL with -d TARGET, or --budget FILE")
    if budget is not None and options:
        first = sorted(options)[0]
        raise typer.BadParameter(
            f"{first} cannot be combined with --budget; {_in_budget(first)} in {budget}",
            param_hint="--budget",
        )


def _in_budget(option: str) -> str:
    """The setting of a budget file that replaces an option."""
    if option == "--input":  # budgets have no input shapes
        return "set symbolic dimensions by bind = {...}"
    name = {"-d": "target"}.get(option, option.removeprefix("--"))
    return "set bind = {...}" if name == "bind" else f'set {name} = "..."'


def _print(checks: Sequence[Check], *, as_json: bool, as_markdown: bool, annotated: bool) -> None:
    from sizeup.cli import terminal

    if as_json:
        from sizeup.render import envelope
        from sizeup.results.check import Checks

        terminal.print_json(envelope.json_lines(Checks(tuple(checks))))
    elif as_markdown:
        from sizeup.render.markdown import markdown

        sys.stdout.writelines(markdown(checks))
    elif _has_no_verdict(checks):
        for check in checks:
            terminal.print_error(check.error)
    else:
        from sizeup.render.console import check as console

        console.render(checks, terminal.output())
    if annotated:
        print_annotations(checks)


def print_annotations(checks: Sequence[Check]) -> None:
    """Print the annotations of checks for GitHub Actions."""
    from sizeup.logs import annotate
    from sizeup.render.data import ci

    annotate(ci.annotation_lines(checks))
