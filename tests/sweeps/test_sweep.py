"""Sweeps on this machine: rows against what the other verbs say, resuming, errors, poison."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import sizeup
from sizeup import formats
from sizeup.cost import count
from sizeup.errors import SizeupError
from sizeup.sweeps import Progress, Store, read_spec
from sizeup.sweeps.model_loader import ModelLoader
from sizeup.sweeps.schema import NAMES
from sweeps.generated import POISONED, write_models, write_poison
from sweeps.tables import rows_of, table_of, unfinished

TARGETS = ["rpi5/ort", "stm32f746/tflm"]
SPEC: dict[str, Any] = {"models": ["nets/*"], "targets": TARGETS, "precisions": ["stored", "int8"]}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Six small models in a folder that is the current one."""
    write_models(tmp_path / "nets", 6)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_number_of_a_row_is_what_analyze_says(folder: Path) -> None:
    done = sizeup.sweep(SPEC, folder / "out")
    assert (done.models, done.points, done.rows, done.errors) == (6, 4, 24, 0)
    rows = rows_of(folder / "out")
    assert len({row["key"] for row in rows}) == 24
    for row in rows:
        precision = None if row["precision"] == "stored" else row["precision"]
        report = sizeup.analyze(folder / row["model"], target=row["target"], precision=precision)
        expected = report.to_dict()
        for name in ("macs", "elementwise_ops", "params", "weight_bytes", "read_bytes", "written_bytes"):
            assert row[name] == expected["totals"][name], name
        assert row["peak_bytes"] == report.memory.peak_bytes
        assert row["arena_bytes"] == report.memory.arena_bytes
        assert row["allocated_bytes"] is row["reserved_bytes"] is None
        assert (row["ops"], row["known_ops"]) == (
            expected["coverage"]["ops"],
            expected["coverage"]["known_ops"],
        )
        if report.latency is None:
            assert row["ms"] is None
            assert row["latency_missing"] == report.no_latency_reason
        elif report.latency.low is None:
            assert (row["ms"], row["low_ms"], row["high_ms"]) == (None, expected["latency"]["ms"], None)
            assert row["latency_missing"] == "only a lower bound of the latency is known (low_ms)"
        else:
            for name in ("ms", "low_ms", "high_ms", "basis"):
                assert row[name] == expected["latency"][name], name
            spent = expected["latency"]["energy"]
            assert row["energy_mj"] == (None if spent is None else 1e3 * spent["joules"])
            assert (row["energy_mj"] is None) == (row["energy_missing"] is not None)


def test_a_row_on_a_gpu_has_the_memory_of_its_allocator(folder: Path) -> None:
    sizeup.sweep({"models": ["nets/*"], "targets": ["h100/torch-eager"]}, folder / "out", in_process=True)
    known = 0
    for row in rows_of(folder / "out"):
        memory = sizeup.analyze(folder / row["model"], target=row["target"]).memory.device_memory
        if memory is None:  # a size depends on data
            assert row["allocated_bytes"] is row["reserved_bytes"] is row["peak_bytes"] is None
            continue
        known += 1
        assert row["allocated_bytes"] == memory.allocated_bytes >= row["weight_bytes"] + row["peak_bytes"]
        assert row["reserved_bytes"] == memory.reserved_bytes
    assert known == 3


def test_nothing_is_null_without_a_reason(folder: Path) -> None:
    sizeup.sweep(SPEC, folder / "out", in_process=True)
    reasons = {
        "macs": "counts_missing",
        "arena_bytes": "memory_missing",
        "peak_bytes": "memory_missing",
        "ms": "latency_missing",
        "energy_mj": "energy_missing",
        "fits": "fits_reason",
    }
    for row in rows_of(folder / "out"):
        assert [name for name, why in reasons.items() if row[name] is None and not row[why]] == []


def test_a_second_run_computes_nothing(folder: Path) -> None:
    sizeup.sweep(SPEC, folder / "out", in_process=True)
    before = {path: path.stat().st_mtime_ns for path in (folder / "out" / "shards").rglob("*")}
    again = sizeup.sweep(SPEC, folder / "out", in_process=True)
    assert (again.existing, again.rows) == (6, 0)
    assert {path: path.stat().st_mtime_ns for path in (folder / "out" / "shards").rglob("*")} == before


