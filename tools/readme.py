"""Runs the commands in the documentation and updates their outputs.

    python tools/readme.py            # rewrite the blocks
    python tools/readme.py --check    # exit 1 if one is out of date
    python tools/readme.py docs/querying.md

A `console` block has a command after `$ ` and its output. Pictures of a terminal and the results of
validations in README.md are written too. Model files are read from `shared/models` next to the project, or
from $SIZEUP_SHARED/models.
"""

from __future__ import annotations

import difflib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import published_configs
import registry
import sizeup
from documentation import picture, sample_files, validation
from fitting.page import with_block

ROOT = Path(__file__).resolve().parent.parent
MODELS = Path(os.environ.get("SIZEUP_SHARED", ROOT.parent / "shared")) / "models"
PAGES = (
    "README.md",
    "docs/examples.md",
    "docs/calibrating.md",
    "docs/checking.md",
    "docs/choosing-a-board.md",
    "docs/cli.md",
    "docs/comparing.md",
    "docs/ethos-u.md",
    "docs/free-dimensions.md",
    "docs/json.md",
    "docs/latency.md",
    "docs/llm.md",
    "docs/llm-times.md",
    "docs/measuring.md",
    "docs/memory.md",
    "docs/optimizing.md",
    "docs/precision.md",
    "docs/querying.md",
    "docs/start/embedded.md",
    "docs/start/inference.md",
    "docs/start/registry.md",
    "docs/targets.md",
    "docs/vendor-runtimes.md",
)
WIDTH = 88
SAMPLE = ROOT / "src" / "sizeup" / "cli" / "sample.tflite"
# Pictures, and the command that each shows.
PICTURES = {"docs/pictures/check.svg": "check sample.tflite -d nrf52832"}

_BLOCK = re.compile(r"```console\n\$ sizeup (.*)\n(?:.*\n)*?```\n")


def copied_models(folder: Path) -> None:
    """The models that docs/optimizing.md names: its commands write files next to them."""
    page = (ROOT / "docs" / "optimizing.md").read_text("utf-8")
    for name in re.findall(r"^\$ sizeup optimize (\S+)", page, re.MULTILINE):
        shutil.copy(MODELS / name, folder)


# Pages whose commands run in a temporary folder with generated files instead of the models.
GENERATORS: dict[str, Callable[[Path], None]] = {
    "docs/calibrating.md": published_configs.make_with_benchmark,
    "docs/llm.md": published_configs.make_with_sweep,
    "docs/llm-times.md": published_configs.make,
    "docs/optimizing.md": copied_models,
    "docs/querying.md": registry.make,
    **sample_files.FILES,
}


def output_of(command: str, folder: Path, *, is_colored: bool = False) -> str:
    """The output of a command, as wide as a page."""
    colors = {"FORCE_COLOR": "1", "TERM": "xterm-256color"} if is_colored else {"NO_COLOR": "1"}
    environment = {
        name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")
    }
    done = subprocess.run(
        [sys.executable, "-m", "sizeup", *shlex.split(command)],
        cwd=folder,
        env={**environment, **colors, "COLUMNS": str(WIDTH)},
        capture_output=True,
        text=True,
        check=False,
    )
    # These exit with 1 or 3 if the model does not fit or the verdict is undetermined.
    verdicts = (1, 3) if command.startswith(("check ", "llm ")) else ()
    if not done.stdout or done.returncode not in (0, *verdicts):
        raise SystemExit(f"sizeup {command}: exit code {done.returncode}\n{done.stderr}")
    return "".join(f"{line.rstrip()}\n" for line in done.stdout.strip("\n").splitlines())


def current(text: str, folder: Path = MODELS) -> str:
    """A page with current outputs of the commands, run in a folder."""
    return _BLOCK.sub(
        lambda match: f"```console\n$ sizeup {match[1]}\n{output_of(match[1], folder)}```\n", text
    )


def picture_now(name: str) -> str:
    """A picture of a command's output, on the sample model."""
    with tempfile.TemporaryDirectory() as scratch:
        shutil.copy(SAMPLE, scratch)
        output = output_of(PICTURES[name], Path(scratch), is_colored=True)
    return picture.svg(f"sizeup {PICTURES[name]}", output, WIDTH)


def readme_now(before: str) -> str:
    """README.md with the current number of devices and results of validations."""
    known = f"knows {len(sizeup.devices()):,} devices and {len(sizeup.boards()):,} boards"
    counted, count = re.subn(r"knows [\d,]+ devices and [\d,]+ boards", known, before)
    if count != 1:
        raise SystemExit("README.md does not state how many devices and boards sizeup knows")
    return with_block(counted, "proof", validation.proof_strip("docs/"))


def page_now(name: str, before: str) -> str:
    """A page with current outputs, after generating its files if it needs any."""
    if name in PICTURES:
        return picture_now(name)
    if name == "README.md":
        before = readme_now(before)
    if name not in GENERATORS:
        return current(before)
    with tempfile.TemporaryDirectory() as scratch:
        GENERATORS[name](Path(scratch))
        return current(before, Path(scratch))


def main() -> int:
    """Rewrites the pages named on the command line or all, or with `--check` compares them."""
    if importlib.util.find_spec("tflite_micro") is None:
        raise SystemExit("the outputs of check depend on tflite-micro: pip install 'sizeup[measure]'")
    stale = 0
    pages = [argument for argument in sys.argv[1:] if not argument.startswith("--")]
    for name in pages or (*PAGES, *PICTURES):
        path = ROOT / name
        before = path.read_text("utf-8") if path.exists() else ""
        after = page_now(name, before)
        if "--check" not in sys.argv:
            path.write_text(after, "utf-8")
        elif after != before:
            stale += 1
            print(
                "\n".join(
                    difflib.unified_diff(before.splitlines(), after.splitlines(), name, "now", "", "", 1)
                )
            )
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
