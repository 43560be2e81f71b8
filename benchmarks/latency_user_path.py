"""Estimates of `sizeup.estimate` for real models, next to public measurements, by basis and device class.

python benchmarks/latency_user_path.py                       # print the tables
python benchmarks/latency_user_path.py --write               # and write them into docs/latency-user-path.md
python benchmarks/latency_user_path.py --only ncnn           # sources with that text in their name
python benchmarks/latency_user_path.py --answers FILE.jsonl  # keep answers, continue with those in the file

Each network is recorded once per input shape: all of them take about five minutes of one core. Answers in a
file are those of the sizeup that wrote it: delete the file after a change.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from user_path.evaluate import Answer
    from user_path.pairs import Pair

ROOT = Path(__file__).resolve().parents[1]
SHARED = Path(os.environ.get("SIZEUP_SHARED", ROOT.parent / "shared"))
PAGE = ROOT / "docs" / "latency-user-path.md"
BLOCK = "answers"


def main() -> None:
    """Print the tables, and write the page with `--write`."""
    sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests")]  # readers of the tables belong to the tests
    from fitting.page import with_block
    from user_path.page import tables
    from user_path.sources import pairs

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", default="", help="text that the names of sources contain")
    parser.add_argument("--answers", type=Path, help="file of answers to continue with and to extend")
    parser.add_argument("--write", action="store_true", help=f"write the tables into docs/{PAGE.name}")
    args = parser.parse_args()
    if args.write and args.only:
        sys.exit("--write needs the answers of all sources: leave out --only")
    answers = list(kept_answers(list(pairs(SHARED / "truth", args.only)), args.answers))
    text = tables(answers)
    print(text)
    if args.write:
        PAGE.write_text(with_block(PAGE.read_text("utf-8"), BLOCK, text), "utf-8")


def kept_answers(pairs: list[Pair], file: Path | None) -> Iterator[Answer]:
    """The answers for all pairs; those in a file are not computed again, and new ones are appended to it."""
    from user_path.evaluate import Answer, answers, label

    lines = file.read_text("utf-8").splitlines() if file is not None and file.exists() else []
    kept = {label(answer): answer for answer in (Answer(**json.loads(line)) for line in lines)}
    yield from (kept[label(pair)] for pair in pairs if label(pair) in kept)
    missing = [pair for pair in pairs if label(pair) not in kept]
    for answer in answers(missing, SHARED / "truth", SHARED / "models"):
        if file is not None:
            with file.open("a", encoding="utf-8") as output:
                output.write(json.dumps(answer._asdict()) + "\n")
        yield answer
        print(f"{answer.network} on {answer.target}: {answer.ratio:.2f}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
