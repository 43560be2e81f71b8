"""Which remedies are searched for, without a search: sizes of inputs, and variants of a rewritten file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sizeup.checks import Limit, Needs, Subject, remedy_search
from sizeup.checks.evaluate import LimitSpec, evaluate_limits
from sizeup.checks.remedy_case import Case, Change, Origin, Remedy
from sizeup.checks.remedy_search import _notes, _runtime, input_remedies, remedies, rewrite_remedies
from sizeup.cost import count
from sizeup.dtypes import dtype
from sizeup.graph import Constant, Graph, GraphBuilder, Shape
from sizeup.rewrite import OptimizeOptions
from sizeup.runtimes.process import Library

_FLOAT = dtype("float32")


def _pointwise(shape: Shape) -> Graph:
    """A sum of the channels of an image, or of a sequence, with weights: one MAC per number."""
    builder = GraphBuilder("net", "onnx")
    x = builder.input("x", shape, _FLOAT)
    if len(shape) == 4:
        weights = builder.tensor("w", (1, shape[1], 1, 1), _FLOAT, Constant("parameter"))
        output = builder.tensor("y", (shape[0], 1, *shape[2:]), _FLOAT)
        builder.op("conv", [x, weights], [output], {"out_channels": 1, "kernel": (1, 1), "groups": 1})
    else:
        weights = builder.tensor("w", (shape[1], 1), _FLOAT, Constant("parameter"))
        output = builder.tensor("y", (shape[0], 1), _FLOAT)
        builder.op("matmul", [x, weights], [output], {"contracted": (1,)})
    builder.outputs.append(output)
    return builder.freeze()


@pytest.mark.parametrize(
    ("shape", "most", "smaller", "fits"),
    [
        ((1, 3, 96, 96), 3 * 64 * 64, "1x3x64x64", True),
        ((1, 3, 96, 96), 3 * 64 * 64 - 1, "1x3x32x32", True),
        ((1, 3, 96, 96), 1, "1x3x32x32", False),  # the smallest that is tried
        ((1, 3, 160, 160), 3 * 128 * 128, "1x3x128x128", True),
        ((1, 3, 160, 160), 1, "1x3x64x64", False),  # 40 is a quarter, 64 the next multiple of 32
        ((1, 3, 32, 32), 3 * 16 * 16, "1x3x16x16", True),  # it can be halved four times, no longer five
        ((1, 3, 24, 24), 3 * 20 * 20, "1x3x16x16", True),
        ((1, 3, 9, 9), 3 * 7 * 7, "1x3x7x7", True),
        ((1, 48), 40, "1x32", True),
    ],
)
def test_a_smaller_input_is_the_largest_that_fits(shape: Shape, most: int, smaller: str, fits: bool) -> None:
    subject = Subject(Needs(_pointwise(shape), count(_pointwise(shape))))
    spec = LimitSpec({"macs": most})
    origin = Origin("net.onnx", load_at=_pointwise, limit_options=f"--macs {most}", input_options=("y:2",))
    case = Case(subject, evaluate_limits(subject, spec), origin, lambda each: evaluate_limits(each, spec))
    (remedy,) = input_remedies(case)
    assert remedy.fits is fits
    assert remedy.description.endswith(f" to {smaller}")
    assert remedy.command == f"sizeup check net.onnx --macs {most} --input x:{smaller} --input y:2"


def test_a_smaller_input_of_code_replaces_the_first_by_position() -> None:
    def load(shape: Shape) -> Graph:
        return replace(_pointwise(shape), format="torch")

    subject = Subject(Needs(load((1, 3, 96, 96)), count(_pointwise((1, 3, 96, 96)))))
    spec = LimitSpec({"macs": 3 * 64 * 64})
    origin = Origin(
        "net.py:net", load_at=load, input_options=("1x3x96x96", "1x5", "1x7"), limit_options="--macs 1"
    )
    case = Case(subject, evaluate_limits(subject, spec), origin, lambda each: evaluate_limits(each, spec))
    (remedy,) = input_remedies(case)
    assert remedy.command == "sizeup check net.py:net --macs 1 --input 1x3x64x64 --input 1x5 --input 1x7"


_LARGE = (1, 3, 4096, 4096)  # 50.3 million MACs
_ABSENT = Library("a runtime", "there_is_no_such_module", "package", "extra")
_INSTALLED = _ABSENT._replace(module="sys")


def _remedy(fits: bool | None, need: int) -> Remedy:
    return Remedy("a change", "sizeup optimize", (Change("ram", "bytes", 99, need, fits),), fits)


def _rewritten(
    monkeypatch: pytest.MonkeyPatch,
    outcomes: dict[str, Remedy],
    shape: Shape = (1, 3, 8, 8),
    library: Library = _INSTALLED,
    limit: str = "ram",
) -> tuple[list[Remedy], list[OptimizeOptions]]:
    """The remedies if a search with these flags has these outcomes, and the options of all searches."""
    options: list[OptimizeOptions] = []

    def optimized(case: Case, file: Path, requested: OptimizeOptions, flags: str) -> Remedy | None:
        options.append(requested)
        return outcomes.get(flags)

    monkeypatch.setattr(remedy_search, "_optimize_remedy", optimized)
    monkeypatch.setattr(remedy_search, "_runtime", lambda file: library)
    subject = Subject(Needs(_pointwise(shape), count(_pointwise(shape))))
    limits = (Limit(limit, "bytes", 50, 99, 99),)
    case = Case(subject, limits, Origin("net.tflite", Path("net.tflite")), lambda each: limits)
    return list(rewrite_remedies(case, 1.0)), options


@pytest.mark.parametrize(
    ("outcomes", "names"),
    [
        ({"": _remedy(True, 40), "--overlap": _remedy(True, 30)}, [""]),
        (
            {"": _remedy(False, 70), "--overlap": _remedy(False, 70), "--split": _remedy(True, 40)},
            ["", "--split"],
        ),
        ({"--overlap": _remedy(True, 40), "--split": _remedy(True, 30)}, ["--overlap"]),
        ({}, []),
    ],
)
def test_further_changes_are_proposed_only_if_others_do_not_suffice(
    outcomes: dict[str, Remedy], names: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _rewritten(monkeypatch, outcomes)[0] == [outcomes[name] for name in names]


def test_schedules_are_searched_then_overlaps_then_strips(monkeypatch: pytest.MonkeyPatch) -> None:
    _, options = _rewritten(monkeypatch, {})
    assert [(each.overlap, each.split) for each in options] == [
        (False, False),
        (True, False),
        (False, True),
        (True, True),
    ]


def test_weights_that_exceed_the_flash_are_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = _remedy(True, 40)
    flags = "--no-reorder --no-plan --cluster 16 --pack"
    remedies, (options,) = _rewritten(monkeypatch, {flags: packed}, limit="flash")
    assert remedies == [packed]
    assert (options.reorder, options.plan, options.cluster, options.pack) == (False, False, 16, True)
    assert _rewritten(monkeypatch, {}, limit="flash")[0] == []


def test_remedies_that_fit_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [_remedy(False, 70), _remedy(None, 60), _remedy(True, 40)]
    monkeypatch.setattr(remedy_search, "rewrite_remedies", lambda case, seconds: found)
    subject = Subject(Needs(_pointwise((1, 3, 8, 8)), count(_pointwise((1, 3, 8, 8)))))
    limits = (Limit("macs", "count", 1, 2, 2),)
    assert remedies(Case(subject, limits, Origin("net"), lambda each: limits)) == (found[2], *found[:2])


@pytest.mark.parametrize(
    ("shape", "library", "verify"),
    [
        ((1, 3, 8, 8), _INSTALLED, True),
        ((1, 3, 8, 8), _ABSENT, False),
        (_LARGE, _INSTALLED, False),
    ],
)
def test_a_file_is_verified_if_its_runtime_is_installed_and_it_is_small(
    shape: Shape, library: Library, verify: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, options = _rewritten(monkeypatch, {}, shape, library)
    assert {each.verify for each in options} == {verify}


def test_a_file_is_verified_by_the_runtime_of_its_format() -> None:
    assert _runtime(Path("net.TFLITE")).title == "TFLite Micro"
    assert _runtime(Path("net.onnx")).title == "ONNX Runtime"


def test_notes_are_what_a_rewritten_file_costs() -> None:
    strips = SimpleNamespace(extra_macs_share=0.125, new_operators=("CONCATENATION",))
    optimization: Any = SimpleNamespace(
        verification=None, strips=strips, overlaps=1, clustered_weights=0, packed_weights=0
    )
    assert _notes(optimization, _ABSENT) == [
        "outputs not verified here; the command verifies them and needs package: pip install 'sizeup[extra]'",
        "adds 12.5 % MACs",
        "firmware must register CONCATENATION",
        "valid only for TFLite Micro's reference kernels",
    ]
