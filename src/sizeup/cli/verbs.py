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
_SCHEMES = ("torchvision:", "timm:", "hf:")


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
    near = difflib.get_close_matches(typed.lower(), verbs, 2, 0.5)
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
    return text[:1].lower() + text[1:] + (f"; did you mean {' or '.join(near)}?" if near else "")
