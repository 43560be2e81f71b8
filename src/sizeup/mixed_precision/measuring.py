"""What number types cost in accuracy, measured: one layer at a time, or a whole assignment."""

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
from sizeup.formats.rounding import Array, Roundings
from sizeup.mixed_precision.layers import layers, matched
from sizeup.mixed_precision.losses import Losses, Meaning, Reading, losses, losses_from, number, plain
from sizeup.mixed_precision.runners import Runner, runner_of
from sizeup.mixed_precision.simulating import Simulation, Simulator, check_type
from sizeup.mixed_precision.store import Cache, Store
from sizeup.mixed_precision.table import Baseline, Given, Sensitivity, SensitivityTable, data_of

# Grows whenever the same question would get another answer.
_METHOD = 1
_BATCH = 64
USUAL = ("fp16", "int8", "int4", "int2")

# By operator, or by name as in any mapping of layers: a precision, or a number type.
Assignment: TypeAlias = Mapping[int, str | DType] | Mapping[str, str]
# How many are done, of how many, and what is next.
Progress: TypeAlias = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True)
class Options:
    """How to measure; `output` says which of the network's outputs counts.

    `meaning` None takes outputs for logits, or for probabilities where the network ends in a softmax.
    """

    simulation: Simulation = field(default_factory=Simulation)
    meaning: Meaning | None = None
    axis: int = -1
    output: int = 0
    batch: int = _BATCH


class Bench:
    """A network, data, and all that was measured of it; what is known already is not measured again."""

    def __init__(
        self,
        source: Any,
        data: Given,
        labels: Any = None,
        *,
        calibration: Given = None,
        options: Options | None = None,
        kwargs: Mapping[str, Any] | None = None,
        cache: Cache = None,
    ) -> None:
        self.options = options or Options()
        self.data = data_of(data, labels)
        self.calibration = self.data if calibration is None else data_of(calibration)
        self._runner: Runner = runner_of(source, self.data, kwargs, self.options.batch)
        self.graph, self.layers = self._runner.graph, layers(self._runner.graph)
        self._simulator = Simulator(self.graph, self._runner.channel_axis, self.options.simulation)
        self._reading = Reading(self.options.meaning or self._found_meaning(), self.options.axis)
        self._store = Store(cache, self._digest())
        self._batches: list[tuple[Array, ...]] | None = None
        self._true: Array | None = None
        self.passes = 0  # how often the evaluation data went through the network

    @property
    def title(self) -> str:
        """Who runs the network."""
        return self._runner.title

    @property
    def meaning(self) -> Meaning:
        """What the outputs are taken for."""
        return self._reading.meaning

    def close(self) -> None:
        """End what was started to run the network."""
        self._runner.close()

    def baseline(self) -> Baseline:
        """The network as it is."""
        known = self._store.find("float")
        if known is not None:
            try:
                return Baseline(number(known["accuracy"]), number(known["cross_entropy"]))
            except (LookupError, TypeError, ValueError):
                pass  # broken: measured anew
        outputs, labels = self._float_outputs(), self.data.labels
        found = Baseline()
        if labels is not None:
            accuracy = self._reading.accuracy(outputs, labels)
            found = Baseline(accuracy, self._reading.cross_entropy(outputs, labels))
        self._store.keep("float", {name: plain(value) for name, value in asdict(found).items()})
        return found

    def measure(self, assignment: Assignment) -> Losses:
        """The losses with layers at the assigned types, the others as they are."""
        chosen = self.chosen(assignment)
        key = self.key(chosen)
        known = self._store.find(key)
        if known is not None:
            try:
                return losses_from(known)
            except (LookupError, TypeError, ValueError):
                pass  # broken: measured anew
        true = self._float_outputs()
        found = losses(true, self.outputs(chosen), self.data.labels, self._reading)
        self._store.keep(key, found.to_dict())
        return found

    def outputs(self, assignment: Assignment) -> Array:
        """The outputs on the evaluation data themselves."""
        self._learn()
        return self._run(self._simulator.roundings(self.chosen(assignment)))

    def sensitivity(
        self, precisions: Sequence[str] = USUAL, progress: Progress | None = None
    ) -> SensitivityTable:
        """Every layer alone at every precision, and all layers together at each."""
        names = [precision_name(_type_of(each)) for each in precisions]
        wide = precision_name(dtypes.DTYPES["float32"])
        names = [each for each in dict.fromkeys(names) if each != wide]
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
                progress(len(rows) + len(uniform), total, f"all at {name}")
            uniform[name] = self.measure({layer.op: name for layer in self.layers})
        found = SensitivityTable(
            self.graph.name, self.layers, (wide, *names), tuple(rows), self.baseline(), uniform,
            {**_plain_options(self.options), "meaning": self.meaning}, self.notes(names),
        )  # fmt: skip
        if progress is not None:
            progress(total, total, "")
        return found

    def notes(self, precisions: Sequence[str]) -> tuple[str, ...]:
        """What a reader of the numbers must know."""
        found = [f"measured in {self.title} on {len(self.data):,} samples, sums at 32 bits"]
        simulated = [name for name in precisions if _type_of(name).bits < 8]
        if simulated:
            found.append(f"{', '.join(simulated)}: simulated, by rounding to so many bits")
        if self.calibration is self.data:
            found.append("ranges of activations come from the evaluation data itself")
        if self.options.meaning is None:
            found.append(f"the outputs were taken for {self.meaning}")
        return tuple(found)

    def chosen(self, assignment: Assignment) -> dict[int, DType]:
        """The number types by operator, in the order of the graph."""
        named = {key: str(value) for key, value in assignment.items() if isinstance(key, str)}
        found = matched(self.graph, named)
        if found.unmatched:
            raise SizeupError(f"no layer is called {', '.join(map(repr, found.unmatched))}")
        for key, value in assignment.items():
            if not isinstance(key, str):
                if not 0 <= key < len(self.graph.ops):
                    raise SizeupError(f"there is no operator {key}; there are {len(self.graph.ops):,}")
                found.chosen[key] = _type_of(value)
        for dtype in found.chosen.values():
            check_type(dtype)
        return dict(sorted(found.chosen.items()))

    def key(self, chosen: Mapping[int, DType]) -> str:
        """What stands for an assignment in the cache: layers that keep their type are not in it."""
        wide = {layer.op for layer in self.layers if self._keeps(layer.op, chosen)}
        return json.dumps({str(op): dtype.name for op, dtype in chosen.items() if op not in wide})

    def _keeps(self, op: int, chosen: Mapping[int, DType]) -> bool:
        made = self.graph.tensors[self.graph.ops[op].outputs[0]]
        return chosen.get(op) is made.dtype

    def _digest(self) -> str:
        """Of the model, the data, the settings and the method."""
        parts = [
            str(_METHOD), self._runner.title, self._runner.fingerprint(), self.data.digest(),
            self.calibration.digest(), json.dumps(_plain_options(self.options)), self._reading.meaning,
        ]  # fmt: skip
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def _found_meaning(self) -> Meaning:
        """Probabilities where the network ends in a softmax."""
        place = min(self.options.output, len(self.graph.outputs) - 1)
        wanted = self.graph.outputs[place]
        maker = next((op for op in self.graph.ops if wanted in op.outputs), None)
        ends = maker is not None and maker.kind == "softmax" and "log" not in maker.source.lower()
        return "probabilities" if ends else "logits"

    def _learn(self) -> None:
        if self._batches is None:
            size = self._runner.batch
            wanted = self._simulator.wanted
            calibrated = self.calibration.batches(size or self.options.batch, padded=size is not None)
            self._simulator.learn(self._runner.observe(calibrated, wanted))
            self._batches = self.data.batches(size or self.options.batch, padded=size is not None)

    def _float_outputs(self) -> Array:
        if self._true is None:
            self._learn()
            self._true = self._run(Roundings())
            if not np.isfinite(self._true).all():
                raise RunFailed("the network's own outputs on this data are not finite")
            self._reading.check(self._true, self.data.labels)
        return self._true

    def _run(self, roundings: Roundings) -> Array:
        assert self._batches is not None
        self.passes += 1
        found = self._runner.outputs(self._batches, roundings)
        if self.options.output >= len(found[0]):
            raise SizeupError(
                f"the network has {len(found[0])} outputs, none is number {self.options.output}"
            )
        whole = np.concatenate([each[self.options.output] for each in found])
        return whole[: len(self.data)] if self._runner.batch is not None else whole


