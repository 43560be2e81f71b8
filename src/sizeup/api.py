"""The public verbs: each takes a model, however it is given, and returns frozen data."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from sizeup import cost, dtypes, formats
from sizeup.cost import Cost
from sizeup.errors import Incomplete, RuleError, SizeupError, TargetError
from sizeup.formats import Inputs
from sizeup.graph import Graph
from sizeup.precision import Wish, as_wished, is_mapping
from sizeup.report import Report, report_of
from sizeup.report.explain import Explanation
from sizeup.report.explain import explain as _explain
from sizeup.report.plan import Plan

if TYPE_CHECKING:
    from sizeup.conventions import Convention
    from sizeup.latency import Basis, Estimate
    from sizeup.memory import Progress
    from sizeup.report.measured import Measured
    from sizeup.rewrite import Optimized
    from sizeup.targets import Target

# A path, a name such as timm:NAME, a PyTorch module or program, an ONNX model, bytes, or a graph.
Source: TypeAlias = Any
# A .toml or .json file, or its content: {"conv": {"int8": 28.0}}.
Coefficients: TypeAlias = str | os.PathLike[str] | Mapping[str, Mapping[str, float]] | None

_CHUNK = 1 << 20


def load(
    source: Source,
    inputs: Inputs = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
) -> Graph:
    """Read a model and return its graph; inputs are tensors or shapes, `bind` sizes free dimensions."""
    return formats.load(source, inputs=inputs, kwargs=kwargs, bind=bind)


def count(
    source: Source,
    inputs: Inputs = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
) -> Cost:
    """Count a model's operators: columns of MACs, elementwise operations, parameters and elements moved."""
    return cost.count(load(source, inputs=inputs, kwargs=kwargs, bind=bind))


def analyze(
    source: Source,
    inputs: Inputs = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
    precision: Wish = None,
    target: str | Target | None = None,
    basis: Basis | None = None,
    coefficients: Coefficients = None,
    convention: str | None = None,
    strict: bool = False,
) -> Report:
    """Size up a model; `precision` prices its bytes at another number type, `strict` refuses unknowns.

    A precision may differ by layer: a mapping such as {"features.*": "int8", "classifier": "fp32"}, or a
    .json file with one. With a target such as "rpi5/ort" the report has a latency too, as `estimate` gives
    it, or says why not. A `convention` (fvcore, thop, ptflops, ptflops-aten, torchinfo, dnn-analyzer,
    tensorscope) puts beside our counts what that tool says of the same model.
    """
    _check_precision(precision)
    other = None if convention is None else _convention(convention)
    named = _target(target)
    graph, asked = as_wished(load(source, inputs=inputs, kwargs=kwargs, bind=bind), precision)
    counted = cost.count(graph)
    latency: Estimate | str | None = None
    if named is not None or basis is not None or coefficients is not None:
        try:
            latency = _estimated(counted, named, asked, basis, coefficients)
        except TargetError as error:
            latency = str(error)
    compared = None if other is None else other.counted(counted)
    report = report_of(graph, counted, asked, sha256=_sha256(source), latency=latency, convention=compared)
    if strict:
        _demand_complete(report)
    return report


def estimate(
    source: Source,
    target: str | Target | None = None,
    inputs: Inputs = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
    precision: Wish = None,
    basis: Basis | None = None,
    coefficients: Coefficients = None,
) -> Estimate:
    """How long a model takes on a target, with the range that nine of ten measurements fall into.

    The basis is `calibrated` where the target was measured, else `roofline`, from its data sheet; or
    `coefficients`, a table of milliseconds for two million MACs (a file, or plain data). Raises TargetError
    where nothing is known that an estimate could rest on.
    """
    _check_precision(precision)
    named = _target(target)
    if isinstance(source, Cost) and not is_mapping(precision):
        asked = None if precision is None else dtypes.precision(str(precision))
        return _estimated(source, named, asked, basis, coefficients)
    read = source.graph if isinstance(source, Cost) else load(source, inputs=inputs, kwargs=kwargs, bind=bind)
    graph, asked = as_wished(read, precision)
    return _estimated(cost.count(graph), named, asked, basis, coefficients)


def _convention(name: str) -> Convention:
    from sizeup import conventions

    return conventions.convention(name)


def _check_precision(wish: Wish) -> None:
    """Refuse a precision that does not exist before the model is read."""
    if wish is not None and not is_mapping(wish):
        dtypes.precision(str(wish))


def _target(target: str | Target | None) -> Target | None:
    from sizeup import targets

    return targets.target(target) if isinstance(target, str) else target


def _estimated(
    counted: Cost,
    target: Target | None,
    asked: dtypes.DType | None,
    basis: Basis | None,
    coefficients: Coefficients,
) -> Estimate:
    from sizeup import latency

    table = None
    if isinstance(coefficients, str | os.PathLike):
        table = latency.read_table(Path(coefficients))
    elif coefficients is not None:
        table = latency.table_from(coefficients)
    return latency.estimate(counted, target, asked, basis=basis, table=table)


