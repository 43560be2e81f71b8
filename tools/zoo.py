"""Compares the MACs of the models in zoo.toml with torch's own counter, and writes docs/zoo.md."""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import os
import re
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

import zoo_models
from sizeup.cost import count
from sizeup.formats.torch import _record_built
from zoo_models import ZooModel, build_model, models, second_opinion

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "zoo.md"
CACHE = Path.home() / ".cache" / "sizeup" / "zoo.json"
LIBRARIES = ("torch", "torchvision", "timm", "transformers", "diffusers")
_OUR_SOURCES = ("formats/torch", "ops", "cost", "graph")  # what decides the counts
HEAD = """# Models counted twice

`make zoo` builds the {listed} models of `tools/zoo.toml` without downloads, counts the MACs of one inference,
and compares them with `torch.utils.flop_counter`, which shares no code with sizeup. For it, attention is
decomposed and experts are batched matmuls, because it does not count the fused kernels. Compared:
{total}, of which {equal} agree to the last digit. {incomplete}
`tests/truth/test_zoo.py` checks a sample of 40.

{libraries}. {versions}. Seconds are CPU time of recording and counting, without building the model.

| model | MACs | MACs by torch's counter | parameters | verdict | seconds |
|---|---:|---:|---:|---|---:|
"""


def evaluate(model: ZooModel) -> dict[str, Any]:
    """Return our MACs, parameters, operators without a cost rule, and CPU seconds; or the error."""
    built = build_model(model)
    start = time.process_time()
    graph = _record_built(built, built.inputs, built.kwargs)
    cost = count(graph)
    seconds = time.process_time() - start
    unknown = sorted({op.source for op, known in zip(graph.ops, cost.known, strict=True) if not known})
    return {
        "macs": cost.total_macs,
        "params": cost.total_params,
        "unknown": unknown,
        "seconds": round(seconds, 2),
        "ops": len(graph.ops),
    }


def judge(model: ZooModel) -> dict[str, Any]:
    """Return the MACs by torch's counter, and the CPU seconds that takes."""
    start = time.process_time()
    macs = second_opinion(build_model(model, for_oracle=True))
    return {"macs": macs, "seconds": round(time.process_time() - start, 2)}


def verdict(model: ZooModel, ours: dict[str, Any], oracle: dict[str, Any]) -> tuple[bool, str]:
    """Return whether a model is as expected, and the words of the table."""
    if "error" in ours or "error" in oracle:
        return False, ours.get("error") or f"torch's counter: {oracle['error']}"
    if ours["unknown"]:
        return False, f"no cost rule: {', '.join(ours['unknown'])}"
    if ours["macs"] == oracle["macs"]:
        return not model.reason, "equal" if not model.reason else "equal, but a reason is listed"
    return bool(model.reason), model.reason or "**differs**"


class ResultCache:
    """Results by what they depend on, in a file outside the repository."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._entries: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}

    def __contains__(self, key: str) -> bool:
        return key in self._entries

    def get(self, key: str, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return a stored result, or compute and store it; errors are not stored."""
        if key not in self._entries:
            try:
                self._entries[key] = compute()
            except Exception as error:
                return {"error": f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"}
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text(json.dumps(self._entries))
        result: dict[str, Any] = self._entries[key]
        return result


def _digest(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


def _our_digest() -> str:
    folder = ROOT / "src" / "sizeup"
    files = sorted(path for part in _OUR_SOURCES for path in (folder / part).rglob("*.py"))
    return _digest([hashlib.sha256(path.read_bytes()).hexdigest() for path in files])


def _versions() -> dict[str, str]:
    return {name: version(name) for name in LIBRARIES if find_spec(name)}


def recorded_macs() -> dict[str, int]:
    """The MACs by torch's counter that the page lists, of libraries that are installed in its versions."""
    page, installed = PAGE.read_text(), _versions()
    recorded = dict(re.findall(rf"\b({'|'.join(LIBRARIES)}) (\d[\w.+]*\w)", page.partition("| model |")[0]))
    same = {name for name in LIBRARIES if installed.get(name) == recorded.get(name)}
    rows = re.findall(r"^\| `((\w+):[^`]+)` \| [\d,]+ \| ([\d,]+) \|", page, re.MULTILINE)
    return {
        source: int(macs.replace(",", "")) for source, library, macs in rows if {"torch", library} <= same
    }


def run(
    chosen: Iterable[ZooModel], cache: ResultCache, *, only_cached: bool = False
) -> list[tuple[ZooModel, Any, Any, bool, str]]:
    """Return one row per model, and print it; with `only_cached`, of models with earlier results."""
    ours_digest, versions = _our_digest(), _versions()
    oracle_digest = hashlib.sha256(Path(zoo_models.__file__).read_bytes()).hexdigest()
    rows = []
    for model in chosen:
        described = {name: value for name, value in asdict(model).items() if name != "reason"}
        oracle_key = _digest("oracle", oracle_digest, described, versions)
        our_key = _digest(ours_digest, described, versions)
        if only_cached and not (oracle_key in cache and our_key in cache):
            continue
        # Ours first, which leaves no trace: the oracle may leave fake tensors in caches of the model's code.
        ours = cache.get(our_key, partial(evaluate, model))
        oracle = cache.get(oracle_key, partial(judge, model))
        is_expected, words = verdict(model, ours, oracle)
        print(
            f"{'ok ' if is_expected else 'BAD'} {model.source}: {words}",
            ours.get("macs"),
            oracle.get("macs"),
            flush=True,
        )
        rows.append((model, ours, oracle, is_expected, words))
    return rows


def table(rows: list[tuple[ZooModel, Any, Any, bool, str]]) -> str:
    """Return the page."""
    equal = sum(words == "equal" for *_, words in rows)
    incomplete = sum(bool(ours.get("unknown")) for _, ours, *_ in rows)
    counts = Counter(model.library for model, *_ in rows)
    versions = ", ".join(f"{name} {number}" for name, number in _versions().items())
    head = HEAD.format(
        listed=f"{len(models()):,}",
        total=f"{len(rows):,}",
        equal=f"{equal:,}",
        incomplete=f"{incomplete} models have operators without a cost rule."
        if incomplete
        else "All operators of all models have a cost rule.",
        libraries=", ".join(f"{number} of {name}" for name, number in counts.items()) or "None",
        versions=f"Versions: {versions}",
    )
    return head + "".join(
        f"| `{model.source}` | {_number(ours, 'macs')} | {_number(oracle, 'macs')} | "
        f"{_number(ours, 'params')} | {words} | {ours.get('seconds', '')} |\n"
        for model, ours, oracle, _, words in rows
    )


def _number(result: dict[str, Any], name: str) -> str:
    return f"{result[name]:,}" if name in result else "-"


def main() -> int:
    """Run the models; 1 if one is not as expected."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of names; all models by default")
    parser.add_argument("--cache", type=Path, default=CACHE, help="file with the results of earlier runs")
    parser.add_argument("--only-cached", action="store_true", help="write the page from earlier results")
    options = parser.parse_args()
    os.environ["HF_HUB_OFFLINE"] = "1"
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)
    chosen = [m for m in models() if not options.names or any(part in m.source for part in options.names)]
    rows = run(chosen, ResultCache(options.cache), only_cached=options.only_cached)
    if not options.names:
        PAGE.write_text(table(rows))
    bad = [row for row in rows if not row[3]]
    print(f"{len(rows)} models, {len(bad)} not as expected")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