def _values(found: Losses) -> tuple[float, float | None, float | None, float | None]:
    return found.sqnr_db, found.kl, found.accuracy, found.loss


def _type_of(value: str | DType) -> DType:
    found = value if isinstance(value, DType) else dtypes.precision(value)
    check_type(found)
    return found


def _plain_options(options: Options) -> dict[str, Any]:
    return {
        **options.simulation.to_dict(),
        "axis": options.axis,
        "output": options.output,
        "batch": options.batch,
    }


@contextmanager
def bench(source: Any, data: Given, labels: Any = None, **settings: Any) -> Iterator[Bench]:
    """A bench that is closed at the end of the block; settings are those of `Bench`."""
    made = Bench(source, data, labels, **settings)
    try:
        yield made
    finally:
        made.close()


def sensitivity(
    source: Any,
    data: Given,
    labels: Any = None,
    *,
    precisions: Sequence[str] = USUAL,
    calibration: Given = None,
    options: Options | None = None,
    kwargs: Mapping[str, Any] | None = None,
    cache: Cache = None,
    progress: Progress | None = None,
) -> SensitivityTable:
    """Round one layer at a time to each precision, and measure what it does to the outputs.

    A module runs in PyTorch, an ONNX model in ONNX Runtime. `data` and `calibration` are arrays of samples,
    one for each input or by the inputs' names, or an .npz file (`x`, `y`). Results are kept in the folder
    `cache` (by default among the user's caches; False for nowhere), so that a second call goes on where the
    first one ended.
    """
    with bench(
        source, data, labels, calibration=calibration, options=options, kwargs=kwargs, cache=cache
    ) as made:
        return made.sensitivity(precisions, progress)


def measure_assignment(
    source: Any,
    data: Given,
    assignment: Assignment,
    labels: Any = None,
    *,
    calibration: Given = None,
    options: Options | None = None,
    kwargs: Mapping[str, Any] | None = None,
    cache: Cache = None,
) -> Losses:
    """The losses of a whole assignment of precisions to layers, by operator or by name."""
    with bench(
        source, data, labels, calibration=calibration, options=options, kwargs=kwargs, cache=cache
    ) as made:
        return made.measure(assignment)
