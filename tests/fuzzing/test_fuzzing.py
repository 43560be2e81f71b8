"""A short round of every target, and the fuzzer itself on inputs that misbehave."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fuzzing import supervisor
from fuzzing.gate_runtimes import RUNTIMES, Runtimes
from fuzzing.supervisor import Summary, fuzz, report
from fuzzing.targets import GROUPS, TARGETS, Target, mutant, seeds_of
from fuzzing.verdicts import judge, wrong_numbers
from fuzzing.worker import Order

SEED = 20261115
MODELS = ("tflite", "onnx")


@pytest.fixture(autouse=True, scope="module")
def _without_shared_models() -> Iterator[None]:
    """Rounds must be the same everywhere, so seeds come from the repository alone."""
    patch = pytest.MonkeyPatch()
    patch.setenv("SIZEUP_SHARED", "/nonexistent")
    yield
    patch.undo()
    RUNTIMES.close()


@pytest.fixture
def runtimes() -> Iterator[Runtimes]:
    """A process that runs models, which ends with the test."""
    started = Runtimes()
    yield started
    started.close()


def _round_here(name: str, mode: str, inputs: int, folder: Path) -> tuple[int, list[str]]:
    """A round in this process, which saves the start of a worker."""
    target = TARGETS[name]
    run, path, results, findings = target.runner(mode), folder / f"input{target.suffix}", 0, []
    for index in range(inputs):
        path.unlink(missing_ok=True)
        path.write_bytes(mutant(target, folder / "seeds", SEED, index, mode))
        has_result, finding = judge(run, path)
        results += has_result
        if finding is not None:
            findings.append(f"input {index}: {finding.signature}\n{finding.details}")
    return results, findings


@pytest.mark.extras
@pytest.mark.parametrize(("name", "inputs"), [("tflite", 3000), ("onnx", 2000)])
def test_mutated_models_are_analyzed_or_refused(name: str, inputs: int) -> None:
    summary = fuzz(name, seed=SEED, inputs=inputs)
    assert not summary.causes, report(summary)
    assert summary.inputs == inputs
    assert inputs / 4 < summary.results < 3 * inputs / 4


@pytest.mark.extras
@pytest.mark.parametrize("mode", ["plan", "check", "optimize"])
@pytest.mark.parametrize("name", MODELS)
def test_plans_verdicts_and_written_files_of_mutants_hold(name: str, mode: str, tmp_path: Path) -> None:
    results, findings = _round_here(name, mode, 200, tmp_path)
    assert not findings, "\n".join(findings)
    assert results > 40


@pytest.mark.extras
@pytest.mark.parametrize("name", MODELS)
def test_no_mutant_that_computes_the_same_passes_a_gate(name: str, tmp_path: Path) -> None:
    results, findings = _round_here(name, "gate", 120, tmp_path)
    assert not findings, "\n".join(findings)
    assert results > 60


@pytest.mark.extras
@pytest.mark.parametrize(("name", "runtime"), [("tflite", "litert"), ("tflite", "tflm"), ("onnx", "ort")])
def test_most_mutants_of_a_gate_compute_the_same(
    name: str, runtime: str, tmp_path: Path, runtimes: Runtimes
) -> None:
    """What the mode rests on: a runtime takes the mutants, which are not those of another mode."""
    pytest.importorskip(
        "tflite_micro" if runtime == "tflm" else "ai_edge_litert" if name == "tflite" else "onnxruntime"
    )
    from fuzzing import onnx_cheats, tflite_cheats

    cheats, target = (tflite_cheats if name == "tflite" else onnx_cheats), TARGETS[name]
    original, changed = tmp_path / f"original.{name}", tmp_path / f"mutant.{name}"
    same = 0
    for index in range(30):
        content = mutant(target, tmp_path / "seeds", SEED, index, "gate")
        original.write_bytes(cheats.seeds(tmp_path)[cheats.original_of(content)])
        changed.write_bytes(content)
        is_changed = content != original.read_bytes()
        same += is_changed and runtimes.outcome(runtime, original, changed).is_same
    assert same > 10


@pytest.mark.extras
def test_a_plan_that_runs_garbage_and_a_function_that_nothing_calls_are_wrong(
    tmp_path: Path, runtimes: Runtimes
) -> None:
    """What the runtimes say of them: the first computes something else, the second what it did."""
    pytest.importorskip("tflite_micro")
    pytest.importorskip("onnxruntime")
    import numpy as np
    from onnx import helper

    from formats.onnx.making import node
    from fuzzing import onnx_cheats, tflite_cheats
    from fuzzing.tflite_models import add_metadata

    paths = [tmp_path / name for name in ("a.tflite", "b.tflite", "a.onnx", "b.onnx")]
    file = tflite_cheats.residual()
    paths[0].write_bytes(file.pack())
    plan = [1, 0, len(file.main.table.tensors), *[0] * len(file.main.table.tensors)]
    add_metadata(file, "OfflineMemoryAllocation", np.array(plan, np.int32).tobytes())
    paths[1].write_bytes(file.pack())
    planned = runtimes.outcome("tflm", paths[0], paths[1])
    assert (planned.is_same, planned.refusal) == (False, "")
    assert planned.head[1] < planned.head[0]
    assert runtimes.outcome("litert", paths[0], paths[1]).is_same
    made = onnx_cheats.product()
    paths[2].write_bytes(made.SerializeToString())
    body = [node("Identity", "a", "c")]
    made.functions.append(
        helper.make_function("", "MatMul", ["a", "b"], ["c"], body, [helper.make_opsetid("", 18)])
    )
    paths[3].write_bytes(made.SerializeToString())
    shadowed = runtimes.outcome("ort", paths[2], paths[3])
    assert (shadowed.is_same, shadowed.macs) == (True, (256 * 64, 256 * 64))


@pytest.mark.extras
@pytest.mark.parametrize(
    ("name", "inputs"),
    [
        *((name, 200) for name in GROUPS["tables"] if name != "own-targets"),
        *(("own-targets", 20), ("stores", 15), ("external-data", 60), ("repositories", 40)),
    ],
)
def test_mutated_tables_and_folders_are_read_or_refused(name: str, inputs: int, tmp_path: Path) -> None:
    results, findings = _round_here(name, "analyze", inputs, tmp_path)
    assert not findings, "\n".join(findings)
    assert results > inputs / 8


@pytest.mark.extras
@pytest.mark.parametrize("name", GROUPS["toml"])
def test_mutated_settings_are_read_or_refused(name: str, tmp_path: Path) -> None:
    results, findings = _round_here(name, "analyze", 300, tmp_path)
    assert not findings, "\n".join(findings)
    assert results > 20


@pytest.mark.parametrize("name", GROUPS["llm"])
def test_mutated_language_models_and_clusters_are_read_or_refused(name: str, tmp_path: Path) -> None:
    results, findings = _round_here(name, "analyze", 300, tmp_path)
    assert not findings, "\n".join(findings)
    assert results > 20


@pytest.mark.parametrize("name", GROUPS["llm"])
def test_every_language_model_and_cluster_gives_a_result(name: str, tmp_path: Path) -> None:
    test_every_seed_gives_a_result(name, tmp_path)


@pytest.mark.extras
@pytest.mark.parametrize("name", [*MODELS, *GROUPS["toml"], *GROUPS["tables"], "stores", "external-data"])
def test_every_seed_gives_a_result(name: str, tmp_path: Path) -> None:
    target = TARGETS[name]
    run, path = target.runner("analyze"), tmp_path / f"input{target.suffix}"
    for content in seeds_of(target, tmp_path / "seeds"):
        path.write_bytes(content)
        assert judge(run, path) == (True, None)


@pytest.mark.extras
@pytest.mark.parametrize(
    "name", [*MODELS, *GROUPS["toml"], *GROUPS["tables"], "external-data", "repositories"]
)
def test_an_input_is_the_same_whenever_it_is_made(name: str, tmp_path: Path) -> None:
    target = TARGETS[name]
    inputs = [mutant(target, tmp_path, SEED, index) for index in range(100)]
    assert inputs == [mutant(target, tmp_path, SEED, index) for index in range(100)]
    assert len(set(inputs)) > 60


@pytest.fixture(scope="module")
def misbehavior() -> Summary:
    target = Target("fuzzing.misbehaving", ".word", {"analyze": "fuzzing.misbehaving:run"})
    return fuzz("misbehaving", target=target, inputs=40, workers=2, cpu_seconds=0.2)


@pytest.mark.parametrize(
    "cause",
    [
        "worker ended: SIGABRT",
        "Hang fuzzing/misbehaving.py",
        "Hang after an exception",
        "MemoryError fuzzing/misbehaving.py",
        "KeyError fuzzing/misbehaving.py",
        "numbers: peak_bytes",
    ],
)
def test_misbehavior_is_a_finding(misbehavior: Summary, cause: str) -> None:
    assert any(each.startswith(cause) for each in misbehavior.causes), report(misbehavior)


def test_no_input_is_lost_when_workers_die(misbehavior: Summary) -> None:
    assert misbehavior.inputs == 40
    assert misbehavior.results + misbehavior.findings > 20


def test_inputs_of_findings_are_kept(tmp_path: Path) -> None:
    target = Target("fuzzing.misbehaving", ".word", {"analyze": "fuzzing.misbehaving:run"})
    summary = fuzz("misbehaving", target=target, inputs=30, cpu_seconds=0.2, keep=tmp_path)
    contents = {Path(each.kept).read_bytes() for each in summary.causes.values()}
    assert {b"abort", b"loop", b"memory", b"raise"} <= contents


def test_no_count_is_lost_if_a_mutator_fails() -> None:
    target = Target("fuzzing.broken_mutator", ".word", {"analyze": "fuzzing.misbehaving:run"})
    summary = fuzz("broken", target=target, inputs=200, workers=2)
    (cause,) = summary.causes.values()
    assert cause.signature.startswith("the mutator failed: IndexError fuzzing/broken_mutator.py:")
    assert summary.inputs + cause.count == 200
    assert 20 < cause.count < 80
    assert summary.results > 50
    assert not summary.failure


def test_no_count_is_lost_if_a_worker_fails() -> None:
    target = Target("fuzzing.broken_mutator:ENDING", ".word", {"analyze": "fuzzing.misbehaving:run"})
    summary = fuzz("broken", target=target, inputs=1_000, seed=3)
    assert 0 < summary.inputs < 1_000
    assert summary.results > 0
    assert summary.failure.startswith("the worker failed: ")
    assert report(summary).endswith(summary.failure)


@pytest.mark.parametrize(("code", "is_killed"), [("while True: pass", False), ("input()", True)])
def test_only_a_worker_that_uses_no_cpu_is_stalled(
    code: str, is_killed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "STALLED_SECONDS", 1.0)
    order = supervisor._prepared(Order("", "", 0, 0, 1, 1, str(tmp_path / "worker"), 1.0, 1))
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as process:
        worker = supervisor._Running(order, process, moved=time.monotonic())
        for _ in range(30):
            if process.poll() is None:
                supervisor._kill_if_stalled(worker)
            time.sleep(0.1)
        assert (process.poll() is not None) == is_killed
        process.kill()


def test_only_impossible_numbers_are_wrong() -> None:
    fine = {"notes": [], "headroom": -5, "known": True, "macs": 10**30, "ops": [{"read_bytes": 2**60}]}
    assert not list(wrong_numbers(fine))
    assert not list(wrong_numbers({"bytes_per_second": 2.0**61}))  # a rate, which no memory holds
    assert list(wrong_numbers({"bytes_per_second": float("inf")}))
    wrong = {"notes": [], "ms": float("nan"), "ops": [{"macs": -1}, {"read_bytes": 2**60 + 1}]}
    assert [each.split()[0] for each in wrong_numbers(wrong)] == ["ms", "ops.macs", "ops.read_bytes"]
    assert not list(wrong_numbers({"notes": ["more than any machine has"], "read_bytes": 2**61}))


@pytest.mark.extras
def test_fields_are_where_the_schema_says() -> None:
    """Every shape, stride and name that the schema's own reader returns is at a site of that field."""
    import struct

    from ai_edge_litert import schema_py_generated as schema

    from fuzzing.flatbuffer_layout import sites
    from fuzzing.tflite_models import chain, rare_tables

    content = chain()
    found, model = sites(content), schema.ModelT.InitFromPackedBuf(content, 0)
    tensors, convolution = model.subgraphs[0].tensors, model.subgraphs[0].operators[0].builtinOptions
    numbers = [each for each in found["Tensor.Shape"] if each.kind == "number"]
    stored = [struct.unpack_from("<i", content, each.position)[0] for each in numbers]
    assert sorted(stored) == sorted(int(side) for tensor in tensors for side in tensor.shape)
    stride = next(each for each in found["Conv2DOptions.StrideW"] if each.kind == "number")
    assert struct.unpack_from("<i", content, stride.position)[0] == convolution.strideW == 2
    rare = sites(rare_tables())
    assert {"SignatureDef.Inputs", "Metadata.Name", "SparsityParameters.TraversalOrder"} <= set(rare)
    assert {"Uint8Vector.Values", "IfOptions.ThenSubgraphIndex", "Operator.CustomOptions"} <= set(rare)


