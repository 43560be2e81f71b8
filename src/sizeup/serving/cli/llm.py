"""`sizeup llm`: memory, capacity, times and verdict of a language model on a cluster."""

from __future__ import annotations

import re
import sys
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sizeup.cli import completion
from sizeup.cli.options import Json
from sizeup.cli.runner import FAILED, INCOMPLETE, command
from sizeup.errors import SizeupError

if TYPE_CHECKING:
    from sizeup.serving.results.diffusion import Diffusion
    from sizeup.serving.results.llm import Serving

EXAMPLE = "Example: sizeup llm config.json -d 8xh100/vllm --in 4096 --out 512 --concurrency 1:256"
_TOKENS = re.compile(r"([0-9]{1,12})([km]?)", re.IGNORECASE)
_SCALES = {"": 1, "k": 1 << 10, "m": 1 << 20}
_RANGE = re.compile(r"([0-9]{1,9}):([0-9]{1,9})")
_MOST_COUNTS = 100
_EXIT_CODES = {"yes": 0, "no": FAILED, "undetermined": INCOMPLETE}


class By(str, Enum):
    """Order of layouts."""

    memory = "memory"
    communication = "communication"


@command
def llm(
    config: Annotated[
        str,
        typer.Argument(
            metavar="CONFIG",
            help="A config.json, the folder of a checkpoint, or a .gguf file; of diffusers, the config.json"
            " of a transformer or the folder of a pipeline.",
            show_default=False,
        ),
    ],
    device: Annotated[
        str,
        typer.Option(
            "--device",
            "-d",
            metavar="TARGET",
            help="Cluster and serving engine, a laptop or a phone, e.g. 8xh100/vllm, dgx-b200, rack.toml or"
            " core-ultra-7-258v.",
            autocompletion=completion.devices,
            show_default=False,
        ),
    ],
    input: Annotated[
        str, typer.Option("--in", metavar="TOKENS", help="Tokens of a prompt, e.g. 32k.")
    ] = "4096",
    output: Annotated[
        str, typer.Option("--out", metavar="TOKENS", help="Tokens of an answer, e.g. 512.")
    ] = "512",
    concurrency: Annotated[
        str,
        typer.Option(metavar="N|N,N|N:N", help="Concurrent sequences, e.g. 64 or 1:256 (powers of two)."),
    ] = "1",
    weights: Annotated[
        str | None,
        typer.Option(
            metavar="TYPE",
            help="Precision of the weights instead of the checkpoint's, e.g. fp8.",
            show_default=False,
        ),
    ] = None,
    kv: Annotated[
        str | None,
        typer.Option(metavar="TYPE", help="Precision of the key-value cache, e.g. fp8.", show_default=False),
    ] = None,
    layout: Annotated[
        str | None,
        typer.Option(
            metavar="LAYOUT",
            help="Parallelism: tp (tensor), pp (pipeline), dp (data), ep (expert), e.g. tp4,dp2.",
            show_default=False,
        ),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(
            metavar="N",
            help="Simulate requests that arrive at random, N per second on average, e.g. 4.",
            show_default=False,
        ),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Simulate recorded requests: a CSV file of arrival_s, input, output, e.g. day.csv.",
            show_default=False,
        ),
    ] = None,
    shared_prefix: Annotated[
        str | None,
        typer.Option(
            metavar="TOKENS",
            help="With --rate or --trace: tokens that all prompts begin with, in the cache, e.g. 2k.",
            show_default=False,
        ),
    ] = None,
    ttft: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Maximum time to the first token: list the layouts that reach it, e.g. 1s.",
            show_default=False,
        ),
    ] = None,
    tpot: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Maximum time per output token: list the layouts that reach it, e.g. 30ms.",
            show_default=False,
        ),
    ] = None,
    price: Annotated[
        str | None,
        typer.Option(
            metavar="PRICE",
            help="Price of a GPU per hour: print the cost per million tokens, e.g. 2.50 or 2.50USD.",
            show_default=False,
        ),
    ] = None,
    draft: Annotated[
        str | None,
        typer.Option(
            metavar="CONFIG",
            help="Speculative decoding with a draft model, or mtp: the model's MTP layers, e.g. small.json.",
            show_default=False,
        ),
    ] = None,
    draft_tokens: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Tokens that the draft proposes per step, e.g. 4.", show_default=False
        ),
    ] = None,
    acceptance: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Probability that a draft token is accepted, from 0 to 1, e.g. 0.7.",
            show_default=False,
        ),
    ] = None,
    disaggregate: Annotated[
        str | None,
        typer.Option(
            metavar="PREFILL:DECODE|auto",
            help="Also predict prompts and answers on different GPUs, e.g. 4:4, or layouts: 2xtp4:tp8;"
            " auto searches for the best.",
            show_default=False,
        ),
    ] = None,
    ram: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Memory of a laptop or phone, e.g. 16GiB.", show_default=False),
    ] = None,
    images: Annotated[
        int,
        typer.Option(min=0, metavar="N", help="Images in a prompt, e.g. 2.", show_default=False),
    ] = 0,
    image_size: Annotated[
        str | None,
        typer.Option(
            metavar="WxH",
            help="Width and height of an image in pixels, e.g. 1024x768 (default of a diffusion transformer:"
            " 1024x1024).",
            show_default=False,
        ),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Denoising steps of an image of a diffusion transformer, e.g. 50 (default: 28).",
            show_default=False,
        ),
    ] = None,
    guidance: Annotated[
        bool,
        typer.Option(
            "--guidance",
            help="Classifier-free guidance of a diffusion transformer: two inferences per step.",
        ),
    ] = False,
    text_tokens: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Tokens of the text of a diffusion transformer, e.g. 256 (default: as the pipeline pads).",
            show_default=False,
        ),
    ] = None,
    expected: Annotated[
        bool,
        typer.Option(
            "--expected",
            help="Compare expected times with --ttft and --tpot, not the prediction interval.",
        ),
    ] = False,
    remedies: Annotated[
        bool,
        typer.Option(
            "--remedies/--no-remedies",
            help="Search for and verify changes that make it fit (default: on).",
            show_default=False,
        ),
    ] = True,
    top: Annotated[int, typer.Option(min=0, metavar="N", help="List the N best layouts, e.g. 10.")] = 5,
    by: Annotated[
        By, typer.Option(metavar="memory|communication", help="Order of the layouts, e.g. communication.")
    ] = By.memory,
    json: Json = False,
    file: Annotated[
        list[Path] | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write a .html or .json file, or the check as .md, .xml (JUnit) or .codequality.json"
            " (GitLab), e.g. llm.html; repeatable.",
            show_default=False,
        ),
    ] = None,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the check as Markdown for a pull request comment.")
    ] = False,
    github: Annotated[
        bool, typer.Option("--github", help="Also print annotations for GitHub Actions.")
    ] = False,
) -> None:
    """Report whether a language model fits GPUs, how many sequences of which context, and in which layout.

    Only the configuration is read; nothing is downloaded or run. Exit codes: 0 the largest concurrency fits
    and reaches --ttft and --tpot; 1 not; 2 an error; 3 undetermined. Of a diffusion transformer, weights,
    FLOPs and the least time per image are reported.
    """
    from sizeup import render
    from sizeup.cli import terminal
    from sizeup.serving.api import llm as api
    from sizeup.serving.api.diffusion import STEPS
    from sizeup.serving.models.diffusion import is_diffusion

    kind = "Diffusion" if is_diffusion(config) else "Serving"
    if kind == "Diffusion":
        steps = steps or STEPS
    for path in file or ():
        render.check_path(kind, path)
    arguments: dict[str, Any] = {
        "target": device, "input": tokens_of(input, "--in"), "output": tokens_of(output, "--out"),
        "concurrency": counts_of(concurrency), "weights": weights, "kv": kv, "layout": layout, "rate": rate,
        "trace": trace, "shared_prefix": tokens_of(shared_prefix or "0", "--shared-prefix"), "ttft": ttft,
        "tpot": tpot, "price": price, "draft": draft, "draft_tokens": draft_tokens, "acceptance": acceptance,
        "disaggregate": disaggregate, "images": images, "image_size": image_size, "ram": ram,
        "expected": expected, "remedies": remedies, "steps": steps, "guidance": guidance,
        "text_tokens": text_tokens,
    }  # fmt: skip
    result: Serving | Diffusion = api.llm(config, **arguments)
    for path in file or ():
        result.save(path)
    _print(result, top, by, as_json=json, as_markdown=markdown, annotated=github)
    terminal.print_written(file or ())
    code = _EXIT_CODES[result.verdict]
    if code:
        sys.stdout.flush()
        raise typer.Exit(code)


