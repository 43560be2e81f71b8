"""Models that take too much memory to be run are left as they are, and no memory is taken for them."""

from __future__ import annotations

import resource
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

pytest.importorskip("ai_edge_litert")

from formats.tflite.factory import File
from sizeup.errors import RunFailed
from sizeup.rewrite.verify import find_verifier
from sizeup.runtimes import random_samples

pytestmark = pytest.mark.extras

_LIMIT = 6 << 30


def _chain(*shapes: tuple[int, ...], kind: str = "FLOAT32") -> File:
    """A chain of shapes that only exists in the file: it is too large to run."""
    file = File()
    outputs = [file.main.tensor(f"t{number}", shape, kind) for number, shape in enumerate(shapes)]
    for source, result in pairwise(outputs):
        file.main.op("NobodyKnows", [source], [result])
    file.main.ends(outputs[:1], outputs[-1:])
    return file


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_LIMIT, _LIMIT))


def test_a_model_of_gigabytes_is_not_run(tmp_path: Path) -> None:
    source, target = tmp_path / "given.tflite", tmp_path / "made.tflite"
    source.write_bytes(_chain(*[(40_000, 40_000)] * 3).pack())
    command = [sys.executable, "-m", "sizeup", "optimize", str(source), "-o", str(target), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=_limit)
    assert "Traceback" not in done.stderr
    assert "one inference needs 12,800,000,000 B of memory" in done.stdout
    assert "nothing was changed, because nothing can be verified" in done.stdout
    assert target.read_bytes() == source.read_bytes()


def test_many_samples_are_too_many_before_one_is() -> None:
    """Two inputs of 120 MB, six times: 1.44 GB."""
    file = File()
    inputs = [file.main.tensor(name, (3_000, 10_000)) for name in ("a", "b")]
    outputs = file.main.tensor("made", (1,))
    file.main.op("NobodyKnows", inputs, [outputs])
    file.main.ends(inputs, [outputs])
    with pytest.raises(RunFailed, match="inputs of 6 runs need 1,440,000,000 B"):
        random_samples(file.load(), 6)


def test_many_numbers_are_too_many_even_if_each_is_small() -> None:
    with pytest.raises(RunFailed, match="'t0': 40,000,000 elements are too many"):
        random_samples(_chain((4_000, 10_000), (1,), kind="INT8").load(), 1)


def test_outputs_are_kept_too() -> None:
    file = _chain((1,), (5_000, 10_000))
    judge, reasons = find_verifier(file.load(), file.pack(), ("litert",))
    assert judge is None
    assert reasons == ["outputs of 6 runs need 1,200,000,000 B of memory; the limit is 1,073,741,824 B"]
