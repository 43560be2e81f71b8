"""Draws the picture of the page of `sizeup llm`, docs/pictures/llm_page.png, in Chromium.

    python tools/page_picture.py

Runs the command of docs/llm-times.md on the published configuration, moves the slider of concurrent requests
to 64, and takes the operating points as far as the first plot. Needs playwright (group `viewers`), pillow and
Chromium.
"""

from __future__ import annotations

import io
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import published_configs
from browser import Page, chromium, opened

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "llm-times.md"
PICTURE = ROOT / "docs" / "pictures" / "llm_page.png"
_COMMAND = re.compile(r"^sizeup (llm .* -o (\S+\.html))$", re.MULTILINE)
_REQUESTS = "64"
_WIDTH, _MARGIN = 1240, 12


def main() -> None:
    """Write the picture."""
    command = _COMMAND.search(DOCUMENT.read_text("utf-8"))
    if command is None:
        raise SystemExit("no command that writes a page in docs/llm-times.md")
    with tempfile.TemporaryDirectory() as scratch, chromium() as browser:
        folder = Path(scratch)
        published_configs.make(folder)
        subprocess.run([sys.executable, "-m", "sizeup", *shlex.split(command[1])], cwd=folder, check=True)
        page = opened(browser, folder / command[2], width=_WIDTH, color_scheme="light").page
        picture = Image.open(io.BytesIO(_taken(page)))
    picture.convert("RGB").quantize(256).save(PICTURE, optimize=True)
    print(f"wrote {PICTURE.relative_to(ROOT)}, {picture.width} x {picture.height}")


def _taken(page: Page) -> bytes:
    """The operating points with the slider moved, from the heading to the end of the first plot."""
    page.focus("#requests")
    page.keyboard.press("Home")
    while page.locator("output[for=requests]").inner_text() != _REQUESTS:
        before = page.locator("#requests").input_value()
        page.keyboard.press("ArrowRight")
        if page.locator("#requests").input_value() == before:
            raise SystemExit(f"the page has no point with {_REQUESTS} requests")
    page.evaluate("document.activeElement.blur(), scrollTo(0, 0)")
    heading, section, plot = (
        page.locator(place).bounding_box() for place in ("#points-title", "#points", "#frontier")
    )
    top = heading["y"] - _MARGIN
    clip = {
        "x": section["x"] - _MARGIN,
        "y": top,
        "width": section["width"] + 2 * _MARGIN,
        "height": plot["y"] + plot["height"] - top,
    }
    picture: bytes = page.screenshot(full_page=True, clip=clip)
    return picture


if __name__ == "__main__":
    main()
