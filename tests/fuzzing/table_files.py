"""Tables, profiles and lists: CSV files, JSON of runtimes, and text that tools print; and what reads them."""

from __future__ import annotations

import functools
import itertools
import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import sizeup
from calibration.test_files import AVERAGES, BENCHMARK
from fuzzing.texts import Settings, changed_lines, changed_tree, json_text, toml
from fuzzing.tflite_models import chain
from fuzzing.values import TEXTS, changed_bytes, integer, number
from sizeup import cost
from sizeup.calibration.calibrate import from_table
from sizeup.checks.baselines import FORMAT, VERSION
from sizeup.checks.prices import read_prices
from sizeup.cost import Cost
from sizeup.errors import BudgetError
from sizeup.mixed_precision.accuracy import read_accuracy
from sizeup.mixed_precision.result_cache import ResultCache
from sizeup.results.precision import read_losses
from sizeup.runtimes.profiles import attribute, by_module, read_profile
from sizeup.serving.times.traffic import read_requests
from sizeup.sweeps.expand import models_of
from sizeup.sweeps.spec import read_spec
from sizeup.targets import write

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_CELLS = (
    "0",
    "1",
    "1.5",
    "-1",
    "int8",
    "rpi5",
    "net.tflite",
    "1e400",
    "nan",
    '"',
    '"a,b"',
    "a;b",
    "0x10",
    "\N{FULLWIDTH DIGIT ONE}",
)
_MOST_MODELS = 50


@dataclass(frozen=True)
class Tables:
    """A mutator of rows and cells; lines and raw bytes of any text."""

    texts: tuple[str, ...]
    separator: str = ","

    def seeds(self, folder: Path) -> list[bytes]:
        """Small valid files."""
        return [each.encode() for each in self.texts]

    def mutate(self, content: bytes, random: Random) -> bytes:
        """Change cells, columns and rows."""
        choice = random.random()
        if choice < 0.15:
            return changed_bytes(content, random)
        if choice < 0.3:
            return changed_lines(content, random)
        rows = [line.split(self.separator) for line in content.decode("utf-8", "replace").split("\n")]
        for _ in range(random.choice((1, 1, 1, 2, 4))):
            _change_rows(rows, random)
        return "\n".join(map(self.separator.join, rows)).encode("utf-8", "surrogatepass")


def _change_rows(rows: list[list[str]], random: Random) -> None:
    row = random.choice(rows)
    at, choice = random.randrange(len(row)), random.randrange(6)
    if choice <= 2:
        row[at] = random.choice((*_CELLS, *TEXTS, str(integer(random)), str(number(random)), row[at] * 2))
    elif choice == 3:
        row.insert(at, random.choice(row))
    elif choice == 4:
        del row[at:]
        row.append("")
    else:
        for each in rows:
            del each[at : at + 1]
            each.extend([""] * (not each))


class _Profiles(Tables):
    """A mutator of profiles, two of which are JSON."""

    def mutate(self, content: bytes, random: Random) -> bytes:
        """Change values of JSON, or words of text."""
        if content[:1] not in (b"[", b"{") or random.random() < 0.2:
            return super().mutate(content, random)
        return Settings((), json.loads, json_text).mutate(content, random)


class _Ours(Settings):
    """A mutator of TOML files with the first line of those that sizeup wrote."""

    def seeds(self, folder: Path) -> list[bytes]:
        """What sizeup writes."""
        folder.mkdir(exist_ok=True)
        path = folder / "own.toml"
        write.save(path, {**_FIT, "name": "rpi4/ort"}, None)
        return [path.read_bytes()]

    def mutate(self, content: bytes, random: Random) -> bytes:
        """Keep the first line, which is no part of the values."""
        return f"{write.HEAD}\n\n".encode() + super().mutate(content.partition(b"\n\n")[2], random)


class _Lines(Tables):
    """A mutator of files with one JSON object per line."""

    def mutate(self, content: bytes, random: Random) -> bytes:
        """Change values of a line, or lines."""
        if random.random() < 0.3:
            return super().mutate(content, random)
        lines = content.decode().split("\n")
        at = random.randrange(len(lines))
        try:
            lines[at] = json_text(changed_tree(json.loads(lines[at]), random))
        except (ValueError, RecursionError):
            lines[at] = "[" * random.choice((3, 2000, 100_000))
        return "\n".join(lines).encode("utf-8", "surrogatepass")


