"""Trace every (model, picture size) of timm's benchmark with sizeup: the kernels of eager and compiled runs.

python benchmarks/trace_timm.py                   # build/timm_trace.parquet; about half an hour of one core
python benchmarks/trace_timm.py --out FILE        # elsewhere; SIZEUP_TIMM_TRACE tells the tests where
python benchmarks/trace_timm.py --only resnet     # models whose name holds that word

Models that the file has are skipped, so it can be stopped and started again. What cannot be traced stands
with its reason beside it, in FILE.failed.json, and is tried again with --again.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

import pyarrow
from pyarrow import parquet

from sizeup.errors import SizeupError

ROOT = Path(__file__).resolve().parents[1]
MEASURED = Path(os.environ.get("SIZEUP_SHARED", ROOT.parent / "shared")) / "truth" / "timm_infer.parquet"
sys.path.insert(0, str(ROOT / "tests"))  # what the tests judge with

from latency.truth.own_trace import COLUMNS, PATH, graphs, rows_of  # noqa: E402 - only now on the path

SAVED_EVERY = 50  # models


def wanted(word: str) -> dict[str, list[int]]:
    """Picture sizes by model, of all measurements."""
    table = parquet.read_table(MEASURED, columns=["model", "img"])
    pairs = set(zip(table["model"].to_pylist(), table["img"].to_pylist(), strict=True))
    found: dict[str, list[int]] = {}
    for model, size in sorted(pairs):
        if word in model:
            found.setdefault(model, []).append(int(size))
    return found


class Store:
    """Rows that were traced, in a file that is replaced as a whole."""

    def __init__(self, path: Path) -> None:
        self.path, self.failures = path, path.with_suffix(".failed.json")
        self.tables = [parquet.read_table(path)] if path.exists() else []
        self.rows: list[tuple[Any, ...]] = []
        self.failed: dict[str, str] = json.loads(self.failures.read_text()) if self.failures.exists() else {}

    def has(self) -> set[tuple[str, int]]:
        """The pairs that are there."""
        return {
            pair
            for table in self.tables
            for pair in zip(table["model"].to_pylist(), table["img"].to_pylist(), strict=True)
        }

    def save(self) -> None:
        """Write all that there is, then put it in the place of what was."""
        if self.rows:
            columns = zip(*self.rows, strict=True)
            self.tables.append(pyarrow.table(dict(zip(COLUMNS, map(list, columns), strict=True))))
            self.rows = []
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.tables:
            draft = self.path.with_suffix(".draft")
            parquet.write_table(pyarrow.concat_tables(self.tables), draft)
            draft.replace(self.path)
        self.failures.write_text(json.dumps(self.failed, indent=1, sort_keys=True))


def main() -> None:
    """Trace what is not there yet."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=PATH)
    parser.add_argument("--only", default="", help="a word that the names of models must hold")
    parser.add_argument("--again", action="store_true", help="try those again that failed")
    args = parser.parse_args()
    store = Store(args.out)
    there = store.has()
    todo = {
        model: [s for s in sizes if (model, s) not in there] for model, sizes in wanted(args.only).items()
    }
    known = {} if args.again else store.failed
    models = [model for model, sizes in todo.items() if sizes and model not in known]
    for index, model in enumerate(models, 1):
        try:
            for size, graph in graphs(model, todo[model]):
                store.rows.extend((model, size, *row) for row in rows_of(graph))
            store.failed.pop(model, None)
        except SizeupError as error:
            store.failed[model] = str(error)
        print(f"{index}/{len(models)} {model} {store.failed.get(model, '')}", flush=True)
        if index % SAVED_EVERY == 0:
            store.save()
    store.save()


if __name__ == "__main__":
    main()
