"""The group of commands: how options are listed in --help, and what is suggested for unknown commands."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

# Base class of the argument parser's errors; not every version of typer has a public name for it.
USAGE_ERROR: type[Exception] = typer.BadParameter.__bases__[0]
_MODEL_SUFFIXES = (".tflite", ".onnx", ".pt2")
_SIMILARITY = 0.6  # least ratio of difflib for a suggestion
_SCHEMES = ("torchvision:", "timm:", "hf:")
# Words that users of other tools type, by the command to use instead.
_COMMANDS = {
    "sizeup analyze MODEL": "summary count flops macs params info stats inspect",
    "sizeup analyze MODEL -d TARGET": "latency estimate predict",
    "sizeup analyze MODEL -d TARGET --plot x.roofline.png": "roofline",
    "sizeup analyze MODEL --plot memory.png": "plot",
    "sizeup analyze MODEL -o report.html": "report html",
    "sizeup measure MODEL": "profile benchmark bench time run",
    "sizeup plan MODEL": "memory peak arena",
    "sizeup check MODEL -d TARGET": "fit fits",
    "sizeup check --budget FILE": "budget budgets",
    "sizeup precision MODEL --fits 512KiB": "filter",
    "sizeup precision MODEL --weights 256KiB -o map.json": "quantize quantize mixed",
    "sizeup precision MODEL --data test.npz": "sensitivity",
    "sizeup optimize MODEL -o OUT": "reorder shrink",
    "sizeup optimize MODEL -o OUT --cluster 16": "cluster",
    "sizeup compare OLD NEW": "diff",
    "sizeup llm CONFIG -d TARGET": "diffusion serve serving",
    "sizeup devices": "device targets",
    "sizeup ops": "operators",
    "python -m sizeup.compat": "compat",
}
_OLDER_TOOLS = (
    "tensor_memory_filter",
    "tensor_latency_predictor",
    "hardware",
    "tflite_tools",
    "dnn_analyzer",
    "tensorscope",
)
_INSTEAD = {
    **{word: command for command, words in _COMMANDS.items() for word in words.split()},
    **{tool: f"python -m sizeup.compat.{tool}" for tool in _OLDER_TOOLS},
}


# Options of `check`, and the options of precision and tradeoff that come closest: flash and arena hold more.
_LIMITS = {"--flash": "--weights", "--arena": "--activations", "--ram": "--activations"}

# Options that `check` does not have, and `sizeup llm` has.
_SERVED = ("--in", "--out", "--concurrency", "--weights", "--kv", "--layout", "--ttft", "--tpot")

# Options that every command has, and `sizeup` itself has not.
_OPTIONS_OF_COMMANDS = ("-q", "--quiet")

_VALUE = re.compile(r"(?:'(.*)'|(\S+)) is not (?:one of|in the range|a valid)")
_CHOICES = re.compile(r"is not one of (.*?)\.?$")
_BOUND = re.compile(
    r"(?P<relation>greater than or equal to|less than or equal to|x>=|x<=) ?(?P<limit>[\d.]*\d)"
)
_BOUND_WORDS = {
    "greater than or equal to": "at least",
    "x>=": "at least",
    "less than or equal to": "at most",
    "x<=": "at most",
}
_HELP_EXAMPLE = re.compile(r"\be\.g\. ([\w.]*\w)")


_MAX_HELP_WIDTH = 100  # columns, also on wider terminals
_HYPHEN, _UNBROKEN_HYPHEN = "-", "\u2011"


_Formatter: Any = typer.Context.formatter_class


class _HelpFormatter(_Formatter):  # type: ignore[misc]
    """Formats --help; breaks lines between words only, so that what a user types stays in one piece."""

    def write_text(self, text: str) -> None:
        """Write a paragraph."""
        super().write_text(text.replace(_HYPHEN, _UNBROKEN_HYPHEN))

    def write_dl(self, rows: Any, *args: Any, **kwargs: Any) -> None:
        """Write names next to their texts."""
        unbroken = [(name, text.replace(_HYPHEN, _UNBROKEN_HYPHEN)) for name, text in rows]
        super().write_dl(unbroken, *args, **kwargs)

    def getvalue(self) -> str:
        """The formatted text."""
        return str(super().getvalue()).replace(_UNBROKEN_HYPHEN, _HYPHEN)


class _PlainHelp:
    """--help in two columns; without Python types, such as `<bool>` of flags."""

    def get_params(self, ctx: Any) -> list[Any]:
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if getattr(param, "is_flag", False):
                param.metavar = ""
            elif param.param_type_name == "argument":
                param.display_type_rich = lambda **_: None
        return params

    def get_help(self, ctx: Any) -> str:
        """The text of --help."""
        formatter = _HelpFormatter(width=ctx.terminal_width, max_width=_MAX_HELP_WIDTH)
        self.format_help(ctx, formatter)  # type: ignore[attr-defined]
        return formatter.getvalue().rstrip("\n")


# What compares targets, by command.
_SECOND_TARGET = {"llm": "sizeup sweep compares clusters"}


class Command(_PlainHelp, TyperCommand):
    """A command of sizeup."""

    def make_parser(self, ctx: Any) -> Any:
        """The parser; it fails if there are several targets, of which only the last would count."""
        parser = super().make_parser(ctx)
        parse = parser.parse_args

        def parse_args(args: list[str]) -> Any:
            parsed = parse(args=args)
            self._check_targets(ctx, parsed[2])
            return parsed

        parser.parse_args = parse_args  # type: ignore[method-assign]
        return parser

    def _check_targets(self, ctx: Any, order: list[Any]) -> None:
        count = sum("--device" in param.opts and not getattr(param, "multiple", False) for param in order)
        if count > 1 and not ctx.resilient_parsing:
            has_second = any("--device-b" in param.opts for param in self.get_params(ctx))
            hint = "--device-b is the target of B" if has_second else _SECOND_TARGET.get(self.name or "", "")
            hint = hint or "sizeup devices --for MODEL ranks boards"
            ctx.fail(f"-d is given {count} times, and only one target counts; {hint}")


VERBS = (
    *("analyze", "explain", "check", "compare", "plan", "llm", "measure", "calibrate"),
    *("precision", "tradeoff", "optimize", "sweep", "query", "ops", "demo", "devices"),
)
"""The commands in the order of --help; each is the function of that name in its module."""
_MODULES = {"llm": "sizeup.serving.cli.llm"}


class _Commands(Mapping[str, Any]):
    """Commands by name; the module of one is imported when it is asked for."""

    def __init__(self) -> None:
        self._built: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in VERBS:
            raise KeyError(name)
        if name not in self._built:
            module = import_module(_MODULES.get(name, f"sizeup.cli.{name}"))
            single = typer.Typer(add_completion=False, rich_markup_mode=None)
            single.command(name, cls=Command, epilog=module.EXAMPLE)(getattr(module, name))
            self._built[name] = typer.main.get_command(single)
        return self._built[name]

    def __iter__(self) -> Iterator[str]:
        return iter(VERBS)

    def __len__(self) -> int:
        return len(VERBS)


class CommandGroup(_PlainHelp, TyperGroup):
    """The commands of sizeup; suggests one if an unknown command is typed."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = _Commands()  # type: ignore[assignment]

    def list_commands(self, _ctx: Any) -> list[str]:
        """The names of all commands."""
        return list(VERBS)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that was typed; fails with a suggestion if there is no such command."""
        if args and args[0] not in VERBS and not args[0].startswith("-") and not ctx.resilient_parsing:
            ctx.fail(unknown_command(args[0], [*VERBS]))
        return super().resolve_command(ctx, args)

    def format_commands(self, _ctx: Any, formatter: Any) -> None:
        """Write all commands with their first sentence, uncut."""
        with formatter.section("Commands"):
            formatter.write_dl(
                [
                    (name, " ".join((each.help or "").partition("\n\n")[0].split()))
                    for name, each in self.commands.items()
                ]
            )


def unknown_command(word: str, commands: list[str]) -> str:
    """The message for a word that is not a command, with what to type instead."""
    if word.startswith(_SCHEMES) or Path(word).suffix.lower() in _MODEL_SUFFIXES:
        return f"{word!r} is a model, not a command; type: sizeup analyze {word}"
    normalized = word.lower().replace("-", "_").removesuffix(".py")
    similar = difflib.get_close_matches(normalized, [*commands, *_INSTEAD], 2, _SIMILARITY)
    if similar and similar[0] in _INSTEAD:
        return f"unknown command {word!r}; type: {_INSTEAD[similar[0]]}"
    similar = [name for name in similar if name in commands]
    if similar:
        return f"unknown command {word!r}; did you mean {' or '.join(similar)}?"
    return f"unknown command {word!r}; commands: {', '.join(commands)}"


def usage_message(error: Any) -> tuple[str, str]:
    """The message of a usage error, and a hint: an example, or the --help command to run."""
    message = _message(error)
    context = error.ctx
    if context is None:
        return message, ""
    if isinstance(context.command, TyperGroup):
        if getattr(error, "option_name", None) in _OPTIONS_OF_COMMANDS:
            return message, f"put {error.option_name} after the command: sizeup COMMAND {error.option_name}"
        return message, f"{context.command_path} --help lists all commands"
    example = context.command.epilog if message.startswith("missing ") else None
    return message, example or f"{context.command_path} --help lists all options"


def _message(error: Any) -> str:
    """The parser's message in lower case and without a final period, with suggestions if there are any."""
    invalid = _invalid_value(error)
    if invalid:
        return invalid
    text: str = error.format_message().partition(" (Possible")[0].replace(": Value error, ", ": ").rstrip(".")
    similar = sorted(getattr(error, "possibilities", None) or ())
    command = "" if error.ctx is None else error.ctx.command.name
    if command in ("precision", "tradeoff") and getattr(error, "option_name", None) in _LIMITS:
        similar = [_LIMITS[error.option_name]]
    if command == "check" and getattr(error, "option_name", None) in _SERVED:
        instead = f"sizeup llm CONFIG -d TARGET {error.option_name}"
        return f"{text[:1].lower()}{text[1:]}; for language models: {instead}"
    return text[:1].lower() + text[1:] + (f"; did you mean {' or '.join(similar)}?" if similar else "")


def _invalid_value(error: Any) -> str:
    """The message for an option's value that is out of range, not a number or unknown; '' for other errors.

    The parser's own message differs between versions of typer.
    """
    option, value = getattr(error, "param", None), _typed_value(error)
    if option is None or value is None:
        return ""
    name, text = option.opts[0], error.message
    bound = _BOUND.search(text)
    if bound:
        return f"{name} {value}: must be {_BOUND_WORDS[bound['relation']]} {bound['limit']}"
    if "valid integer" in text or "valid number" in text or "valid float" in text:
        number = "a whole number" if "integer" in text else "a number"
        example = _HELP_EXAMPLE.search(option.help or "")
        return f"{name} {value}: not {number}" + (f", e.g. {example[1]}" if example else "")
    known = _CHOICES.search(text)
    return f"unknown {name} {value!r}; known: {known[1].replace(chr(39), '')}" if known else ""


def _typed_value(error: Any) -> str | None:
    """The value in the parser's message or in its cause; None if there is none."""
    match = _VALUE.match(getattr(error, "message", None) or "")
    if match:
        return match[1] or match[2]
    details = getattr(error.__cause__, "errors", None)
    return None if details is None else str(details()[0]["input"])