@pytest.mark.extras
@pytest.mark.parametrize(("name", "least"), [("tflite", 40), ("onnx", 40), ("pt2", 40)])
def test_runtimes_agree_with_what_is_stated_of_mutants(name: str, least: int) -> None:
    pytest.importorskip({"tflite": "tflite_micro", "onnx": "onnxruntime", "pt2": "torch"}[name])
    from fuzzing.differential import compare

    summary = compare(name, seed=SEED, inputs=200)
    assert not summary.causes, report(summary)
    assert summary.results > least


@pytest.mark.extras
def test_runtimes_state_shapes_and_dtypes_of_a_network(tmp_path: Path) -> None:
    """The oracles of the differential mode, on networks whose values are known."""
    pytest.importorskip("onnxruntime")
    pytest.importorskip("torch")
    from fuzzing import onnx_models, pt2, runtime_values, tflite_models

    contents = {"ort": onnx_models.nested().SerializeToString(), "litert": tflite_models.offline_plan()}
    contents["torch"] = pt2.seeds(tmp_path)[0]
    expected = {"ort": {"sizes": ([2], "int64")}, "litert": {"1": ([1, 16], "float32")}}
    expected["torch"] = {"aten.conv2d 1 0": ([2, 8, 16, 16], "float32")}
    for runtime, content in contents.items():
        path = tmp_path / runtime
        path.write_bytes(content)
        damaged = tmp_path / f"damaged {runtime}"
        damaged.write_bytes(content[:99])
        none, found = runtime_values.values(runtime, [damaged, path])
        assert not none
        for name, each in expected[runtime].items():
            assert tuple(found[name]) == each


