"""The shell of every page that we write: one HTML file with its styles, scripts and data, and no network."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from functools import cache
from html import escape
from importlib.metadata import version
from importlib.resources import files
from typing import Any

# What every page has: colours, amounts in words, tables and plots.
_STYLES = ("shell.css",)
_SCRIPTS = ("shell.js", "table.js", "plot.js")

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="sizeup {version}">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<link rel="icon" href="data:,">
<title>{title}</title>
{styles}
</head>
<body>
<a class="skip" href="#main">Skip to the content</a>
{body}
<script type="application/json" id="data">{data}</script>
{scripts}
</body>
</html>
"""


@cache
def static(name: str) -> str:
    """The text of a style or a script that is kept beside this file."""
    return files("sizeup.render.html").joinpath("static", name).read_text("utf-8")


@cache
def _plotly() -> str:
    return files("sizeup.render.html").joinpath("vendor", "plotly-basic.min.js").read_text("utf-8")


def shell(title: str, body: str, data: Any, scripts: Sequence[str] = (), styles: Sequence[str] = ()) -> str:
    """A whole page as one text.

    `body` is HTML, its texts escaped already; `data` is plain data that scripts find as `sizeup.data`;
    `scripts` and `styles` are names of files in `static/`, added to those of every page in that order.
    """
    codes = [_plotly(), *(static(name) for name in (*_SCRIPTS, *scripts))]
    return _PAGE.format(
        version=escape(version("sizeup")),
        policy=_policy(codes),
        title=escape(title),
        styles="\n".join(f"<style>{static(name)}</style>" for name in (*_STYLES, *styles)),
        body=body,
        data=embedded(data),
        scripts="\n".join(f"<script>{code}</script>" for code in codes),
    )


def embedded(data: Any) -> str:
    """Data as JSON that nothing can break out of, whatever the names in it: no tag begins without `<`."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _policy(codes: Sequence[str]) -> str:
    """What a browser may do with the page: run these scripts and no other, and fetch nothing."""
    digests = (base64.b64encode(hashlib.sha256(code.encode()).digest()).decode() for code in codes)
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    # plotly writes styles of its own, and makes pictures to save by way of data: and blob: addresses.
    rest = "style-src 'unsafe-inline'; img-src data: blob:; font-src data:"
    return f"default-src 'none'; script-src {allowed}; {rest}"