def test_a_changed_sweep_computes_only_what_is_missing(folder: Path) -> None:
    sizeup.sweep(SPEC, folder / "out", in_process=True)
    write_models(folder / "nets", 7)
    more = {**SPEC, "targets": [*TARGETS, "esp32-s3"]}
    done = sizeup.sweep(more, folder / "out", in_process=True)
    assert done.rows == 6 * 2 + 6  # two precisions on a new target, and a new model
    assert len(rows_of(folder / "out")) == 7 * 6
    assert sizeup.sweep(more, folder / "out", in_process=True).rows == 0
    assert sizeup.sweep(SPEC, folder / "out", in_process=True).rows == 0
    fresh = sizeup.sweep(more, folder / "fresh", in_process=True)
    assert fresh.rows == 42
    assert table_of(folder / "fresh") == table_of(folder / "out")


def test_a_model_that_changes_is_evaluated_anew_under_its_name(folder: Path) -> None:
    sizeup.sweep(SPEC, folder / "out", in_process=True)
    (folder / "nets" / "00000.tflite").write_bytes((folder / "nets" / "00002.tflite").read_bytes())
    assert sizeup.sweep(SPEC, folder / "out", in_process=True).rows == 4
    results = {(row["model"], row["macs"]) for row in rows_of(folder / "out")}
    hashes = {(row["model"], row["model_hash"]) for row in rows_of(folder / "out")}
    assert len(results) == len(hashes) == 7
    same = [name for name, digest in hashes if ("nets/00002.tflite", digest) in hashes]
    assert sorted(same) == ["nets/00000.tflite", "nets/00002.tflite"]


def test_tables_of_two_runs_are_equal(folder: Path) -> None:
    sizeup.sweep(SPEC, folder / "one", workers=1)
    sizeup.sweep(SPEC, folder / "two", workers=2)
    sizeup.sweep(SPEC, folder / "three", in_process=True)
    assert table_of(folder / "one") == table_of(folder / "two") == table_of(folder / "three")


def test_poison_becomes_rows_and_nothing_else_is_lost(folder: Path) -> None:
    write_poison(folder)
    spec = {
        **SPEC,
        "models": ["nets/*", "truncated.tflite", "no.onnx"],
        "generate": "poison:all",
        "limits": {"seconds": 5, "memory": "1 GiB", "tries": 2},
    }
    done = sizeup.sweep(spec, folder / "out")
    rows = rows_of(folder / "out")
    assert len(rows) == len({row["key"] for row in rows}) == 11 * 4
    kinds = {row["model"]: row["error_kind"] for row in rows if row["status"] == "error"}
    assert kinds == POISONED
    assert done.errors == 20
    assert all(row["error"] for row in rows if row["status"] == "error")
    sizeup.sweep(SPEC, folder / "clean")
    kept = {row["key"]: row for row in rows if row["status"] == "ok"}
    assert kept == {row["key"]: row for row in rows_of(folder / "clean")}


LATE = """
from pathlib import Path


def network():
    return Path("late.tflite").read_bytes()


def all():
    yield "late", network
"""


def test_errors_are_retried_only_on_request_and_then_replaced(folder: Path) -> None:
    """What a digest does not see may mend: a library that was missing, here a file that code reads."""
    (folder / "late.py").write_text(LATE)
    spec = {**SPEC, "models": ["nets/00000.tflite"], "generate": "late:all"}
    assert sizeup.sweep(spec, folder / "out", compact=True).errors == 4
    assert {row["error_kind"] for row in rows_of(folder / "out")} == {None, "FileNotFoundError"}
    assert sizeup.sweep(spec, folder / "out").rows == 0
    again = sizeup.sweep(spec, folder / "out", retry_errors=True)
    assert (again.existing, again.rows, again.errors) == (1, 4, 4)
    (folder / "late.tflite").write_bytes((folder / "nets" / "00002.tflite").read_bytes())
    mended = sizeup.sweep(spec, folder / "out", retry_errors=True)
    assert (mended.rows, mended.errors) == (4, 0)
    rows = rows_of(folder / "out")
    assert len(rows) == len({row["key"] for row in rows}) == 8
    assert {row["status"] for row in rows} == {"ok"}
    assert sizeup.sweep(spec, folder / "out", retry_errors=True).rows == 0


