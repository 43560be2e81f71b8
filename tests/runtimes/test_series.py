"""Many models in turns, in one process: what is measured, and what a bad one among them does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sizeup import formats
from sizeup.calibration.measurement import calibration_models, min_latency
from sizeup.calibration.networks import networks
from sizeup.calibration.write_onnx import onnx_model
from sizeup.errors import MissingLibrary, RunFailed
from sizeup.runtimes import TIMED_RUNTIMES, TURN, TurnTimes, random_samples, time_series

SHORT = replace(TURN, seconds=0.0, least_runs=2, warm_up=1, profiled_runs=1)


def content(family: str) -> bytes:
    sketch = next(each for each in networks() if each.family == family)
    models: bytes = onnx_model(sketch).SerializeToString()
    return models


def test_every_model_has_its_turns_and_a_profile() -> None:
    models = [content("linear"), content("softmaxes")]
    reports: list[tuple[int, int]] = []
    turns = time_series(
        "ort",
        [(each, random_samples(formats.load(each), 1)) for each in models],
        effort=SHORT,
        rounds=3,
        progress=lambda done, total: reports.append((done, total)),
    )
    assert [len(each.wall) for each in turns] == [len(each.cpu) for each in turns] == [6, 6]
    assert [each.kernels[-1].op_kind for each in turns] == ["Gemm", "Softmax"]
    assert reports[-1] == (6, 6)


def test_a_model_that_is_rejected_is_reported_and_the_others_go_on() -> None:
    good = content("linear")
    models = [(b"no model", []), (good, random_samples(formats.load(good), 1))]
    bad, kept = time_series("ort", models, effort=SHORT, rounds=2)
    assert bad.failure.startswith("ONNX Runtime cannot run it: ")
    assert not bad.wall
    assert (kept.failure, len(kept.wall)) == ("", 4)


def test_a_model_that_ends_the_process_is_left_out() -> None:
    pytest.importorskip("torch")
    from sizeup.calibration.write_torch import input_shape, torch_module

    spec = next(each for each in networks() if each.family == "linear")
    torch_models = calibration_models("torch-eager", [spec])
    assert input_shape(spec) == (1, 64)
    assert torch_module(spec) is not None
    # What is no pickle of ours is refused within the process; a pickle that ends it takes its turn with it.
    import pickle

    class Ends:
        def __reduce__(self) -> tuple[object, tuple[int]]:
            import os

            return os._exit, (7,)

    models = [(pickle.dumps(Ends(), protocol=2), ()), (torch_models[0].content, ())]
    bad, kept = time_series("torch-eager", models, effort=SHORT, rounds=2)
    assert "cannot run it" in bad.failure
    assert len(kept.wall) == 4


def test_a_runtime_that_is_absent_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    library = TIMED_RUNTIMES["ort"].library._replace(module="a_runtime_that_nobody_has")
    monkeypatch.setitem(TIMED_RUNTIMES, "ort", TIMED_RUNTIMES["ort"]._replace(library=library))
    with pytest.raises(MissingLibrary, match="pip install"):
        time_series("ort", [])


def test_a_runtime_that_nobody_knows_is_refused() -> None:
    with pytest.raises(RunFailed, match="no runtime named 'abacus'"):
        calibration_models("abacus")


def test_one_thread_counts_its_own_time_and_more_count_the_clock() -> None:
    turns = TurnTimes(wall=[3.0, 2.0], cpu=[1.5, 1.0])
    assert (min_latency(turns, 1), min_latency(turns, 2)) == (1.0, 2.0)
    assert min_latency(TurnTimes(wall=[2e-6], cpu=[0.0]), 1) == 2e-6
