"""Whether losses of layers add up: the sum of what each layer loses alone, against what all lose together.

python benchmarks/additive_losses.py             # print the table
python benchmarks/additive_losses.py --write     # and write it into docs/precision.md
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

import numpy as np
from scipy import stats

from sizeup.mixed_precision import Bench, Losses, MeasurementOptions, SensitivityTable, Simulation
from sizeup.mixed_precision.table import LossMeasure

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "precision.md"
POOLS = (("fp32", "fp16", "int8", "int4"), ("fp32", "fp16", "int8", "int4", "int2"))
JUDGED: tuple[LossMeasure, ...] = ("kl", "noise", "loss", "accuracy")
TITLES = {"kl": "KL", "noise": "noise", "loss": "cross-entropy", "accuracy": "accuracy lost"}
HEADER = (
    "| network | layers | chosen from | loss | Pearson | Spearman | measured / predicted: median |"
    " 90 % range |\n|---|--:|---|---|--:|--:|--:|--:|\n"
)
WAYS = {
    "as the layers, affine": Simulation(),
    "as the layers, symmetric": Simulation(symmetric=True),
    "as the layers, affine, least error": Simulation(clipping="error"),
    "at least int8": Simulation(activations="int8"),
    "at least int8, least error": Simulation(activations="int8", clipping="error"),
    "float": Simulation(activations="kept"),
}
UNIFORM = ("fp16", "int8", "int4", "int2")
UNIFORM_HEADER = (
    f"| network | activations | fp32 | {' | '.join(UNIFORM)} |\n|---|---|--:|{'--:|' * len(UNIFORM)}\n"
)


def main() -> None:
    """Print one line a network, a set of precisions and a loss; write the page where that is asked for."""
    sys.path.insert(0, str(ROOT / "tests"))  # the networks belong to the tests
    from precision import digits

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=150, help="random assignments a set of precisions")
    parser.add_argument("--write", action="store_true", help="write the table into docs/precision.md")
    args = parser.parse_args()
    train, test = digits.split()
    lines: dict[str, list[str]] = {"additive losses": [HEADER], "uniform precisions": [UNIFORM_HEADER]}
    for name in digits.NETWORKS:
        for way, simulation in WAYS.items():
            bench = Bench(
                digits.trained(name), test.images, test.labels, calibration=train.images, cache=False,
                options=MeasurementOptions(simulation),
            )  # fmt: skip
            lines["uniform precisions"].append(uniform(name, way, bench))
            print(lines["uniform precisions"][-1].rstrip(), flush=True)
        bench = Bench(digits.trained(name), test.images, test.labels, calibration=train.images, cache=False)
        table = bench.sensitivity(POOLS[-1])
        for pool in POOLS:
            chosen = random_assignments(table, pool, args.count)
            found = [bench.measure(each) for each in chosen]
            for judged in JUDGED:
                lines["additive losses"].append(row(name, table, pool, judged, chosen, found))
                print(lines["additive losses"][-1].rstrip(), flush=True)
    for marker, table_lines in lines.items() if args.write else ():
        write(marker, "".join(table_lines))


def write(marker: str, content: str) -> None:
    """Put a table between its markers in the page."""
    block = re.compile(rf"(<!-- {marker} -->\n).*?(<!-- end -->)", re.DOTALL)
    text = PAGE.read_text("utf-8")
    PAGE.write_text(block.sub(lambda match: match[1] + content + match[2], text), "utf-8")


def uniform(name: str, way: str, bench: Bench) -> str:
    """Accuracy and noise with all layers at one precision."""
    found = [bench.measure({layer.op: each for layer in bench.layers}) for each in UNIFORM]
    cells = " | ".join(f"{each.accuracy:.1%}, {each.sqnr_db:.0f} dB" for each in found)
    return f"| {name} | {way} | {bench.baseline().accuracy:.1%} | {cells} |\n"


def random_assignments(table: SensitivityTable, pool: tuple[str, ...], count: int) -> list[dict[int, str]]:
    """Every layer at any precision of a set, each as likely as the others."""
    generator = np.random.default_rng(0)
    return [{layer.op: str(generator.choice(pool)) for layer in table.layers} for _ in range(count)]


def row(
    name: str,
    table: SensitivityTable,
    pool: tuple[str, ...],
    judged: LossMeasure,
    chosen: list[dict[int, str]],
    found: list[Losses],
) -> str:
    """One line of the table."""
    losses = table.losses(judged)
    predicted = np.array([sum(losses[op][wish] for op, wish in each.items()) for each in chosen])
    measured = np.array([table.loss_of(each, judged) for each in found])
    pearson = stats.pearsonr(predicted, measured).statistic
    spearman = stats.spearmanr(predicted, measured).statistic
    spread = ["", ""]
    if judged in ("kl", "noise"):  # the others may be zero, or below it
        low, middle, high = np.quantile(measured / predicted, (0.05, 0.5, 0.95))
        spread = [f"{middle:.2f}", f"{low:.2f} to {high:.2f}"]
    return (
        f"| {name} | {len(table.layers)} | {pool[0]} to {pool[-1]} | {TITLES[judged]} | {pearson:.3f} |"
        f" {spearman:.3f} | {spread[0]} | {spread[1]} |\n"
    )


if __name__ == "__main__":
    main()