GREEDY = """
import torch


class Greedy(torch.nn.Linear):
    def forward(self, x):
        bytearray(x.shape[0] << 28)
        return super().forward(x)


def network():
    return Greedy(4, 4), ((1, 4),)


def all():
    yield "greedy", network
"""


def test_a_batch_that_takes_too_much_memory_leaves_the_others(folder: Path) -> None:
    (folder / "greedy.py").write_text(GREEDY)
    spec = {"generate": "greedy:all", "targets": ["rpi5/ort"], "batch": [1, 64, 2]}
    sizeup.sweep(spec, folder / "out", memory="2 GiB")
    results = {row["batch"]: (row["macs"], row["error_kind"]) for row in rows_of(folder / "out")}
    assert results == {1: (16, None), 2: (32, None), 64: (None, "OutOfMemory")}


GENERATOR = """
import torch


def network(width, depth=1):
    layers = [torch.nn.Conv2d(3, width, 3, padding=1)]
    layers += [torch.nn.Conv2d(width, width, 3, padding=1) for _ in range(depth - 1)]
    return torch.nn.Sequential(*layers), ((1, 3, 8, 8),)


def candidates():
    for width in (4, 8):
        for depth in (1, 2):
            yield f"w{width}d{depth}", network, {"width": width, "depth": depth}
    yield "module", (torch.nn.Linear(5, 7), ((1, 5),))
    yield "nets/00000.tflite"
"""


def test_a_generator_makes_models(folder: Path) -> None:
    (folder / "search.py").write_text(GENERATOR)
    spec = {"generate": "search:candidates", "targets": ["rpi5/ort"], "batch": [1, 3]}
    done = sizeup.sweep(spec, folder / "out")
    assert done.models == 6
    macs = {(row["model"], row["batch"]): row["macs"] for row in rows_of(folder / "out")}
    for width in (4, 8):
        for depth in (1, 2):
            # 64 places, 9 taps; 3 channels first, then `width` in every further layer.
            by_hand = 64 * 9 * (3 * width + (depth - 1) * width * width)
            assert macs[f"w{width}d{depth}", 1] == by_hand
            assert macs[f"w{width}d{depth}", 3] == 3 * by_hand
    assert macs["module", 3] == 3 * 35
    assert sizeup.sweep(spec, folder / "out").rows == 0


def test_a_generator_that_fails_midway_is_named_in_the_error(folder: Path) -> None:
    (folder / "failing.py").write_text(GENERATOR + '    raise RuntimeError("no more ideas")\n')
    spec = {"generate": "failing:candidates", "targets": ["rpi5/ort"]}
    with pytest.raises(SizeupError, match="generate 'failing:candidates': RuntimeError: no more ideas"):
        sizeup.sweep(spec, folder / "out", in_process=True)
    assert {row["model"] for row in rows_of(folder / "out")} >= {"w4d1", "w8d2"}


def test_closed_forms_say_what_loading_anew_says(folder: Path) -> None:
    (folder / "search.py").write_text(GENERATOR)
    batches = [1, 2, 3, 5, 8, 13]
    spec = {"generate": "search:candidates", "targets": ["rpi5/ort"], "precisions": ["stored", "int8"]}
    sizeup.sweep({**spec, "batch": batches}, folder / "many", in_process=True)
    for batch in batches:
        sizeup.sweep({**spec, "batch": [batch]}, folder / "one", in_process=True)
    assert table_of(folder / "many") == table_of(folder / "one")
    assert len(rows_of(folder / "many")) == 6 * 6 * 2


def test_many_sizes_of_code_are_not_read_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    layer = torch.nn.Conv2d(3, 5, 3)
    loading = ModelLoader((layer, ((1, 3, 8, 8),)), 4)
    monkeypatch.setattr(formats, "load", None)  # calling it fails
    for batch in (1, 4, 7):
        assert count(loading({"batch": batch}, {})).total_macs == batch * 36 * 5 * 27
    few = ModelLoader((layer, ((1, 3, 8, 8),)), 3)
    with pytest.raises(TypeError):
        few({"batch": 2}, {})


