"""Many models in turns, in one process: what is measured, and what a bad one among them does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sizeup import formats
from sizeup.calibration.measuring import made_for, seconds_of
from sizeup.calibration.networks import networks
from sizeup.calibration.write_onnx import model_of
from sizeup.errors import MissingLibrary, RunFailed
from sizeup.runtimes import TIMED, TURN, Turns, random_samples, time_series

SHORT = replace(TURN, seconds=0.0, least_runs=2, warm_up=1, profiled_runs=1)


def content(family: str) -> bytes:
    sketch = next(each for each in networks() if each.family == family)
    made: bytes = model_of(sketch).SerializeToString()
    return made


def test_every_model_has_its_turns_and_a_profile() -> None:
    models = [content("linear"), content("softmaxes")]
    told: list[tuple[int, int]] = []
    found = time_series(
        "ort",
        [(each, random_samples(formats.load(each), 1)) for each in models],
        effort=SHORT,
        rounds=3,
        progress=lambda done, total: told.append((done, total)),
    )
    assert [len(each.wall) for each in found] == [len(each.cpu) for each in found] == [6, 6]
    assert [each.kernels[-1].kind for each in found] == ["Gemm", "Softmax"]
    assert told[-1] == (6, 6)


def test_a_model_that_is_refused_is_told_and_the_others_go_on() -> None:
    good = content("linear")
    models = [(b"no model", []), (good, random_samples(formats.load(good), 1))]
    bad, kept = time_series("ort", models, effort=SHORT, rounds=2)
    assert bad.failure.startswith("ONNX Runtime does not run it: ")
    assert not bad.wall
    assert (kept.failure, len(kept.wall)) == ("", 4)


def test_a_model_that_ends_the_process_is_left_out() -> None:
    pytest.importorskip("torch")
    from sizeup.calibration.write_torch import input_shape, module_of

    made = [each for each in made_for("torch-eager") if each.sketch.family == "linear"][:1]
    assert input_shape(made[0].sketch) == (1, 64)
    assert module_of(made[0].sketch) is not None
    # What is no pickle of ours is refused within the process; a pickle that ends it takes its turn with it.
    import pickle

    class Ends:
        def __reduce__(self) -> tuple[object, tuple[int]]:
            import os

            return os._exit, (7,)

    models = [(pickle.dumps(Ends(), protocol=2), ()), (made[0].content, ())]
    bad, kept = time_series("torch-eager", models, effort=SHORT, rounds=2)
    assert "does not run it" in bad.failure
    assert len(kept.wall) == 4


def test_a_runtime_that_is_absent_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    library = TIMED["ort"].library._replace(module="a_runtime_that_nobody_has")
    monkeypatch.setitem(TIMED, "ort", TIMED["ort"]._replace(library=library))
    with pytest.raises(MissingLibrary, match="pip install"):
        time_series("ort", [])


def test_a_runtime_that_nobody_knows_is_refused() -> None:
    with pytest.raises(RunFailed, match="no runtime is called 'abacus'"):
        made_for("abacus")


def test_one_thread_counts_its_own_time_and_more_count_the_clock() -> None:
    turns = Turns(wall=[3.0, 2.0], cpu=[1.5, 1.0])
    assert (seconds_of(turns, 1), seconds_of(turns, 2)) == (1.0, 2.0)
    assert seconds_of(Turns(wall=[2e-6], cpu=[0.0]), 1) == 2e-6
