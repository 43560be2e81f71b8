"""Sensitivity: losses measured with one layer at a time, or a whole assignment, at other dtypes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias

import numpy as np

from sizeup import dtypes
from sizeup.dtypes import DType, precision_name
from sizeup.errors import RunFailed, SizeupError
from sizeup.formats.simulated_rounding import Array, Roundings
from sizeup.mixed_precision.layers import layers, match_layers
from sizeup.mixed_precision.losses import (
    Losses,
    Meaning,
    OutputInterpretation,
    losses,
    losses_from,
    number,
    plain,
)
from sizeup.mixed_precision.result_cache import Cache, ResultCache
from sizeup.mixed_precision.runners import Runner, runner_of
from sizeup.mixed_precision.simulation import Simulation, Simulator, check_dtype
from sizeup.mixed_precision.table import Baseline, DataSource, Sensitivity, SensitivityTable, load_data

# Increased whenever the same measurement would give other numbers.
_METHOD = 1
_BATCH = 64
DEFAULT_PRECISIONS = ("fp16", "int8", "int4", "int2")

# Precisions or dtypes by op, or precisions by name as in a precision map.
Assignment: TypeAlias = Mapping[int, str | DType] | Mapping[str, str]
# Steps done, total steps, next step.
Progress: TypeAlias = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True)
class MeasurementOptions:
    """How to measure; `output` selects one of the network's outputs.

    `meaning` None takes outputs for logits, or for probabilities if the network ends in a softmax.
    """

    simulation: Simulation = field(default_factory=Simulation)
    meaning: Meaning | None = None
    axis: int = -1
    output: int = 0
    batch: int = _BATCH


class Bench:
    """A network with data, which measures losses; results are cached."""

    def __init__(
        self,
        source: Any,
        data: DataSource,
        labels: Any = None,
        *,
        calibration: DataSource = None,
        options: MeasurementOptions | None = None,
        kwargs: Mapping[str, Any] | None = None,
        cache: Cache = None,
    ) -> None:
        self.options = options or MeasurementOptions()
        self.data = load_data(data, labels)
        self.calibration = self.data if calibration is None else load_data(calibration)
        self._runner: Runner = runner_of(source, self.data, kwargs, self.options.batch)
        self.graph, self.layers = self._runner.graph, layers(self._runner.graph)
        self._simulator = Simulator(self.graph, self._runner.channel_axis, self.options.simulation)
        self._reading = OutputInterpretation(
            self.options.meaning or self._detect_meaning(), self.options.axis
        )
        self._store = ResultCache(cache, self._digest())
        self._batches: list[tuple[Array, ...]] | None = None
        self._expected: Array | None = None
        self.runs = 0  # runs of the network over the evaluation data

    @property
    def title(self) -> str:
        """The runtime that runs the network."""
        return self._runner.title

    @property
    def meaning(self) -> Meaning:
        """How the outputs are interpreted."""
        return self._reading.meaning

    def close(self) -> None:
        """Closes the runner."""
        self._runner.close()

    def baseline(self) -> Baseline:
        """Returns accuracy and cross-entropy of the float network."""
        cached = self._store.find("float")
        if cached is not None:
            try:
                return Baseline(number(cached["accuracy"]), number(cached["cross_entropy"]))
            except (LookupError, TypeError, ValueError):
                pass  # corrupt: measure again
        outputs, labels = self._float_outputs(), self.data.labels
        baseline = Baseline()
        if labels is not None:
            accuracy = self._reading.accuracy(outputs, labels)
            baseline = Baseline(accuracy, self._reading.cross_entropy(outputs, labels))
        self._store.write("float", {name: plain(value) for name, value in asdict(baseline).items()})
        return baseline

    def measure(self, assignment: Assignment) -> Losses:
        """Returns the losses with layers at the assigned dtypes, the others unchanged."""
        by_op = self.resolve(assignment)
        key = self.key(by_op)
        cached = self._store.find(key)
        if cached is not None:
            try:
                return losses_from(cached)
            except (LookupError, TypeError, ValueError):
                pass  # corrupt: measure again
        expected = self._float_outputs()
        measured = losses(expected, self.outputs(by_op), self.data.labels, self._reading)
        self._store.write(key, measured.to_dict())
        return measured

    def outputs(self, assignment: Assignment) -> Array:
        """Returns the outputs on the evaluation data."""
        self._calibrate()
        return self._run(self._simulator.roundings(self.resolve(assignment)))

    def sensitivity(
        self, precisions: Sequence[str] = DEFAULT_PRECISIONS, progress: Progress | None = None
    ) -> SensitivityTable:
        """Measures every layer alone at every precision, and all layers together at each."""
        names = [precision_name(_dtype_of(precision)) for precision in precisions]
        float_name = precision_name(dtypes.DTYPES["float32"])
        names = [name for name in dict.fromkeys(names) if name != float_name]
        jobs = [(layer, name) for layer in self.layers for name in names]
        total = len(jobs) + len(names)
        rows: list[Sensitivity] = []
        for layer, name in jobs:
            if progress is not None:
                progress(len(rows), total, f"{layer.name} at {name}")
            rows.append(Sensitivity(layer, name, *_values(self.measure({layer.op: name}))))
        uniform: dict[str, Losses] = {}
        for name in names:
            if progress is not None:
                progress(len(rows) + len(uniform), total, f"all layers at {name}")
            uniform[name] = self.measure({layer.op: name for layer in self.layers})
        table = SensitivityTable(
            self.graph.name, self.layers, (float_name, *names), tuple(rows), self.baseline(), uniform,
            {**_plain_options(self.options), "meaning": self.meaning}, self.notes(names),
        )  # fmt: skip
        if progress is not None:
            progress(total, total, "")
        return table

    def notes(self, precisions: Sequence[str]) -> tuple[str, ...]:
        """Returns the conditions of the measurement, for the reader."""
        notes = [f"measured in {self.title} on {len(self.data):,} samples, with 32-bit accumulation"]
        simulated = [name for name in precisions if _dtype_of(name).bits < 8]
        if simulated:
            notes.append(f"{', '.join(simulated)}: simulated by rounding")
        if self.calibration is self.data:
            notes.append("activation ranges come from the evaluation data itself")
        if self.options.meaning is None:
            notes.append(f"outputs are interpreted as {self.meaning}")
        return tuple(notes)

    def resolve(self, assignment: Assignment) -> dict[int, DType]:
        """Returns the dtypes by op, in the order of the graph."""
        by_name = {key: str(value) for key, value in assignment.items() if isinstance(key, str)}
        match = match_layers(self.graph, by_name)
        if match.unmatched:
            raise SizeupError(f"no layer matches {', '.join(map(repr, match.unmatched))}")
        for key, value in assignment.items():
            if not isinstance(key, str):
                if not 0 <= key < len(self.graph.ops):
                    raise SizeupError(f"operator {key} is out of range (0 to {len(self.graph.ops) - 1:,})")
                match.dtypes[key] = _dtype_of(value)
        for dtype in match.dtypes.values():
            check_dtype(dtype)
        return dict(sorted(match.dtypes.items()))

    def key(self, assignment: Mapping[int, DType]) -> str:
        """Returns the cache key of an assignment; layers that keep their dtype are not part of it."""
        unchanged = {layer.op for layer in self.layers if self._keeps_dtype(layer.op, assignment)}
        return json.dumps({str(op): dtype.name for op, dtype in assignment.items() if op not in unchanged})

    def _keeps_dtype(self, op: int, assignment: Mapping[int, DType]) -> bool:
        output = self.graph.tensors[self.graph.ops[op].outputs[0]]
        return assignment.get(op) is output.dtype

    def _digest(self) -> str:
        """Returns the digest of the model, the data, the settings and the method."""
        parts = [
            str(_METHOD), self._runner.title, self._runner.fingerprint(), self.data.digest(),
            self.calibration.digest(), json.dumps(_plain_options(self.options)), self._reading.meaning,
        ]  # fmt: skip
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def _detect_meaning(self) -> Meaning:
        """Returns probabilities if the network ends in a softmax, else logits."""
        index = min(self.options.output, len(self.graph.outputs) - 1)
        output = self.graph.outputs[index]
        writer = next((op for op in self.graph.ops if output in op.outputs), None)
        is_softmax = writer is not None and writer.kind == "softmax" and "log" not in writer.source.lower()
        return "probabilities" if is_softmax else "logits"

    def _calibrate(self) -> None:
        if self._batches is None:
            size = self._runner.batch
            tensors = self._simulator.observed_tensors
            batches = self.calibration.batches(size or self.options.batch, padded=size is not None)
            self._simulator.set_observed(self._runner.observe(batches, tensors))
            self._batches = self.data.batches(size or self.options.batch, padded=size is not None)

    def _float_outputs(self) -> Array:
        if self._expected is None:
            self._calibrate()
            self._expected = self._run(Roundings())
            if not np.isfinite(self._expected).all():
                raise RunFailed("the float network's outputs on this data are not finite")
            self._reading.check(self._expected, self.data.labels)
        return self._expected

    def _run(self, roundings: Roundings) -> Array:
        assert self._batches is not None
        self.runs += 1
        outputs = self._runner.outputs(self._batches, roundings)
        if self.options.output >= len(outputs[0]):
            raise SizeupError(
                f"output {self.options.output} is out of range; the network has {len(outputs[0])}"
            )
        output = np.concatenate([batch[self.options.output] for batch in outputs])
        return output[: len(self.data)] if self._runner.batch is not None else output


def _values(losses: Losses) -> tuple[float, float | None, float | None, float | None]:
    return losses.sqnr_db, losses.kl, losses.accuracy, losses.loss


def _dtype_of(value: str | DType) -> DType:
    dtype = dtypes.precision(value)
    check_dtype(dtype)
    return dtype


def _plain_options(options: MeasurementOptions) -> dict[str, Any]:
    return {
        **options.simulation.to_dict(),
        "axis": options.axis,
        "output": options.output,
        "batch": options.batch,
    }


@contextmanager
def bench(source: Any, data: DataSource, labels: Any = None, **settings: Any) -> Iterator[Bench]:
    """Opens a `Bench` with these settings, and closes it at the end of the block."""
    opened = Bench(source, data, labels, **settings)
    try:
        yield opened
    finally:
        opened.close()


def sensitivity(
    source: Any,
    data: DataSource,
    labels: Any = None,
    *,
    precisions: Sequence[str] = DEFAULT_PRECISIONS,
    calibration: DataSource = None,
    options: MeasurementOptions | None = None,
    kwargs: Mapping[str, Any] | None = None,
    cache: Cache = None,
    progress: Progress | None = None,
) -> SensitivityTable:
    """Rounds one layer at a time to each precision, and measures the effect on the outputs.

    A module runs in PyTorch, an ONNX model in ONNX Runtime, a .tflite file in LiteRT. `data` and
    `calibration` are arrays of samples, one per input or by input name, or an .npz file (`x`, `y`). Results
    are cached in the folder `cache` (None: the user's cache folder; False: not cached), so an interrupted
    call continues there.
    """
    with bench(
        source, data, labels, calibration=calibration, options=options, kwargs=kwargs, cache=cache
    ) as opened:
        return opened.sensitivity(precisions, progress)


def measure_assignment(
    source: Any,
    data: DataSource,
    assignment: Assignment,
    labels: Any = None,
    *,
    calibration: DataSource = None,
    options: MeasurementOptions | None = None,
    kwargs: Mapping[str, Any] | None = None,
    cache: Cache = None,
) -> Losses:
    """Returns the losses of an assignment of precisions to layers, by op or by name."""
    with bench(
        source, data, labels, calibration=calibration, options=options, kwargs=kwargs, cache=cache
    ) as opened:
        return opened.measure(assignment)