def write_free(path: Path) -> None:
    """A product of a free number of rows, in a free number of batches, with 8 x 5 weights."""
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "seq", 8])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", "seq", 5])]
    weights = [numpy_helper.from_array(np.ones((8, 5), np.float32), "w")]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    onnx.save(helper.make_model(helper.make_graph(nodes, "free", inputs, outputs, weights)), path)


def test_batches_and_shapes_are_bound(folder: Path) -> None:
    write_free(folder / "free.onnx")
    spec = {
        "models": ["free.onnx", "nets/00000.tflite"],
        "targets": ["rpi5/ort"],
        "batch": [1, 2],
        "shapes": [{"seq": 16}, {"seq": 24}],
    }
    sizeup.sweep(spec, folder / "out", in_process=True)
    rows = rows_of(folder / "out")
    results = {(row["batch"], row["shapes"]): row["macs"] for row in rows if row["model"] == "free.onnx"}
    assert results == {(b, f'{{"seq":{n}}}'): b * n * 8 * 5 for b in (1, 2) for n in (16, 24)}
    others = [row for row in rows if row["model"] != "free.onnx"]
    assert len(others) == 4
    assert all(row["status"] == "error" and "seq" in row["error"] for row in others)


@pytest.mark.parametrize("batches", [[1, 3], [1, 2, 3, 4]], ids=["few", "many"])
def test_a_tflite_file_has_other_batches_or_says_what_keeps_its_own(
    folder: Path, shared: Path, batches: list[int]
) -> None:
    for name in ("mlperf_kws_int8", "tflm_mobilenetv2_224"):
        (folder / f"{name}.tflite").symlink_to(shared / "models" / f"{name}.tflite")
    spec = {"models": ["*.tflite"], "targets": ["rpi5/litert"], "batch": batches}
    sizeup.sweep(spec, folder / "out", in_process=True)
    rows = {(row["model"].partition(".")[0], row["batch"]): row for row in rows_of(folder / "out")}
    one, three = (rows["mlperf_kws_int8", batch] for batch in (1, 3))
    assert (one["macs"], three["macs"]) == (2_656_768, 3 * 2_656_768)
    # No plan of activations alone needs less at three times the sizes; weights are read once.
    assert (three["peak_bytes"], three["weight_bytes"]) == (3 * one["peak_bytes"], one["weight_bytes"])
    assert rows["tflm_mobilenetv2_224", 1]["status"] == "ok"
    assert "RESHAPE" in rows["tflm_mobilenetv2_224", 3]["error"]


def test_ops_of_unknown_cost_do_not_take_zero_milliseconds(folder: Path, shared: Path) -> None:
    (folder / "vela.tflite").symlink_to(shared / "models" / "tflm_person_detect_vela.tflite")
    spec = {"models": ["vela.tflite"], "targets": ["stm32f746", "pixel-8"]}
    sizeup.sweep(spec, folder / "out", in_process=True)
    assert [row["ms"] for row in rows_of(folder / "out")] == [None, None]
    assert all(row["latency_missing"] for row in rows_of(folder / "out"))


def test_an_ethos_u_is_undetermined_in_a_sweep(folder: Path, shared: Path) -> None:
    """Vela does not run in a sweep, and nothing else estimates an Ethos-U."""
    (folder / "speech.tflite").symlink_to(shared / "models" / "tflm_micro_speech.tflite")
    sizeup.sweep({"models": ["speech.tflite"], "targets": ["alif-e7"]}, folder / "out", in_process=True)
    (row,) = rows_of(folder / "out")
    assert row["status"] == "ok"
    names = ("fits", "ms", "low_ms", "ram_need_bytes", "flash_need_bytes", "arena_bytes", "energy_mj")
    assert {name: row[name] for name in names} == dict.fromkeys(names)
    assert "Vela" in row["latency_missing"]
    assert row["fits_reason"].count("Vela") == 1


