"""The shell of every page: one HTML file with its styles, scripts and data, without network access."""

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

# Styles and scripts of every page: colors, formats of amounts, tables and plots.
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
    """Returns the text of a style or a script in `static/`, of another package if named `package:file`."""
    package, _, file = name.rpartition(":")
    return files(package or "sizeup.render.html").joinpath("static", file).read_text("utf-8")


@cache
def _plotly() -> str:
    return files("sizeup.render.html").joinpath("vendor", "plotly-basic.min.js").read_text("utf-8")


def shell(title: str, body: str, data: Any, scripts: Sequence[str] = (), styles: Sequence[str] = ()) -> str:
    """Returns a page as one text.

    `body` is HTML with escaped texts; `data` is plain data, available to scripts as `sizeup.data`; `scripts`
    and `styles` are names of files in `static/`, added after those of every page.
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
    """Returns data as JSON that is safe inside a script element, for any names: it has no `<`, `>` or `&`."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _policy(codes: Sequence[str]) -> str:
    """Returns the content security policy: only these scripts run, and nothing is fetched."""
    digests = (base64.b64encode(hashlib.sha256(code.encode()).digest()).decode() for code in codes)
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    # plotly adds inline styles, and saves pictures through data: and blob: URLs.
    rest = "style-src 'unsafe-inline'; img-src data: blob:; font-src data:"
    return f"default-src 'none'; script-src {allowed}; {rest}"