_PRICES = "board,price\nrpi5,80\nstm32f746,12.50\nNUCLEO-F446RE,15\n"
_REQUESTS = "arrival_s,input,output\n0,100,20\n0.5,2000,300\n12.25,1,1\n"
_ACCURACIES = "precision,accuracy,size,note\nfp32,0.982,,a\nint8,0.97,128,b\nint8,0.96,64,c\n"
_TIMES = "model,latency_ms,precision,batch,bind,family\nnet.tflite,1.5,int8,1,,conv\nnet.tflite,2.5,,,,\n"
_LOSSES = '{"maps": {"int8": 0.1, "int4": 0.9}, "pooled": {"int8": 0}}'
_ORT = json.dumps(
    [
        {"cat": "Session", "name": "model_run", "dur": 900},
        {"cat": "Session", "name": "model_run", "dur": 800},
        {"cat": "Node", "name": "maps_kernel_time", "dur": 300, "args": {"op_name": "Conv"}},
        {"cat": "Node", "name": "scores_kernel_time", "dur": 30, "args": {"op_name": "Softmax"}},
    ]
)
_TRACE = json.dumps(
    {
        "traceEvents": [
            {"cat": "cpu_op", "ph": "X", "name": "aten::conv2d", "tid": 1, "ts": 10, "dur": 20},
            {"cat": "cpu_op", "ph": "X", "name": "aten::relu", "tid": 1, "ts": 40, "dur": 5.5},
        ]
    }
)
_CACHE = "\n".join(json.dumps({"key": key, "sqnr_db": 12.5, "kl": None}) for key in ("a:int8", "b:int4"))
_BASELINES = json.dumps(
    {
        "format": FORMAT,
        "version": VERSION,
        "models": [
            {"model": "net.tflite", "macs": 1700, "weights": 80, "peak": 300},
            {
                "model": "net.tflite",
                "target": "stm32f746/tflm",
                "precision": "int8",
                "bind": {"n": 1},
                "macs": 1,
            },
        ],
    }
)
_GROWTH = """\
[[budget]]
models = "net.tflite"
baseline = "baselines.json"
growth = { macs = "5%", weights = "9%" }
"""
_FIT = {
    "name": "rpi5/ort",
    "precisions": ["int8"],
    "measurements": 4,
    "error": 0.19,
    "within": 0.5,
    "tau": 1.0,
    "held_out": "network",
    "source": "measured: by hand",
    "rates": {"schema": 1, "pooled": {"mac": 4.4e-9, "byte": 1e-9, "launch": 1e-6}},
    "band": {"low": -0.4, "high": 0.4},
}

PRICES, REQUESTS, ACCURACIES = Tables((_PRICES,)), Tables((_REQUESTS,)), Tables((_ACCURACIES,))
TIMES, LISTS = Tables((_TIMES,)), Tables(("# models\nnet.tflite\n*.tflite\n./net.*\n",), "/")
PROFILES = _Profiles((_ORT, _TRACE, BENCHMARK, AVERAGES), "\t")
CACHES = _Lines((_CACHE,))
LOSSES, BASELINES = (Settings((each,), json.loads, json_text) for each in (_LOSSES, _BASELINES))
OWN_TARGETS = _Ours((), tomllib.loads, toml)


def prices(path: Path) -> Any:
    """Prices of boards."""
    return dict(read_prices(path).by_board)


def requests(path: Path) -> Any:
    """Recorded requests."""
    found = read_requests(path, 1 << 20)
    return [each.tolist() for each in (found.arrival_s, found.input, found.output)]


def accuracies(path: Path) -> Any:
    """Accuracy by precision, in a table of tradeoffs."""
    read_accuracy(path)
    return sizeup.precision.tradeoff(_net(path), precisions=("fp32", "int8"), accuracy=path).to_dict()


def times(path: Path) -> Any:
    """Measured networks of a calibration."""
    _net(path)
    return [each.seconds for each in from_table(path, ())]


def losses(path: Path) -> Any:
    """Losses by layer and precision."""
    numbers = [loss for row in read_losses(path).values() for loss in row.values()]
    assert all(map(math.isfinite, numbers)), "a loss that no other can be compared with"


def profiles(path: Path) -> Any:
    """The kernels of a profile, attributed to a network."""
    found = read_profile(path)
    rows = by_module(_cost(), attribute(_cost(), found.kernels, ()), None, ())
    return [(row.kernels, row.seconds) for row in rows if row.module is not None], found.seconds


def caches(path: Path) -> Any:
    """Results that are kept between measurements; a line that is no result is left out."""
    folder = path.parent / "cache"
    folder.mkdir(exist_ok=True)
    (folder / "digest.jsonl").write_bytes(path.read_bytes())
    kept = ResultCache(folder, "digest")
    kept.write("new", {"kl": 1})
    assert ResultCache(folder, "digest").find("new") == {"kl": 1}, "a result that was written is not found"


def baselines(path: Path) -> Any:
    """Growth of a network since the amounts of a file, which is then written again."""
    folder = path.parent
    _net(path)
    (folder / "baselines.json").write_bytes(path.read_bytes())
    (folder / "growth.toml").write_text(_GROWTH, "utf-8")
    (check,) = sizeup.check_budgets(folder / "growth.toml", update_baselines=True)
    if check.error:
        raise BudgetError(check.error)
    (again,) = sizeup.check_budgets(folder / "growth.toml")
    assert again.fits, "an unchanged network grew since its own baseline"
    return [each.need for each in check.limits if each.unit != "share"]


def lists(path: Path) -> Any:
    """The models that the lines of a file name."""
    _net(path)
    (path.parent / "sweep.toml").write_text(f'models = "@{path.name}"\ntargets = "rpi5/ort"\n', "utf-8")
    spec = read_spec(path.parent / "sweep.toml")
    return len([*itertools.islice(models_of(spec), _MOST_MODELS)])


def own_targets(path: Path) -> Any:
    """A file of fitted rates to which sizeup adds others: it must read again what it wrote."""
    write.save(path, _FIT, None)
    write.check_writable(path)
    assert str(_FIT["name"]) in path.read_text("utf-8"), "what was saved is not in the file"


def _net(path: Path) -> Path:
    """A network next to a file that names it."""
    model = path.parent / "net.tflite"
    if not model.exists():
        model.write_bytes(chain())
    return model


@functools.cache
def _cost() -> Cost:
    return cost.count(sizeup.load(chain()))
