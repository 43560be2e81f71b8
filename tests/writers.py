"""Every writer of sizeup on a disk that takes 32 bytes: `python writers.py FOLDER` prints each outcome.

In a process of its own, because the limit holds for all that a process writes.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path

import onnx

import sizeup
from formats.onnx.making import branches
from formats.tflite.factory import File
from sizeup.cli.completion import patch_zsh_script
from sizeup.compat import hardware, tflite_tools
from sizeup.errors import WriteError
from sizeup.sweeps import Store, compact
from sizeup.sweeps.schema import batch_of
from sizeup.targets import write as targets

# Two writers look at what is there.
OLD = {"target.toml": targets.HEAD.encode(), "_sizeup": b"compdef _sizeup_completion sizeup\n" * 9}
CALIBRATION = {
    "name": "rpi5/ort",
    "precisions": ["fp32"],
    "measurements": 3,
    "error": 0.1,
    "held_out": "network",
    "source": "measured: a test",
    "recorded": "2026-11-19",
    "rates": {"schema": 1, "pooled": {"mac": 1e-9, "byte": 1e-9, "launch": 1e-6}},
    "band": {"low": -0.1, "high": 0.1},
}
MODE = 0o640
MOST_BYTES = 32

Write = Callable[[Path], object]


@contextmanager
def full_disk() -> Iterator[None]:
    """Writing beyond the limit fails as on a full disk, with an error of the system (EFBIG)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_BYTES, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def tflite_file() -> bytes:
    file = File()
    tensors = [file.main.tensor(name, (1, 64)) for name in "xyz"]
    for one, other in pairwise(tensors):
        file.main.op("RELU", [one], [other])
    file.main.ends(tensors[:1], tensors[-1:])
    return file.pack()


def writers(folder: Path) -> Iterator[tuple[str, Write]]:
    """The name of an output and what writes it, everything else prepared."""
    onnx.save(branches(), folder / "in.onnx")
    (folder / "in.tflite").write_bytes(tflite_file())
    model, micro = folder / "in.onnx", folder / "in.tflite"
    report = sizeup.analyze(model, target="rpi5/ort")
    for ending in ("html", "md", "csv", "json", "trace.json", "overlay.json", "onnx"):
        yield f"report.{ending}", report.save
    for name in ("memory.png", "memory.svg", "x.roofline.png", "x.modules.svg"):
        yield name, report.plot
    plan = sizeup.plan(model)
    for ending in ("json", "csv"):
        yield f"plan.{ending}", plan.save
    yield "plan.png", plan.plot
    comparison = sizeup.compare(report, sizeup.analyze(micro))
    for ending in ("json", "csv", "md"):
        yield f"comparison.{ending}", comparison.save
    check = sizeup.check(model, macs=1, remedies=False)
    for ending in ("json", "md", "xml"):
        yield f"check.{ending}", check.save
    tradeoff = sizeup.precision.tradeoff(model, target="rpi5/ort")
    for ending in ("json", "csv", "md", "html"):
        yield f"tradeoff.{ending}", tradeoff.save
    yield "tradeoff.png", tradeoff.plot
    front = sizeup.precision.front(model)
    for ending in ("json", "csv"):
        yield f"front.{ending}", front.save
    yield "fits.json", sizeup.precision.fits(model, "1 KiB").save
    chosen = sizeup.precision.choose(model)
    yield "precision.json", chosen.save
    yield "recipe.json", chosen.write_recipe
    yield "measured.json", sizeup.measure(model, seconds=0.01, profile=False).save
    yield "smaller.onnx", partial(sizeup.optimize, model, verify=False)
    yield "smaller.tflite", partial(sizeup.optimize, micro, verify=False)
    yield "target.toml", lambda path: targets.save(path, CALIBRATION, None)
    yield from sweep_writers(folder)
    yield from compat_writers(micro)


def sweep_writers(folder: Path) -> Iterator[tuple[str, Write]]:
    sizeup.sweep(
        {"models": [str(folder / "in.onnx")], "targets": ["rpi5/ort"]}, folder / "swept", in_process=True
    )
    answer = sizeup.query(folder / "swept")
    for ending in ("csv", "parquet", "json", "html"):
        yield f"answer.{ending}", answer.save
    rows = {"key": [str(number) for number in range(100)]}
    yield "shard.parquet", lambda path: Store(path.parent).write(path.name, [batch_of(rows, 100)])
    yield "table/current.json", lambda path: _compact(folder / "swept", path)


def _compact(store: Path, path: Path) -> None:
    """The manifest of a store that is there, in the folder of another name."""
    shards = path.parent.parent / "shards"
    if not shards.exists():
        shutil.copytree(store / "shards", shards, copy_function=os.link)
    compact(Store(path.parent.parent))


def compat_writers(micro: Path) -> Iterator[tuple[str, Write]]:
    model = tflite_tools.TFLiteModel.load_from_file(micro)
    yield "written.tflite", model.write_to_file
    yield "tensor_details.csv", lambda path: model.output_model_analysis_to_csv(path.parent)
    from sizeup.render.data.frames import frame_of

    table = frame_of({"layer": ["a" * 99], "activation_bytes": [1], "macs": [1]})
    yield (
        "layerwise_breakdown.csv",
        lambda path: hardware.save_hardware_artifacts(path.parent, table, table, {"a": 1.0}),
    )
    yield ".zfunc/_sizeup", lambda path: patch_zsh_script(path.parent.parent)


def outcome(name: str, write: Write, folder: Path) -> dict[str, object]:
    """What a full disk left, and what became of the file when there was room."""
    path = folder / name
    old = OLD.get(path.name, b"old content")
    path.parent.mkdir(parents=True)
    path.write_bytes(old)
    path.chmod(MODE)
    with full_disk():
        try:
            write(path)
            error = None
        except BaseException as raised:
            error = f"{type(raised).__name__}: {raised}" if isinstance(raised, WriteError) else repr(raised)
    left = {"error": error, "old": path.read_bytes() == old, "mode": stat.S_IMODE(path.stat().st_mode)}
    others = sorted(str(each) for each in folder.rglob("*") if each.name.endswith(".unfinished"))
    write(path)
    return {
        **left,
        "others": others,
        "new": path.read_bytes() != old,
        "new_mode": stat.S_IMODE(path.stat().st_mode),
    }


def main(folder: Path) -> None:
    """Print one line a writer."""
    for number, (name, write) in enumerate(writers(folder)):
        print(json.dumps({"name": name, **outcome(name, write, folder / str(number))}), file=sys.__stdout__)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
