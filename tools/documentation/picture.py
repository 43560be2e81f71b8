"""Pictures of a terminal, from the colored output of a command."""

from __future__ import annotations

import io

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

# Contrast of at least 4.5 : 1 on the background.
_THEME = TerminalTheme(
    (22, 27, 34),
    (230, 237, 243),
    [
        *((110, 118, 129), (255, 123, 114), (86, 211, 100), (227, 179, 65)),
        *((121, 192, 255), (210, 168, 255), (118, 227, 234), (201, 209, 217)),
    ],
)
# Without the fonts that rich would fetch.
_FORMAT = """\
<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{
  font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px;
  line-height: {line_height}px;
}}
.{unique_id}-title {{ font: bold 18px system-ui, sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def svg(command: str, output: str, width: int) -> str:
    """A terminal of `width` columns after a command, with its output in ANSI colors."""
    console = Console(
        record=True, width=width, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
    console.print(Text.from_ansi(output.rstrip("\n")))
    picture = console.export_svg(title="", theme=_THEME, code_format=_FORMAT, unique_id="terminal")
    return "".join(f"{line.rstrip()}\n" for line in picture.splitlines())