def test_many_sizes_of_a_file_are_what_loading_it_anew_says(folder: Path) -> None:
    write_free(folder / "free.onnx")
    spec = {"models": ["free.onnx"], "targets": ["rpi5/ort", "rtx4090"], "precisions": ["stored", "int8"]}
    sizes = [(batch, {"seq": seq}) for batch in (1, 2, 7) for seq in (1, 16, 33)]
    for batch, shapes in sizes:
        sizeup.sweep({**spec, "batch": [batch], "shapes": [shapes]}, folder / "one", in_process=True)
    grid = {"batch": [1, 2, 7], "shapes": [{"seq": 1}, {"seq": 16}, {"seq": 33}]}
    sizeup.sweep({**spec, **grid}, folder / "many", in_process=True)
    assert table_of(folder / "many") == table_of(folder / "one")
    assert len(rows_of(folder / "many")) == 36


def test_a_tflite_file_has_batches_by_closed_forms(folder: Path) -> None:
    """Its file has a batch of one; every product is done for each of the others as well."""
    spec = {"models": ["nets/00002.tflite"], "targets": ["rpi5/litert-xnnpack"], "batch": [1, 2, 6]}
    sizeup.sweep(spec, folder / "out", in_process=True)
    macs = {row["batch"]: row["macs"] for row in rows_of(folder / "out")}
    alone = sizeup.count(folder / "nets" / "00002.tflite").total_macs
    assert macs == {1: alone, 2: 2 * alone, 6: 6 * alone}


def test_shapes_of_inputs_are_given_by_name(folder: Path) -> None:
    write_free(folder / "free.onnx")
    spec = {"models": ["free.onnx"], "targets": ["rpi5/ort"], "shapes": [{"x": "3x4x8"}, {"x": [3, 4, 8]}]}
    sizeup.sweep(spec, folder / "out", in_process=True)
    assert [(row["shapes"], row["macs"]) for row in rows_of(folder / "out")] == [('{"x":[3,4,8]}', 480)]


def test_points_may_be_listed(folder: Path) -> None:
    spec = {
        "models": ["nets/00001.onnx"],
        "points": [
            {"target": "rpi5/ort"},
            {"target": "stm32f746/tflm", "precision": "int8"},
            {"target": "rpi5/ort"},
        ],
    }
    sizeup.sweep(spec, folder / "out", in_process=True)
    results = {(row["target"], row["precision"]) for row in rows_of(folder / "out")}
    assert results == {("rpi5/ort", "stored"), ("stm32f746/tflm", "int8")}