def run_tool(*arguments: str, without: Path | None = None) -> tuple[int, str]:
    """The exit code and stderr of tools/fuzz.py; modules in the folder `without` hide the installed ones."""
    path = os.pathsep.join(filter(None, [str(without or ""), os.environ.get("PYTHONPATH")]))
    tool = Path(__file__).parents[2] / "tools" / "fuzz.py"
    command = [sys.executable, str(tool), *arguments]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("tflite", "--mode", "bogus"), "choose from analyze, plan, check, optimize, gate, differential"),
        (("toml", "--mode", "plan"), "toml has no mode 'plan'; choose from analyze\n"),
        (("pt2", "--replay", "missing.pt2"), "--replay: no file missing.pt2"),
    ],
)
def test_a_wrong_option_ends_with_code_2(arguments: tuple[str, ...], message: str) -> None:
    code, error = run_tool(*arguments)
    assert code == 2
    assert message in error
    assert "Traceback" not in error


@pytest.mark.parametrize(
    ("module", "arguments"),
    [("onnx", ("onnx", "--inputs", "1")), ("atheris", ("budgets", "--coverage", "--seconds", "1"))],
)
def test_a_missing_library_ends_with_code_2(module: str, arguments: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / f"{module}.py").write_text(f"raise ModuleNotFoundError({f'No module named {module}'!r})\n")
    code, error = run_tool(*arguments, without=tmp_path)
    assert (code, len(error.splitlines())) == (2, 1)
    assert module in error
    assert error.endswith("; see Setting up in CONTRIBUTING.md\n")
