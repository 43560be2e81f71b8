"""Times of fixed batches, laptops and phones, related models held out, and calibrations fitted to them.

python benchmarks/serving_other_sources.py            # print held-out errors
python benchmarks/serving_other_sources.py --write    # and write fixed_batches.toml, next_tokens.toml
                                                      # and docs/llm-times.md
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

import numpy as np
import serving_batches
import serving_operators
import serving_tokens
from serving_fit import CALIBRATIONS, PAGE

from sizeup.serving.steps.rates import fixed_batches

FIXED_BATCHES = CALIBRATIONS.with_name("fixed_batches.toml")
NEXT_TOKENS = CALIBRATIONS.with_name("next_tokens.toml")
BLOCK = re.compile(r"(<!-- other sources -->\n).*?(<!-- end -->)", re.DOTALL)


def main() -> None:
    """Fit, print and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="write the calibrations and the page")
    args = parser.parse_args()
    table, omitted = serving_batches.read()
    by_kin = serving_batches.held_out(table, table.kin)
    if args.write:
        FIXED_BATCHES.write_text("".join(serving_batches.calibration_lines(table, by_kin)), "utf-8")
        fixed_batches.cache_clear()
        NEXT_TOKENS.write_text("".join(serving_tokens.calibration_lines()), "utf-8")
    lines = [*batch_lines(table, by_kin, omitted), *token_lines(), *operator_lines()]
    print("".join(lines))
    if args.write:
        text = PAGE.read_text("utf-8")
        PAGE.write_text(BLOCK.sub(lambda match: match[1] + "".join(lines) + match[2], text), "utf-8")


def batch_lines(table: serving_batches.Batches, by_kin: np.ndarray, omitted: int) -> Iterator[str]:
    """Errors of the total times of fixed batches."""
    yield f"| fixed batches, related models held out; {omitted} rows left out"
    yield " | rows | mean | median | within 20 % |\n"
    yield "|---|--:|--:|--:|--:|\n"
    for label, count, figures in serving_batches.error_rows(table, by_kin):
        yield f"| {label} | {count:,} | {_cells(figures)} |\n"
    for engine in serving_batches.ENGINES:
        hits, count = serving_batches.interval_hits(table, by_kin, engine)
        share = 100 * hits / count
        yield f"\n90 % intervals of the other groups hold {share:.0f} % of the {count:,} rows of {engine}.\n"
    yield "\n"


def token_lines() -> Iterator[str]:
    """Errors of next-token and first-token times of laptops and phones."""
    for source in serving_tokens.SOURCES:
        for label, is_first in (("next token", False), ("first token", True)):
            tokens = source.tokens(is_first=is_first)
            times = serving_tokens.held_out(tokens)
            yield f"| {label}, {source.title}, families held out | rows | families | mean | median"
            yield " | within 20 % | in 90 % interval |\n|---|--:|--:|--:|--:|--:|--:|\n"
            for device, count, kin, figures in serving_tokens.error_rows(tokens, times):
                share = serving_tokens.covered(tokens, times, device)
                held = "" if share is None else f"{100 * share:.0f} %"
                yield f"| {device} | {count:,} | {kin} | {_cells(figures)} | {held} |\n"
            yield "\n"


def operator_lines() -> Iterator[str]:
    """Errors of matrix products, by rates that were fitted to whole servers and batches."""
    yield "| matrix products of a layer, Vidur | products | mean | median | within 20 %"
    yield " | predicted / measured |\n"
    yield "|---|--:|--:|--:|--:|--:|\n"
    for label, count, figures, ratio in serving_operators.error_rows():
        yield f"| {label} | {count:,} | {_cells(figures)} | {ratio:.2f} |\n"


def _cells(figures: tuple[float, float, float]) -> str:
    mean, median, within = figures
    return f"{mean:.1f} % | {median:.1f} % | {within:.0f} %"


if __name__ == "__main__":
    main()
