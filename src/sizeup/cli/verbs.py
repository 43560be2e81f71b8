"""The verbs as a group: what is said where somebody types what is none."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

# What the parser of arguments raises; not every version of typer has a public name for it.
MISUSE: type[Exception] = typer.BadParameter.__bases__[0]
_MODELS = (".tflite", ".onnx", ".pt2")
_ALIKE = 0.6  # of letters that two words share, from 0 to 1
_SCHEMES = ("torchvision:", "timm:", "hf:")
# Words that users of other tools type, by the command that does it here.
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
    "sizeup precision MODEL --weights 256KiB -o map.json": "quantize quantise mixed",
    "sizeup precision MODEL --data test.npz": "sensitivity",
    "sizeup optimize MODEL -o OUT": "reorder shrink",
    "sizeup optimize MODEL -o OUT --cluster 16": "cluster",
    "sizeup compare OLD NEW": "diff",
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


# Limits of `check`, and what the verbs on precision limit instead: flash and arena hold more.
_LIMITS = {"--flash": "--weights", "--arena": "--activations", "--ram": "--activations"}


class Verbs(TyperGroup):
    """Says what was perhaps meant by a word that is no verb."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The verb that was typed, or a word of advice."""
        if (
            args
            and args[0] not in self.commands
            and not args[0].startswith("-")
            and not ctx.resilient_parsing
        ):
            ctx.fail(advice(args[0], list(self.commands)))
        return super().resolve_command(ctx, args)


def advice(typed: str, verbs: list[str]) -> str:
    """What to type instead of a word that is no verb."""
    if typed.startswith(_SCHEMES) or Path(typed).suffix.lower() in _MODELS:
        return f"{typed!r} is a model; say what to do with it: sizeup analyze {typed}"
    word = typed.lower().replace("-", "_").removesuffix(".py")
    near = difflib.get_close_matches(word, [*verbs, *_INSTEAD], 2, _ALIKE)
    if near and near[0] in _INSTEAD:
        return f"there is no verb {typed!r}; type: {_INSTEAD[near[0]]}"
    near = [each for each in near if each in verbs]
    if near:
        return f"there is no verb {typed!r}; did you mean {' or '.join(near)}?"
    return f"there is no verb {typed!r}; there are {', '.join(verbs)}"


def correction(error: Any) -> tuple[str, str]:
    """What is wrong with a command that cannot be understood, and where to look."""
    message = _said(error)
    context = error.ctx
    if context is None:
        return message, ""
    if isinstance(context.command, TyperGroup):
        return message, f"{context.command_path} --help lists all verbs"
    # Whoever has left something out is helped most by a whole command.
    example = context.command.epilog if message.startswith("missing ") else None
    return message, example or f"{context.command_path} --help lists all options"


def _said(error: Any) -> str:
    """The parser's words as ours: no capital, no full stop, and what was perhaps meant."""
    text: str = error.format_message().partition(" (Possible")[0].replace(": Value error, ", ": ").rstrip(".")
    near = sorted(getattr(error, "possibilities", None) or ())
    verb = "" if error.ctx is None else error.ctx.command.name
    if verb in ("precision", "tradeoff") and getattr(error, "option_name", None) in _LIMITS:
        near = [_LIMITS[error.option_name]]
    return text[:1].lower() + text[1:] + (f"; did you mean {' or '.join(near)}?" if near else "")
