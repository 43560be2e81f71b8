"""Needs and verdicts of small graphs, worked out on paper from the data of boards and runtimes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from networks import three_convolutions, with_unknown
from sizeup import targets
from sizeup.backends.banks import board_flash, board_ram
from sizeup.backends.compiled import NpuFit
from sizeup.backends.tflm.needs import TflmNeeds
from sizeup.backends.vela.compiled import _builds, accelerators_of, dram_note, npu_ram_parts
from sizeup.checks import MEASURES, Limit, MemoryFit, Needs, Subject, fit_memory
from sizeup.checks.evaluate import LimitSpec, evaluate_limits, layer_limits
from sizeup.checks.measures import _npu_arena
from sizeup.cost import count
from sizeup.dtypes import dtype, precision
from sizeup.graph import ABSENT, Constant, Graph, GraphBuilder, Quant
from sizeup.latency import EnergyEstimate
from sizeup.runtimes.vela import Compilation

_WEIGHTS = 4 * (864 + 288 + 2048)  # bytes of the three convolutions


def _needs(graph: Graph) -> Needs:
    return Needs(graph, count(graph))


def _fit(graph: Graph, target: str) -> MemoryFit:
    return fit_memory(_needs(graph), targets.target(target))


def test_a_model_without_a_file_has_bounds_of_the_interpreter_and_of_its_size() -> None:
    """The interpreter takes 128 to 2,048 B per operator, for one more at most; seven tensors of 128 B."""
    fit = _fit(three_convolutions(), "stm32f746/tflm")
    arena, interpreter = fit.ram.parts
    # The depthwise output of 128 KiB and the last one of 256 KiB are live at the peak.
    assert arena.low_bytes == (128 + 256) << 10
    assert interpreter.high_bytes is not None
    assert 3 * 128 <= interpreter.low_bytes <= interpreter.high_bytes <= 4 * 2048
    assert _needs(three_convolutions()).stored_bytes == (_WEIGHTS, _WEIGHTS + 7 * 128)


@pytest.mark.parametrize("target", ["rtx-4090/torch-eager", "rpi5/litert"])
def test_weights_of_unknown_size_may_take_nothing(target: str) -> None:
    exact, bound = (
        _fit(replace(three_convolutions(), weights_are_upper_bound=each), target).ram.parts[0]
        for each in (False, True)
    )
    assert exact.low_bytes >= _WEIGHTS
    assert (bound.low_bytes, bound.high_bytes) == (0, exact.high_bytes)


@pytest.mark.parametrize(("runtime", "copies"), [("torch-eager", 1), ("ort", 2)])
def test_a_runtime_that_packs_weights_may_have_them_twice(runtime: str, copies: int) -> None:
    weights = _fit(three_convolutions(), f"rpi5/{runtime}").ram.parts[0]
    assert (weights.low_bytes, weights.high_bytes) == (_WEIGHTS, copies * _WEIGHTS)


@pytest.mark.parametrize("target", ["rtx-4090/torch-eager", "rpi5/litert", "stm32f746/tflm"])
def test_a_tensor_of_unknown_size_leaves_no_upper_bound(target: str) -> None:
    ram = _fit(with_unknown(), target).ram
    assert ram.high_bytes is None
    assert ram.fits is None


@pytest.mark.parametrize(
    ("kernels", "reason"), [((), ""), (("aten.lstm",), "the internal memory of aten.lstm is not known")]
)
@pytest.mark.parametrize("target", ["rtx-4090/torch-eager", "rpi5/torch-eager"])
def test_internal_memory_of_kernels_that_is_not_known_leaves_no_upper_bound(
    target: str, kernels: tuple[str, ...], reason: str
) -> None:
    needs = _needs(three_convolutions())
    vars(needs)["usage"] = replace(needs.usage, unmodeled=kernels)
    (part,) = (each for each in fit_memory(needs, targets.target(target)).ram.parts if each.name == "tensors")
    assert part.basis.partition("; ")[2] == reason
    assert (part.high_bytes is None) is bool(kernels)
    peak = MEASURES["peak"].compute(Subject(needs))
    assert (peak.least, peak.most) == ((128 + 256) << 10, None if kernels else (128 + 256) << 10)
    assert peak.reason == reason


@pytest.mark.parametrize(
    ("low", "high", "is_upper_bound", "bounds", "reason"),
    [
        (1.0, 3.0, False, (1.0, 3.0), ""),
        (1.0, 3.0, True, (0.0, 3.0), ""),  # the design power is the most that a device takes
        (1.0, None, False, (1.0, None), "its interval has no upper end"),
        (1.0, None, True, (0.0, None), "its interval has no upper end"),
        (None, None, False, (0.0, None), "no prediction interval is known"),
    ],
)
def test_energy_is_bounded_by_its_interval(
    low: float | None,
    high: float | None,
    is_upper_bound: bool,
    bounds: tuple[float, float | None],
    reason: str,
) -> None:
    subject = Subject(_needs(three_convolutions()), targets.target("rpi5/litert"))
    vars(subject)["energy"] = EnergyEstimate(2.0, low, high, "typical power", is_upper_bound, "a test")
    amount = MEASURES["energy"].compute(subject)
    assert (amount.least, amount.most) == bounds
    assert (amount.expected, amount.reason) == (2.0, reason)


def test_energy_of_an_unknown_operator_leaves_the_verdict_undetermined() -> None:
    subject = Subject(_needs(with_unknown()), targets.target("rtx-4090/torch-eager"))
    assert evaluate_limits(subject, LimitSpec({"energy": 1e9}))[-1].fits is None


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("rpi5/ort", "the latency has no prediction interval"),
        ("stm32f401/tflm", "the power of STM32F401RE is not known"),
    ],
)
def test_the_reason_is_what_the_energy_lacks(target: str, reason: str) -> None:
    assert Subject(_needs(three_convolutions()), targets.target(target)).energy == reason


@pytest.mark.parametrize(("low", "least"), [(1.0, 1.0), (None, 2.0)])
def test_a_latency_in_external_ram_is_a_lower_bound(low: float | None, least: float) -> None:
    subject = Subject(_needs(three_convolutions()), targets.target("rpi5/litert"))
    fit = subject.memory_fit
    assert fit is not None
    assert not isinstance(subject.estimate, str)
    estimate = replace(subject.estimate, seconds=2.0, low=low, high=3.0)
    vars(subject).update(estimate=estimate, memory_fit=replace(fit, ram=replace(fit.ram, is_external=True)))
    amount = MEASURES["latency"].compute(subject)
    assert (amount.least, amount.most) == (least, None)
    layers = LimitSpec(layers={"*": {"latency": 9.0}})
    assert evaluate_limits(subject, layers)[-1].fits is None


@pytest.mark.parametrize(("is_external", "most", "fits"), [(False, 3.0, True), (True, None, None)])
def test_an_energy_in_external_ram_is_a_lower_bound(
    is_external: bool, most: float | None, fits: bool | None
) -> None:
    subject = Subject(_needs(three_convolutions()), targets.target("rpi5/litert"))
    fit = subject.memory_fit
    assert fit is not None
    memory_fit = replace(fit, ram=replace(fit.ram, is_external=is_external))
    energy = EnergyEstimate(2.0, 1.0, 3.0, "typical power", False, "a test")
    vars(subject).update(energy=energy, memory_fit=memory_fit)
    amount = MEASURES["energy"].compute(subject)
    assert (amount.least, amount.most) == (1.0, most)
    assert evaluate_limits(subject, LimitSpec({"energy": 4.0}))[-1].fits is fits


@pytest.mark.parametrize(
    ("target", "layers", "fits", "unknown"),
    [
        ("rpi5/ncnn", "*", True, ()),
        ("rpi5/ort", "*", None, ("only a lower bound of the latency is known",)),
        ("stm32f746/tflm-cmsis-nn", "*", None, ("the time of relu is not known: it counts as 0 s",)),
        ("stm32f746/tflm-cmsis-nn", "product", True, ()),
    ],
)
def test_the_latency_of_a_layer_is_no_upper_bound_if_time_is_missing(
    target: str, layers: str, fits: bool | None, unknown: tuple[str, ...]
) -> None:
    """A product of 1,024 x 1,024 between two activations, the first of which is not fused."""
    builder, kind = GraphBuilder("product", "onnx"), dtype("int8")
    x = builder.input("x", (1, 1024), kind)
    weights = builder.tensor("w", (1024, 1024), kind, Constant("parameter"))
    y, z, result = (builder.tensor(name, (1, 1024), kind) for name in ("y", "z", "result"))
    builder.op("relu", [x], [y], name="before")
    builder.op("matmul", [y, weights], [z], {"contracted": (1,)}, name="product")
    builder.op("relu", [z], [result], name="after")
    builder.outputs.append(result)
    subject = Subject(_needs(builder.freeze()), targets.target(target))
    limit = evaluate_limits(subject, LimitSpec(layers={layers: {"latency": 1.0}}))[-1]
    assert (limit.fits, limit.unknown) == (fits, unknown)


def test_a_latency_names_the_operators_that_take_longest() -> None:
    subject = Subject(_needs(three_convolutions()), targets.target("rpi5/litert"))
    limit = evaluate_limits(subject, LimitSpec({"latency": 1.0}))[-1]
    amounts = [each.amount for each in limit.largest if each.amount is not None]
    names = {each.name for each in limit.largest}
    assert names == {"stem.conv.out", "body.depthwise.out", "body.pointwise.out"}
    assert amounts == sorted(amounts, reverse=True)
    assert 0 < sum(amounts) <= (limit.need or 0)


@pytest.mark.parametrize(
    ("pattern", "measure", "fits", "unknown"),
    [
        ("stem.conv", "macs", True, ()),
        ("mylib.fancy", "macs", None, ("no cost rule for mylib.fancy",)),
        ("mylib.fancy", "params", True, ()),
        # The relu has an output of unknown size.
        ("stem.conv", "memory", None, ("the size of 1 tensor depends on data",)),
    ],
)
def test_a_limit_of_layers_is_undetermined_if_their_cost_is(
    pattern: str, measure: str, fits: bool | None, unknown: tuple[str, ...]
) -> None:
    (limit,) = layer_limits(Subject(_needs(with_unknown())), {pattern: {measure: 1e9}}, "a budget")
    assert (limit.fits, limit.unknown) == (fits, unknown)


@pytest.mark.parametrize(
    ("need", "is_near"), [(79.0, False), (80.5, True), (90.0, True), (90.5, True), (100.5, False)]
)
def test_a_limit_is_near_if_less_than_a_tenth_is_left_besides_the_reserve(need: float, is_near: bool) -> None:
    """Of 100 B, other software may take 10: from 90 B, it is undetermined, above 100 B it does not fit."""
    assert Limit("ram", "bytes", 100, need, need, reserve=10).is_near is is_near


def test_what_depends_on_the_size_of_an_unsized_input_has_no_upper_bound() -> None:
    graph = replace(three_convolutions(), placeholder_sizes=("the size of x is not fixed",))
    limits = evaluate_limits(Subject(_needs(graph)), LimitSpec({"macs": 1e9, "params": 1e9, "weights": 1e9}))
    assert [(limit.name, limit.fits) for limit in limits] == [
        ("macs", None),
        ("params", True),
        ("weights", True),
    ]
    assert limits[0].unknown == graph.placeholder_sizes


_COMPILED = Compilation(
    "4.0", "ethos-u55-128", "", "Shared_Sram", 5e8, {"sram": 1_000}, {}, 0, 0, 0.0, 0, 1, 0, 0, 0, (), (), b""
)


@pytest.mark.parametrize(
    ("npu", "parts", "arena"),
    [
        (NpuFit("u55", reason="Vela is not installed"), [], (None, None)),
        # Of the compiled file's arena, Vela reports 1,000 B.
        (NpuFit("u55", _COMPILED, arena=(900, 1_500)), [(1_000, 1_000), (0, 500)], (900, 1_500)),
        (
            NpuFit("u55", _COMPILED, arena_unknown_reason="it is in DRAM"),
            [(1_000, 1_000), (0, None)],
            (None, None),
        ),
        (NpuFit("u55", is_compiled_file=True, arena=(900, 1_500)), [(900, 1_500)], (900, 1_500)),
        (NpuFit("u55", is_compiled_file=True), [(0, None)], (None, None)),
        (NpuFit("u55", replace(_COMPILED, npu_ops=0)), [], (None, None)),  # all operators are left to the CPU
    ],
)
def test_the_arena_of_an_npu_is_not_counted_twice(
    npu: NpuFit, parts: list[tuple[int, int | None]], arena: tuple[int | None, int | None]
) -> None:
    assert [(part.low_bytes, part.high_bytes) for part in npu_ram_parts(npu)] == parts
    amount = _npu_arena(npu)
    assert (amount.least, amount.most) == arena
    assert amount.reason == (npu.reason or npu.arena_unknown_reason)


@pytest.mark.parametrize(
    ("target", "builds"),
    [
        # Enumerations of Arm cores take one byte, and a Cortex-M55 has Helium (MVE).
        ("alif-e7-dk/tflm-ethos-u", {(1, "reference", ""), (1, "cmsis-nn", "mve")}),
        (
            "ethos-u55-128",
            {(4, "reference", ""), (4, "cmsis-nn", ""), (4, "cmsis-nn", "dsp"), (4, "cmsis-nn", "mve")},
        ),
    ],
)
def test_the_interpreter_is_that_of_the_core_next_to_the_npu(
    target: str, builds: set[tuple[int, str, str]]
) -> None:
    known = list(_builds(targets.target(target)))
    assert {(build.enum_bytes, build.kernels, build.vectors) for build in known} == builds
    assert all(build.has_ethos_u for build in known)


# Magic number, an action, and the configuration: product 1 is an Ethos-U65, with 2^8 MACs per cycle.
STREAM = Constant("parameter", lambda: np.frombuffer(b"COP1\0\0\0\1\x08\0\0\x10", np.uint8))


@pytest.mark.parametrize(
    ("data", "accelerator"),
    [
        (STREAM, "ethos-u65-256"),
        (Constant("parameter", lambda: np.frombuffer(b"COP1\0\0\0\1\x08\0\0", np.uint8)), None),
        (Constant("parameter"), None),  # its values are not known
        (None, None),
    ],
    ids=["complete", "cut off", "without values", "an input"],
)
def test_a_command_stream_names_its_npu(data: Constant | None, accelerator: str | None) -> None:
    builder = GraphBuilder("compiled", "tflite")
    stream = builder.tensor("stream", (12,), dtype("uint8"), data)
    builder.inputs.extend([stream] * (data is None))
    result = builder.tensor("y", (1,), dtype("int8"))
    builder.op("ethos-u", [stream], [result], source="ethos-u")
    assert list(accelerators_of(builder.freeze())) == [accelerator]


def test_an_operator_without_a_command_stream_names_no_npu() -> None:
    """Its absent operand is -1, which is no position of a tensor: the last one would name an Ethos-U65."""
    builder = GraphBuilder("compiled", "tflite")
    result = builder.tensor("y", (1,), dtype("int8"))
    builder.op("ethos-u", [ABSENT], [result], source="ethos-u")
    builder.tensor("stream", (12,), dtype("uint8"), STREAM)
    assert list(accelerators_of(builder.freeze())) == [None]


@pytest.mark.parametrize(
    ("target", "caveats"),
    [
        ("rx65n/tflm", ["its RSQRT kernel fails during inference for inputs below its zero point"]),
        ("esp32-s3/tflm-esp-nn", ["its RSQRT kernel fails during inference for inputs below its zero point"]),
        ("rpi5/ort", ["ort does not read .tflite files: the verdict is for the same operators"]),
    ],
)
def test_kernels_of_tflite_micro_are_a_caveat_on_its_targets(target: str, caveats: list[str]) -> None:
    """Numbers from -128 to 9 are below the zero point: they stand for negative ones."""
    builder, scale = GraphBuilder("root", "tflite"), Quant(np.full(1, 0.5), np.full(1, 10))
    x, y = (builder.tensor(name, (1, 8), dtype("int8"), quant=scale) for name in "xy")
    builder.inputs.append(x)
    builder.op("rsqrt", [x], [y], source="RSQRT")
    builder.outputs.append(y)
    fit = _fit(builder.freeze(), target)
    assert [caveat.partition(" (operator")[0] for caveat in fit.caveats] == caveats


@pytest.mark.parametrize(("target", "scratch"), [("stm32f746", 0), ("apollo510", 4_464)])
def test_scratch_of_a_depthwise_convolution_follows_the_vector_instructions(
    target: str, scratch: int
) -> None:
    """Input and output of 32 x 32 x 32 B; with Helium, four copies of 124 channels of 9 taps in addition."""
    graph = three_convolutions()
    ops = [replace(op, attrs={**op.attrs, "groups": 32}) if "depth" in op.scope else op for op in graph.ops]
    graph = replace(graph, ops=tuple(ops[:2]), outputs=ops[1].outputs)
    needs = Needs(graph, count(graph), precision("int8")).part(TflmNeeds)
    bounds = needs.converted_arena(targets.target(f"{target}/tflm-cmsis-nn"))
    assert bounds is not None
    assert bounds.head[0] == 2 * 32_768 + scratch


def test_dram_of_an_npu_with_its_own_sram_is_stated_and_not_checked() -> None:
    assert (dram_note(NpuFit("u55")), dram_note(NpuFit("u55", _COMPILED))) == ("", "")
    compiled = replace(_COMPILED, memory_mode="Dedicated_Sram", memory_bytes={"sram": 1_000, "dram": 2_048})
    assert dram_note(NpuFit("u65", compiled)).endswith("which is not checked: 2.00 KiB (Vela)")


def test_external_flash_counts_only_for_what_exceeds_the_chip() -> None:
    target = targets.target("32f746gdiscovery")
    assert target.board is not None
    limit = target.board.flash_limit(target.device)
    assert limit is not None
    assert board_flash(target.board, target.device, limit).limit_bytes == limit
    assert board_flash(target.board, target.device, limit + 1).limit_bytes is None


def test_external_ram_counts_only_for_what_exceeds_the_largest_bank() -> None:
    """392 KiB are usable on the chip of an ESP32-S3-EYE, and it has 8 MiB of external RAM."""
    target = targets.target("esp32-s3-eye")
    assert target.board is not None
    for least, limit in ((392 << 10, 392 << 10), ((392 << 10) + 1, 8 << 20), (8 << 20, 8 << 20)):
        ram = board_ram(target.board, target.device, least)
        assert (ram.limit_bytes, ram.is_external) == (limit, limit > 392 << 10)
    assert not board_ram(target.board, target.device, (8 << 20) + 1).is_external