def explain(
    source: Source,
    op: int | str,
    *,
    inputs: Inputs = None,
    kwargs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
    precision: Wish = None,
    convention: str | None = None,
) -> Explanation:
    """Say where the numbers of one operator come from; a module, a kind or a pattern lists its operators.

    With a convention it also says what that tool counts for the operator, and why.
    """
    report = source if isinstance(source, Report) else None
    if report is None:
        report = analyze(
            source, inputs=inputs, kwargs=kwargs, bind=bind, precision=precision, convention=convention
        )
    elif convention is not None:
        report = replace(report, convention=_convention(convention).counted(report.cost))
    return _explain(report, op)


def plan(
    source: Source,
    inputs: Inputs = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
    precision: Wish = None,
    reorder: bool = True,
    alignment: int = 1,
    time_limit: float = 10.0,
    progress: Progress | None = None,
) -> Plan:
    """Find the order and the places of tensors that need the least memory, and how low any plan can go.

    Without `reorder` operators keep their order; every offset is a multiple of `alignment`. Each search ends
    after `time_limit` seconds. Raises Incomplete where the size of a tensor depends on data.
    """
    from sizeup import memory

    if not 1 <= alignment <= 1 << 30:
        raise SizeupError(f"an alignment of {alignment} makes no sense; 1 leaves every byte free to be used")
    _check_precision(precision)
    given = load(source, inputs=inputs, kwargs=kwargs, bind=bind)
    graph, asked = as_wished(given, precision)
    placement = memory.best_placement(
        graph,
        reorder=reorder,
        alignment=alignment,
        precision=asked,
        time_limit=time_limit,
        progress=progress,
    )
    shipped = memory.as_shipped(graph) if precision is None else None
    return Plan(graph, placement, asked, alignment, shipped)


def optimize(
    source: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    reorder: bool = True,
    plan: bool = True,
    cluster: int | None = None,
    pack: bool = False,
    overlap: bool = False,
    verify: bool = True,
    time_limit: float = 10.0,
    bind: Mapping[str, int] | None = None,
    progress: Progress | None = None,
) -> Optimized:
    """Write a .tflite or .onnx file that needs less, proven in a real runtime; the original if nothing helps.

    `reorder` runs operators in the order with the least peak, `plan` stores places of tensors that TFLite
    Micro follows, `cluster` leaves at most so many values in each weight, `pack` stores such weights as
    code-books that TFLite Micro decodes. `overlap` lets the plan put outputs over inputs that die, which
    holds for TFLite Micro's reference kernels only, not for CMSIS-NN or other optimised ones. Each search
    ends after `time_limit` seconds.
    """
    from sizeup import rewrite

    wishes = rewrite.Wishes(reorder, plan, cluster, pack, verify, time_limit, progress, overlap)
    return rewrite.optimize(Path(source), Path(out), wishes, bind)


def measure(
    source: Source,
    inputs: Inputs = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
    runtime: str | None = None,
    device: str | None = None,
    threads: int = 1,
    seconds: float = 3.0,
    profile: bool = True,
    progress: Callable[[int, float], None] | None = None,
) -> Measured:
    """Run a model on this machine, in a process of its own, and say how long it takes.

    The runtime is `ort`, `litert`, `litert-xnnpack`, `tflm` or `torch-eager`; by default the usual one of
    the format. Random inputs, random weights where code is named without any. `profile` asks the runtime for
    the times of its kernels. `device` says what this machine is, so that shares of its rates can be told.
    Raises RunFailed where it does not run the model.
    """
    from sizeup import runtimes, targets
    from sizeup.report.measured import Measured

    here = None if device is None else targets.device(device)
    graph = load(source, inputs=inputs, kwargs=kwargs, bind=bind)
    effort = runtimes.Effort(seconds=seconds, profiled_runs=runtimes.Effort().profiled_runs * profile)
    given = runtimes.Given(source, inputs, kwargs, bind)
    timing = runtimes.time_source(given, graph, runtime, threads, effort, progress)
    target = None if here is None else targets.Target(here, targets.runtime(timing.runtime))
    return Measured(graph.name or "model", graph.format, timing, cost.count(graph), target)


def load_rules(path: str | os.PathLike[str]) -> None:
    """Run a Python file that registers rules for operators of your own with `@sizeup.op_rule`."""
    file = Path(path)
    if not file.is_file():
        raise RuleError(f"{file}: no such file of rules")
    name = f"sizeup_rules_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise RuleError(f"{file}: rules are a Python file, with the ending .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except SizeupError:
        raise
    # It is the user's code: whatever it raises is news about that file, not a fault of ours.
    except Exception as error:
        raise RuleError(f"{file}: the rules cannot be used: {type(error).__name__}: {error}") from error


def _demand_complete(report: Report) -> None:
    if report.unknown:
        listed = "; ".join(f"{each.count:,} x {each.kind} ({each.reason})" for each in report.unknown)
        raise Incomplete(
            f"{report.name}: {len(report.ops) - report.known_ops:,} of {len(report.ops):,} operators"
            f" are not counted: {listed}"
        )


def _sha256(source: Source) -> str | None:
    """The digest of the file that was read, without the files that it refers to; None for anything else."""
    if not isinstance(source, str | os.PathLike) or not Path(source).is_file():
        return None
    digest = hashlib.sha256()
    with Path(source).open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
