"""A run of the command line, as tests ask for it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from tempfile import TemporaryFile
from unittest.mock import patch

import pytest

from sizeup.cli import main


@dataclass(frozen=True)
class Ended:
    """How a run of the command line ended."""

    code: int
    out: str
    err: str


Run = Callable[..., Ended]


def run_command(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command line 80 columns wide and without a terminal: in this process, which has imported all
    that it needs, or in a subprocess if it needs another environment."""
    words = [str(each) for each in arguments]
    variables = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1", **environment}
    if environment:
        command = [sys.executable, "-m", "sizeup", *words]
        return subprocess.run(
            command, capture_output=True, text=True, encoding="utf-8", env=variables, check=False
        )
    with patch.dict(os.environ, variables), _diverted(1) as out, _diverted(2) as err:
        with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as left:
            main(words)
        return subprocess.CompletedProcess(words, int(left.value.code or 0), _written(out), _written(err))


@contextmanager
def _diverted(descriptor: int) -> Iterator[TextIOWrapper]:
    """A stream on a file, into which all that is written to the descriptor goes, too."""
    with TemporaryFile() as file:
        kept = os.dup(descriptor)
        os.dup2(file.fileno(), descriptor)
        try:
            yield TextIOWrapper(file, encoding="utf-8", write_through=True)
        finally:
            os.dup2(kept, descriptor)
            os.close(kept)


def _written(stream: TextIOWrapper) -> str:
    stream.flush()
    stream.seek(0)
    return stream.read()
