"""Changes one operator or number of the package at a time, and reports which changes no test notices.

    make coverage                       # once: which tests reach which lines, and how long they take
    python tools/mutants.py --mutants 1000 --seed 0
    python tools/mutants.py --survivors # those that no test found before, with more tests each

One line per change: where, whether a test found it, what it is. The results are kept in build/mutants.json
and written into docs/mutants.md, with the reasons of tools/mutation/survivors.toml. Outside CI: a change
takes seconds.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mutation import choice, page
from mutation.changes import ROOT, Mutant, sample

RESULTS = ROOT / "build" / "mutants.json"
PAGE = ROOT / "docs" / "mutants.md"
NAMES = ("file", "code", "before", "after", "occurrence")  # of a row: what names its mutant
FOLDERS = ("ops", "cost", "memory", "latency", "checks")
# A change is judged by the quickest test functions that reach it: those that take so long together.
SECONDS, SECONDS_OF_SURVIVORS = 10.0, 120.0


def _earlier(chosen: Sequence[Mutant]) -> dict[tuple[object, ...], dict[str, Any]]:
    """The rows of build/mutants.json on these mutants, by what names a mutant."""
    if not RESULTS.exists():
        return {}
    rows = json.loads(RESULTS.read_text("utf-8"))
    by_key = {tuple(row[name] for name in NAMES): row for row in rows}
    return {each.key: {**by_key[each.key], "line": each.line} for each in chosen if each.key in by_key}


def main() -> None:
    """Judges the sample, prints a line each and the score, and writes the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--mutants", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folders", nargs="+", default=FOLDERS)
    parser.add_argument("--jobs", type=int, default=1, help="mutants judged at once")
    parser.add_argument(
        "--survivors", action="store_true", help="only those not found before, with more tests"
    )
    parser.add_argument("--page", action="store_true", help="only write the page from earlier results")
    options = parser.parse_args()
    chosen = sample(options.mutants, options.seed, options.folders)
    rows = _earlier(chosen) if options.survivors or options.page else {}
    if options.survivors:
        chosen = [each for each in chosen if not rows.get(each.key, {"found": False})["found"]]
    if not options.page:
        from mutation import judge

        for path in (choice.DATA, choice.DURATIONS, page.COVERAGE):
            if not path.exists():
                raise SystemExit(f"{path.relative_to(ROOT)} does not exist: run make coverage")

        def report(verdict: judge.Verdict) -> None:
            rows[verdict.mutant.key] = verdict.row()
            print(verdict.line(), flush=True)
            RESULTS.write_text(json.dumps(list(rows.values()), indent=0), "utf-8")

        seconds = SECONDS_OF_SURVIVORS if options.survivors else SECONDS
        tasks = []
        for each in chosen:
            is_at_import = judge.is_at_import(each)
            tests = choice.tests_of(each, seconds, is_at_import=is_at_import)
            tasks.append(judge.Task(each, tests, is_at_import, choice.seconds_of(tests)))
        with tempfile.TemporaryDirectory() as folder:
            judge.judge(tasks, options.jobs, Path(folder), report)
    PAGE.write_text(page.page(list(rows.values()), options.seed, SECONDS, SECONDS_OF_SURVIVORS), "utf-8")
    found = sum(row["found"] for row in rows.values())
    print(f"{found:,} of {len(rows):,} mutants found ({found / max(len(rows), 1):.1%}), seed {options.seed}")


if __name__ == "__main__":
    main()
