"""What TFLite Micro's real interpreter allocates: the oracle for everything said of its arena.

It runs in a process of its own, because it reports on the process's error stream and because a model that
it cannot take may end the process. This file is both sides: imported it asks, run it answers.
The answers do not depend on the package: tools/mutants.py lets them be kept, in the folder REMEMBERED.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

# A multiple of 16, as the arenas of boards are: the tail begins at the end.
ARENA_BYTES = 16 << 20
SMALL_ARENA_BYTES = 1 << 18
_SHARED = 32  # models that run in one copy of the process
REMEMBERED = "SIZEUP_INTERPRETER_ANSWERS"
"""The environment variable with the folder of answers that are kept."""


class Measured(NamedTuple):
    """The arena as the interpreter reports it, or why there is none."""

    head: int
    tail: int
    failure: str = ""


def _remembered(question: str, models: Sequence[Path | bytes], ask: Callable[[], list[Any]]) -> list[Any]:
    """The answers to a question about models: those that were kept, if there is a folder for them."""
    folder = os.environ.get(REMEMBERED)
    if not folder:
        return ask()
    contents = (each if isinstance(each, bytes) else each.read_bytes() for each in models)
    names = [question, *(hashlib.sha256(content).hexdigest() for content in contents)]
    path = Path(folder, hashlib.sha256(" ".join(names).encode()).hexdigest())
    if path.exists():
        return list(json.loads(path.read_text("utf-8")))
    answers = ask()
    new = path.with_suffix(f".{os.getpid()}")
    new.write_text(json.dumps(answers), "utf-8")
    new.replace(path)
    return answers


def measure(models: Sequence[Path | bytes]) -> list[Measured]:
    """Load every model in the interpreter and read its report."""
    return [Measured(*each) for each in _remembered("measure", models, lambda: list(_measure(models)))]


def _measure(models: Sequence[Path | bytes]) -> list[Measured]:
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for number, model in enumerate(models):
            path = Path(folder, f"{number}.tflite") if isinstance(model, bytes) else model
            if isinstance(model, bytes):
                path.write_bytes(model)
            paths.append(str(path))
        found: list[Measured] = []
        while len(found) < len(paths):
            found += _ask(paths[len(found) :])
        return found


def _ask(paths: list[str]) -> list[Measured]:
    """As many answers as the interpreter lives to give, and one more where it dies."""
    run = subprocess.run(
        [sys.executable, __file__, *paths],
        capture_output=True,
        text=True,
        check=False,
    )
    answers = [Measured(*json.loads(line)) for line in run.stdout.splitlines()]
    if len(answers) < len(paths):
        answers.append(Measured(0, 0, f"the process ended with {run.returncode}: {run.stderr[-300:]}"))
    return answers


def works(models: Sequence[tuple[Path | bytes, int]]) -> list[bool]:
    """Whether each model can be set up in an arena of that many bytes."""
    sizes = " ".join(str(size) for _, size in models)
    return _remembered(f"works {sizes}", [model for model, _ in models], lambda: _works(models))


def _works(models: Sequence[tuple[Path | bytes, int]]) -> list[bool]:
    with tempfile.TemporaryDirectory() as folder:
        arguments = []
        for number, (model, size) in enumerate(models):
            path = Path(folder, f"{number}.tflite") if isinstance(model, bytes) else model
            if isinstance(model, bytes):
                path.write_bytes(model)
            arguments.append(f"{size}:{path}")
        found: list[bool] = []
        while len(found) < len(arguments):
            command = [sys.executable, __file__, "--fits", *arguments[len(found) :]]
            run = subprocess.run(command, capture_output=True, text=True, check=False)
            answers = [line == "True" for line in run.stdout.splitlines()]
            # An arena that is too small may end the process, too.
            found += answers if len(answers) + len(found) == len(arguments) else [*answers, False]
        return found


def runs(models: Sequence[bytes]) -> list[bool]:
    """Whether each model can be set up and run on inputs of ones; a model that ends the process cannot."""
    return _remembered("runs", models, lambda: _verdicts(models))


def _verdicts(models: Sequence[bytes]) -> list[bool]:
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, f"{number}.tflite") for number in range(len(models))]
        for path, model in zip(paths, models, strict=True):
            path.write_bytes(model)
        verdicts: list[bool] = []
        while len(verdicts) < len(paths):
            command = [sys.executable, __file__, "--runs", *map(str, paths[len(verdicts) :])]
            run = subprocess.run(command, capture_output=True, text=True, check=False)
            answers = [line == "True" for line in run.stdout.splitlines()]
            verdicts += answers if len(answers) + len(verdicts) == len(paths) else [*answers, False]
        return verdicts


def _survivals(paths: Sequence[str]) -> Iterator[bool]:
    """Whether each runs in a copy of this process, which a model may end.

    Copies take most of the time, so some models share one. Its end may be the work of an earlier model:
    the model at which it ends has a second copy, of its own.
    """
    done = 0
    while done < len(paths):
        shared = paths[done : done + _SHARED]
        answers = _answers_of_copy(shared)
        if len(answers) < len(shared):
            answers.append(_answers_of_copy([shared[len(answers)]]) == [True])
        yield from answers
        done += len(answers)


def _answers_of_copy(paths: Sequence[str]) -> list[bool]:
    """As many answers as a copy of this process lives to give."""
    readable, writable = os.pipe()
    identity = os.fork()
    if identity == 0:
        try:
            for path in paths:
                os.write(writable, bytes([_runs(path)]))
        finally:
            os._exit(0)
    os.close(writable)
    with os.fdopen(readable, "rb") as answers:
        found = [bool(answer) for answer in answers.read()]
    os.waitpid(identity, 0)
    return found


def _runs(path: str) -> bool:
    import numpy as np
    from tflite_micro import runtime

    content = Path(path).read_bytes()
    try:
        interpreter = runtime.Interpreter.from_bytes(content, arena_size=SMALL_ARENA_BYTES)
        for number in range(_input_count(content)):
            details = interpreter.get_input_details(number)
            interpreter.set_input(np.ones(details["shape"], details["dtype"]), number)
        interpreter.invoke()
    except RuntimeError:
        return False
    return True


def _input_count(content: bytes) -> int:
    from ai_edge_litert import schema_py_generated as schema

    return int(schema.Model.GetRootAs(content).Subgraphs(0).InputsLength())


def _fits(argument: str) -> bool:
    from tflite_micro import runtime

    size, _, path = argument.partition(":")
    try:
        runtime.Interpreter.from_file(path, arena_size=int(size))
    except RuntimeError:
        return False
    return True


def _answer(path: str) -> tuple[int, int, str]:
    from tflite_micro import runtime

    with tempfile.TemporaryFile() as report:
        kept = os.dup(2)
        os.dup2(report.fileno(), 2)
        try:
            runtime.Interpreter.from_file(path, arena_size=ARENA_BYTES).print_allocations()
        except RuntimeError:
            pass
        finally:
            os.dup2(kept, 2)
            os.close(kept)
        report.seek(0)
        text = report.read().decode("utf-8", "replace")
    sizes = dict(re.findall(r"Arena allocation (head|tail) (\d+) bytes", text))
    if sizes:
        return int(sizes["head"]), int(sizes["tail"]), ""
    return 0, 0, text.strip() or "no report"


if __name__ == "__main__":
    mode, *arguments = sys.argv[1:]
    answers: Iterable[object]
    if mode == "--runs":
        # Every copy of the process has them.
        from ai_edge_litert import schema_py_generated  # noqa: F401
        from tflite_micro import runtime  # noqa: F401

        answers = _survivals(arguments)
    elif mode == "--fits":
        answers = map(_fits, arguments)
    else:
        answers = (json.dumps(_answer(path)) for path in sys.argv[1:])
    for answer in answers:
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()