def _print(
    result: Serving | Diffusion, top: int, by: By, *, as_json: bool, as_markdown: bool, annotated: bool
) -> None:
    from sizeup.cli import terminal
    from sizeup.cli.check import print_annotations
    from sizeup.render import envelope
    from sizeup.serving.render import checks
    from sizeup.serving.render.console import diffusion as image_console
    from sizeup.serving.render.console import llm as console
    from sizeup.serving.results.diffusion import Diffusion

    if as_json:
        terminal.print_json(envelope.json_lines(result))
    elif isinstance(result, Diffusion):
        image_console.render(result, terminal.output())
    elif as_markdown:
        sys.stdout.writelines(checks.markdown_lines(result))
    else:
        console.render(result, terminal.output(), top, by.value)
    if annotated and not isinstance(result, Diffusion) and result.check is not None:
        print_annotations((result.check,))


def tokens_of(text: str, option: str) -> int:
    """A number of tokens such as 4096 or 32k."""
    match = _TOKENS.fullmatch(text)
    if match is None:
        raise SizeupError(f"{option} {text}: write a number of tokens, such as 4096 or 32k")
    return int(match[1]) * _SCALES[match[2].lower()]


def counts_of(text: str) -> list[int]:
    """Numbers of sequences: one, a list, or powers of two between two numbers."""
    match = _RANGE.fullmatch(text)
    if match is not None:
        first, last = int(match[1]), int(match[2])
        if last < first:
            raise SizeupError(f"--concurrency {text}: write the smaller number first, e.g. {last}:{first}")
        counts = [first]
        while 0 < counts[-1] * 2 <= last:
            counts.append(counts[-1] * 2)
        return counts if counts[-1] == last else [*counts, last]
    parts = text.split(",")
    if len(parts) > _MOST_COUNTS or not all(re.fullmatch("[0-9]{1,9}", part) for part in parts):
        raise SizeupError(f"--concurrency {text}: write 64, 1,8,64 or 1:256")
    return [int(part) for part in parts]
