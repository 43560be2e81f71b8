"""`sizeup llm`: memory, capacity and layouts of a language model on a cluster."""

from __future__ import annotations

import re
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from sizeup.cli import completion
from sizeup.cli.options import Json
from sizeup.cli.runner import command
from sizeup.errors import SizeupError

EXAMPLE = "Example: sizeup llm config.json -d 8xh100/vllm --in 4096 --out 512 --concurrency 1:256"
_TOKENS = re.compile(r"([0-9]{1,12})([km]?)", re.IGNORECASE)
_SCALES = {"": 1, "k": 1 << 10, "m": 1 << 20}
_RANGE = re.compile(r"([0-9]{1,9}):([0-9]{1,9})")
_MOST_COUNTS = 100


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
            help="A config.json, the folder of a checkpoint, or a .gguf file.",
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
            metavar="TIME", help="List the layouts whose TTFT is at most TIME, e.g. 1s.", show_default=False
        ),
    ] = None,
    tpot: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="List the layouts whose TPOT is at most TIME, e.g. 30ms.", show_default=False
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
            metavar="WxH", help="Width and height of an image in pixels, e.g. 1024x768.", show_default=False
        ),
    ] = None,
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
            help="Write a .html or .json file, e.g. llm.html.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Report whether a language model fits GPUs, how many sequences of which context, and in which layout.

    Only the configuration is read; nothing is downloaded or run.
    """
    from sizeup import render
    from sizeup.cli import terminal
    from sizeup.render import envelope
    from sizeup.serving.api import llm as api
    from sizeup.serving.render.console import llm as console

    for path in file or ():
        render.check_path("Serving", path)
    serving = api.llm(
        config, target=device, input=tokens_of(input, "--in"), output=tokens_of(output, "--out"),
        concurrency=counts_of(concurrency), weights=weights, kv=kv, layout=layout, rate=rate,
        trace=trace, shared_prefix=tokens_of(shared_prefix or "0", "--shared-prefix"), ttft=ttft, tpot=tpot,
        price=price, draft=draft, draft_tokens=draft_tokens, acceptance=acceptance,
        disaggregate=disaggregate, images=images, image_size=image_size, ram=ram,
    )  # fmt: skip
    for path in file or ():
        serving.save(path)
    if json:
        terminal.print_json(envelope.json_lines(serving))
    else:
        console.render(serving, terminal.output(), top, by.value)
    terminal.print_written(file or ())


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
