"""The verbs as a group: what is said where somebody types what is none."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

from typer.core import TyperGroup

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
