"""Coverage-guided rounds: Atheris chooses which mutants are worth mutating again, our mutators change them.

    python -m fuzzing.coverage TARGET MODE SECONDS SEED KEEP

Findings are kept like those of a worker, and the round goes on. It ends by libFuzzer's own exit.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random

import atheris

from fuzzing.targets import TARGETS, Target, seeds_of

_LONGEST = 100_000


def main(name: str, mode: str, seconds: int, seed: int, keep: Path) -> None:
    """Fuzz one target in this process."""
    target, folder = TARGETS[name], Path(tempfile.mkdtemp(prefix="sizeup-fuzz-"))
    path, seen = folder / f"input{target.suffix}", set[str]()
    keep.mkdir(parents=True, exist_ok=True)
    with atheris.instrument_imports(include=["sizeup"]):
        from fuzzing.verdicts import judge

        run = target.runner(mode)
        for content in seeds_of(target, folder / "seeds", mode):  # most modules are imported on first use
            path.write_bytes(content)
            judge(run, path)

    def one_input(content: bytes) -> None:
        path.unlink(missing_ok=True)
        path.write_bytes(content)
        finding = judge(run, path)[1]
        if finding is not None and finding.signature not in seen:
            seen.add(finding.signature)
            kept = keep / f"{name}-{mode}-coverage-{len(seen)}{target.suffix}"
            kept.write_bytes(content)
            kept.with_suffix(".txt").write_text(f"{finding.signature}\n\n{finding.details}\n", "utf-8")
            sys.stdout.write(f"finding: {finding.signature} {kept}\n")

    arguments = [
        sys.argv[0],
        str(_corpus(target, folder, mode)),
        f"-max_total_time={seconds}",
        f"-seed={seed}",
    ]
    arguments += [f"-max_len={_LONGEST}", "-rss_limit_mb=4096", "-timeout=30", "-print_final_stats=1"]
    atheris.Setup(arguments, one_input, custom_mutator=_mutator(target, mode))
    atheris.Fuzz()


def _corpus(target: Target, folder: Path, mode: str) -> Path:
    corpus = folder / "corpus"
    corpus.mkdir()
    for number, content in enumerate(seeds_of(target, folder / "seeds", mode)):
        (corpus / f"seed{number}").write_bytes(content)
    return corpus


def _mutator(target: Target, mode: str) -> Callable[[bytes, int, int], bytes]:
    mutate = target.load(mode).mutate

    def mutated(content: bytes, longest: int, seed: int) -> bytes:
        return mutate(content, Random(seed))[:longest]

    return mutated


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), Path(sys.argv[5]))