def test_a_limit_that_no_process_can_keep_ends_the_sweep(folder: Path) -> None:
    with pytest.raises(SizeupError, match=r"a worker with 20\.0 MiB of memory does not start"):
        sizeup.sweep(SPEC, folder / "out", memory="20 MiB")
    assert children() == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": ["rpi5"]}, "unknown key 'target'; nearest: targets"),
        ({"models": []}, "no models"),
        ({"models": ["nothing/*.onnx"]}, "no file matches"),
        ({"targets": ["rpi55"]}, "nearest: rpi5"),
        ({"targets": ["nothing*"]}, "no device or board matches"),
        ({"targets": []}, "precisions without targets"),
        ({"precisions": ["int9"]}, "unknown precision 'int9'"),
        ({"batch": [0]}, "batch is"),
        ({"batch": ["2"]}, "batch is"),
        ({"shapes": [{"seq": "wide"}]}, "neither a size"),
        ({"limits": {"memory": "4 Gbit"}}, "not a size such as '320 KiB'"),
        ({"limits": {"second": 4}}, "nearest: seconds"),
        ({"points": [{"target": "rpi5", "prec": "int8"}]}, "nearest: precision"),
        ({"generate": ["absent.module:function"]}, "No module named"),
    ],
)
def test_a_wrong_sweep_is_refused_in_words(folder: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(SizeupError, match=r".") as refused:
        sizeup.sweep({**SPEC, **change}, folder / "out")
    assert message in str(refused.value)


def test_a_file_says_where_it_is_wrong(folder: Path) -> None:
    (folder / "sweep.toml").write_text('models = ["nets/*"]\ntargets = ["rpi5"]\nbatches = [1]\n')
    with pytest.raises(SizeupError, match=r"sweep.toml: top level: unknown key 'batches'; nearest: batch"):
        read_spec(folder / "sweep.toml")


def test_names_are_relative_to_the_file(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    (folder / "sweep.toml").write_text('models = ["nets/*.onnx"]\ntargets = ["rpi5"]\n')
    os.chdir(tmp_path_factory.mktemp("elsewhere"))
    sizeup.sweep(folder / "sweep.toml", "out", in_process=True)
    assert sorted(row["model"] for row in rows_of("out")) == [f"nets/0000{i}.onnx" for i in (1, 3, 5)]


def test_progress_is_reported(folder: Path) -> None:
    expected: list[Progress] = []
    sizeup.sweep(SPEC, folder / "out", progress=expected.append)
    assert [each.done for each in expected] == [1, 2, 3, 4, 5, 6]
    assert {each.total for each in expected} == {6}
    assert expected[-1].seconds_left == 0
    assert all(each.rate for each in expected)


def test_times_are_beside_the_table(folder: Path) -> None:
    sizeup.sweep(SPEC, folder / "out")
    lines = [json.loads(line) for line in (folder / "out" / "log" / "000000.jsonl").read_text().splitlines()]
    assert sorted(line["model"] for line in lines) == sorted(
        f"nets/{p.name}" for p in (folder / "nets").iterdir()
    )
    assert all(line["seconds"] > 0 for line in lines)
    predicted = ["user_tokens_per_second", "gpu_tokens_per_second", "times_missing"]
    assert [name for name in NAMES if "second" in name or "time" in name] == ["runtime", *predicted]


def children() -> list[int]:
    """Processes of ours that load models."""
    results = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        is_worker = any(b"sizeup.workers.worker" in word for word in words)
        if is_worker and os.fsencode(str(os.getpid())) in words:
            results.append(int(path.parent.name))
    return results


def test_no_process_and_no_file_is_left(folder: Path) -> None:
    write_poison(folder)
    spec = {**SPEC, "generate": "poison:all", "limits": {"seconds": 1, "memory": "1 GiB", "tries": 1}}
    sizeup.sweep(spec, folder / "out")
    assert children() == []
    assert unfinished(folder / "out") == []


def test_a_driver_killed_while_it_writes_leaves_a_store_that_goes_on(folder: Path) -> None:
    write_models(folder / "nets", 40)
    (folder / "sweep.toml").write_text(
        'models = ["nets/*"]\ntargets = ["rpi5/ort", "stm32f746"]\nprecisions = ["stored", "int8"]\n'
    )
    command = [sys.executable, "-m", "sizeup", "sweep", "sweep.toml", "-o", "out"]
    was_partial = False
    for _ in range(8):  # a file is unfinished for milliseconds: it takes a few drivers to meet one that is
        driver = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        while driver.poll() is None and not unfinished(folder / "out"):
            time.sleep(0.0005)
        driver.send_signal(signal.SIGKILL)
        driver.wait()
        was_partial = was_partial or bool(unfinished(folder / "out"))
        if was_partial:
            break
    done = sizeup.sweep(folder / "sweep.toml", folder / "out")
    assert done.models == 40
    assert unfinished(folder / "out") == []
    sizeup.sweep(folder / "sweep.toml", folder / "calm")
    assert table_of(folder / "out") == table_of(folder / "calm")
    assert was_partial


def test_two_sweeps_do_not_write_to_one_store(folder: Path) -> None:
    with Store(folder / "out").lock(), pytest.raises(SizeupError, match="another sweep is writing to it"):
        sizeup.sweep(SPEC, folder / "out")


def test_a_model_of_which_nothing_is_known_takes_no_zero_time(shared: Path, tmp_path: Path) -> None:
    spec = {"models": [str(shared / "models" / "tflm_audio_preproc_int8.tflite")], "targets": ["stm32f746"]}
    sizeup.sweep(spec, tmp_path / "out", in_process=True)
    (row,) = rows_of(tmp_path / "out")
    assert (row["macs"], row["ms"]) == (None, None)
    assert row["latency_missing"].startswith("no operator has a known latency on stm32f746")


def test_a_library_that_is_not_installed_is_named_in_the_row(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)
    spec = {**SPEC, "models": ["timm:resnet18", "nets/*"], "precisions": ["stored"], "batch": 2}
    sizeup.sweep(spec, folder / "out", in_process=True)
    (row, *_) = [row for row in rows_of(folder / "out") if row["model"] == "timm:resnet18"]
    assert (row["error_kind"], row["error"]) == (
        "MissingLibrary",
        "timm:resnet18 needs timm: pip install timm",
    )
