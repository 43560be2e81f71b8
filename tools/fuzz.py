"""Fuzzes the loaders with mutated model files and settings.

Each input ends in a result, a SizeupError or a finding.

    python tools/fuzz.py tflite --inputs 500000 --seed 1 --workers 1
    python tools/fuzz.py onnx --mode plan --inputs 20000 --seconds 600
    python tools/fuzz.py toml --inputs 200000
    python tools/fuzz.py tflite --replay FILE

See docs/fuzzing.md.
"""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

_ADVICE = "see Setting up in CONTRIBUTING.md"
try:  # after tests/ was added to the path
    from fuzzing.supervisor import SetupError, Summary, fuzz, report, write
    from fuzzing.targets import COMPARED, GROUPS, TARGETS
    from fuzzing.verdicts import judge
except ImportError as missing:
    sys.stderr.write(f"fuzz.py: error: {missing}; {_ADVICE}\n")
    sys.exit(2)


def main() -> int:
    """Runs the fuzzer; returns 1 if there are findings, 2 if it cannot run or a round ended early."""
    arguments = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # workers end with it
    try:
        return _run(arguments, GROUPS.get(arguments.target, (arguments.target,)))
    except (ImportError, SetupError) as error:
        sys.stderr.write(f"fuzz.py: error: {error}; {_ADVICE}\n")
        return 2


def _run(arguments: argparse.Namespace, names: Sequence[str]) -> int:
    if arguments.replay is not None:
        return _replay(names[0], arguments.mode, arguments.replay)
    if arguments.coverage:
        _check_atheris()
        return _guided(names[0], arguments)
    findings, failures = 0, 0
    for name in names:
        summary = _round(name, arguments, len(names))
        write(report(summary))
        findings += summary.findings
        failures += bool(summary.failure)
    return 2 if failures else 1 if findings else 0


def _round(name: str, arguments: argparse.Namespace, of: int) -> Summary:
    """Fuzzes one target with its share of the inputs and seconds."""
    inputs, seconds = arguments.inputs // of, arguments.seconds and arguments.seconds / of
    settings = {"seed": arguments.seed, "first": arguments.first, "inputs": inputs, "seconds": seconds}
    if arguments.mode == "differential":
        from fuzzing.differential import compare

        return compare(name, keep=arguments.keep, **settings)
    return fuzz(name, arguments.mode, workers=arguments.workers, keep=arguments.keep, **settings)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target", choices=[*TARGETS, *GROUPS])
    parser.add_argument("--mode", default="analyze", help="command to run on each input (default: analyze)")
    parser.add_argument("--inputs", type=int, default=10_000, help="number of mutants (default: 10,000)")
    parser.add_argument("--seed", type=int, default=1, help="random seed (default: 1)")
    parser.add_argument("--first", type=int, default=0, help="index of the first mutant (default: 0)")
    parser.add_argument("--workers", type=int, default=1, help="processes (default: 1)")
    parser.add_argument("--seconds", type=float, help="stop after this many seconds")
    parser.add_argument(
        "--coverage", action="store_true", help="let Atheris guide the mutations (needs atheris)"
    )
    parser.add_argument("--keep", type=Path, help="folder for the smallest input of each cause")
    parser.add_argument(
        "--replay", type=Path, metavar="FILE", help="run one kept input and print its finding"
    )
    arguments = parser.parse_args()
    modes = _modes(arguments.target, arguments.replay is not None or arguments.coverage)
    if arguments.mode not in modes:
        parser.error(f"{arguments.target} has no mode {arguments.mode!r}; choose from {', '.join(modes)}")
    if arguments.replay is not None and not arguments.replay.is_file():
        parser.error(f"--replay: no file {arguments.replay}")
    return arguments


def _modes(name: str, is_single: bool) -> list[str]:
    """The modes of a target, or of all in a group; single inputs are not compared with a runtime."""
    is_compared = name in COMPARED and not is_single
    first, *others = (TARGETS[each].modes for each in GROUPS.get(name, (name,)))
    modes = [mode for mode in first if all(mode in each for each in others)]
    return [*modes, *["differential"] * is_compared]


def _check_atheris() -> None:
    try:
        importlib.import_module("atheris")
    except ImportError as error:
        raise SetupError("--coverage needs atheris (pip install --group fuzz)") from error


def _guided(name: str, arguments: argparse.Namespace) -> int:
    """A coverage-guided round in a subprocess, which libFuzzer ends."""
    seconds, keep = int(arguments.seconds or 60), arguments.keep or Path("fuzz-findings")
    command = [sys.executable, "-m", "fuzzing.coverage", name, arguments.mode, str(seconds)]
    path = os.pathsep.join([str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")])
    command += [str(arguments.seed), str(keep)]
    return subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, check=False).returncode


def _replay(name: str, mode: str, path: Path) -> int:
    has_result, finding = judge(TARGETS[name].runner(mode), path)
    if finding is None:
        write("a result" if has_result else "refused with a SizeupError")
        return 0
    write(f"{finding.signature}\n{finding.details}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
