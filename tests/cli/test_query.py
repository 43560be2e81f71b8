"""`sizeup query` as its users meet it: what is printed where, and with which code it ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sizeup.cli import main
from sweeps import answers

pytestmark = pytest.mark.extras
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the command line in this process, 80 columns wide."""
    for name in ("FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "80")

    def ended(*arguments: str | Path) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as left:
            main(["query", *map(str, arguments)])
        captured = capfd.readouterr()
        return int(left.value.code or 0), captured.out, captured.err

    return ended


def point(number: int, model: str, **figures: Any) -> answers.Row:
    usual = {"status": "ok", "fits": True, "ops": 4, "known_ops": 4, "ms": 2.0, "weight_bytes": 10240}
    place = (model, figures.pop("target", "rpi5/ort"), "int8", None, "")
    return answers.row_at(place, {**usual, "params": 2_500, "macs": 10**6, **figures}, number)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = [
        point(1, "zoo/small.onnx", ms=0.5),
        point(2, "zoo/large.onnx", ms=31.25, weight_bytes=3 * 2**20),
        point(3, "zoo/maybe.onnx", fits=None, ms=0.25),
        point(4, "zoo/\x1b[31mred.onnx", ms=4.0),
        point(5, "zoo/small.onnx", target="stm32f746/tflm", ms=None),
    ]
    return answers.write(tmp_path / "sweep", rows)


def test_a_view_is_a_table_of_80_columns_in_words(run: Run, folder: Path) -> None:
    code, out, err = run(folder, "--view", "fits", "-d", "rpi5", "--under", "20ms")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "fits: points that fit, fastest first"
    assert lines[1] == "all rows: target rpi5/ort, precision int8"
    assert lines[2] == "models of zoo/"
    assert lines[3].split()[:4] == ["model", "ms", "low_ms", "high_ms"]
    assert lines[4].split()[:4] == ["small.onnx", "500", "µs", "250"]
    assert "\x1b" not in out
    assert lines[6] == "2 rows"
    assert lines[7] == "1 point omitted: undetermined (--view unknown lists them)"
    assert max(map(len, lines[:-1])) <= 80


def test_without_a_question_it_tells_what_there_is(run: Run, folder: Path) -> None:
    code, out, _ = run(folder)
    assert code == 0
    assert out.splitlines()[0].startswith("summary: ")
    assert "stm32f746/tflm" in out


def test_the_summary_counts_undetermined_points(run: Run, folder: Path) -> None:
    _, out, _ = run(folder)
    assert {"fit", "too_large", "fit_unknown", "errors"} <= set(out.splitlines()[2].split())


def test_reasons_are_printed_whole_at_80_columns(run: Run, tmp_path: Path) -> None:
    """They are too long for a column, and were hidden or cut; equal reasons are printed once."""
    large = "RAM: at least 2.48 MiB needed, 512 KiB available; flash: 3.39 MiB needed, 2.00 MiB available"
    bound = "only a lower bound of the latency is known (low_ms)"
    rows = [
        point(1, "a.onnx", ms=None, latency_missing=bound),
        point(2, "b.onnx", ms=None, latency_missing=bound, fits=None, fits_reason=large),
        point(3, "c.onnx", fits=False, fits_reason=large),
    ]
    folder = answers.write(tmp_path / "sweep", rows)
    for view, numbers, reasons in (("unknown", ["1", "2, 1"], [bound, large]), ("misfits", ["1"], [large])):
        _, out, _ = run(folder, "--view", view, "--precision", "int8")
        lines = out.splitlines()
        title = next(index for index, line in enumerate(lines) if {"model", "reason"} <= set(line.split()))
        start = lines[title].index("reason")
        cells = [line[start:].split("  ")[0] for line in lines[title + 1 : title + 1 + len(numbers)]]
        assert cells == numbers
        printed = " ".join(out.split())
        for number, text in enumerate(reasons, 1):
            assert printed.count(f"reason {number} {text}") == 1
        assert max(map(len, lines[title:])) <= 80


def test_a_latency_needs_its_unit(run: Run, folder: Path) -> None:
    code, _, err = run(folder, "--view", "fits", "--under", "20")
    assert code == 2
    assert "--under 20: give a unit, e.g. 20ms" in err


def test_sql_results_are_printed_as_a_table(run: Run, folder: Path) -> None:
    _, out, _ = run(folder, "SELECT count(*) AS n, sum(weight_bytes) AS all_bytes FROM points")
    assert [line.split() for line in out.splitlines()] == [
        ["n", "all_bytes"],
        ["5", "3.04", "MiB"],
        ["1", "row"],
    ]


def test_what_is_not_known_is_a_question_mark(run: Run, folder: Path) -> None:
    _, out, _ = run(
        folder, "SELECT model, ms, fits FROM points WHERE ms IS NULL OR fits IS NULL ORDER BY key"
    )
    assert [line.split() for line in out.splitlines()[2:4]] == [
        ["maybe.onnx", "250", "µs", "?"],
        ["small.onnx", "?", "yes"],
    ]


def test_selected_columns_without_a_value_are_shown(run: Run, folder: Path) -> None:
    _, out, _ = run(folder, "SELECT batch FROM points LIMIT 2")
    assert out.splitlines() == ["all rows: batch -", "2 rows"]
    _, out, _ = run(folder, "SELECT caveat, error, ms FROM points WHERE ms IS NULL")
    assert [line.split() for line in out.splitlines()] == [
        ["caveat", "error", "ms"],
        ["-", "-", "?"],
        ["1", "row"],
    ]


def served(number: int, target: str, concurrency: int, **figures: Any) -> answers.Row:
    usual = {"kv": "bf16", "layout": "tp1", "input_tokens": 4096, "output_tokens": 512, "ms": None}
    usual |= {"tpot_ms": 7.3, "tpot_low_ms": 5.8, "ttft_ms": 160.0, "gpu_tokens_per_second": 12345.6}
    return point(number, "llama.json", target=target, concurrency=concurrency, **usual | figures)


def test_columns_that_distinguish_served_models_are_first(run: Run, tmp_path: Path) -> None:
    rows = [
        served(1, "h100/vllm", 1),
        served(2, "h100/vllm", 64, tpot_ms=34.6),
        served(3, "2xh100/vllm", 1, layout="tp2"),  # determined by the target
        served(4, "2xh100/vllm", 64, layout="tp2", tpot_ms=None),
    ]
    _, out, _ = run(answers.write(tmp_path / "served", rows), "--view", "serving")
    lines = out.splitlines()
    assert lines[1] == "all rows: weights int8, kv bf16, input_tokens 4,096, output_tokens 512"
    assert lines[2].split()[:6] == ["model", "target", "concurrency", "fits", "tpot_ms", "ttft_ms"]
    assert [line.split()[1:5] for line in lines[3:7]] == [
        ["2xh100/vllm", "1", "yes", "7.3"],
        ["2xh100/vllm", "64", "yes", "?"],
        ["h100/vllm", "1", "yes", "7.3"],
        ["h100/vllm", "64", "yes", "34.6"],
    ]
    rows.append(served(5, "h100/vllm", 1, input_tokens=32768, kv="fp8"))
    rows.append(served(6, "h100/vllm", 1, input_tokens=32768, kv="bf16"))
    _, out, _ = run(answers.write(tmp_path / "more", rows), "--view", "serving")
    assert out.splitlines()[1] == "all rows: weights int8, output_tokens 512"
    assert out.splitlines()[2].split()[:6] == ["model", "target", "concurrency", "kv", "input_tokens", "fits"]


def test_points_with_a_time_per_output_token_are_timed(run: Run, tmp_path: Path) -> None:
    rows = [served(1, "h100/vllm", 1), served(2, "h100/vllm", 64, tpot_ms=None), point(3, "net.onnx")]
    folder = answers.write(tmp_path / "served", rows)
    _, out, _ = run(folder, "SELECT timed, points FROM summary ORDER BY target")
    assert [line.split() for line in out.splitlines()[1:3]] == [["1", "2"], ["1", "1"]]
    _, out, _ = run(folder, "SELECT gpu_tokens_per_second FROM points LIMIT 1")
    assert out.splitlines()[1].strip() == "12,346"
    _, out, _ = run(answers.write(tmp_path / "alone", rows[:2]))
    assert out.splitlines()[1].split()[-2:] == ["points", "timed"]
    assert "median_ms" not in out


def test_json_is_alone_on_stdout(run: Run, folder: Path) -> None:
    code, out, err = run(folder, "--view", "fastest", "--top", "9", "--json")
    assert (code, err) == (0, "")
    data = json.loads(out)
    assert data["rows"][0]["model"] == "zoo/small.onnx"
    assert [row["rank"] for row in data["rows"]] == [1, 2, 3, 4]


def test_files_are_written_and_named(run: Run, folder: Path, tmp_path: Path) -> None:
    paths = [tmp_path / f"answer.{ending}" for ending in ("csv", "parquet", "json")]
    code, out, err = run(folder, "--view", "fits", *(part for path in paths for part in ("-o", path)))
    assert (code, out) == (0, "")
    assert [line.partition(" written, ")[0] for line in err.splitlines()] == [str(path) for path in paths]
    assert all(path.stat().st_size > 50 for path in paths)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("SELECT modle FROM points",), '"modle" not found in FROM clause; nearest: model'),
        (("--view", "fastst"), "unknown view 'fastst'; nearest: fastest, fits; known: summary"),
        (("--view", "points"), 'query it with "SELECT * FROM points"'),
        (("-o", "answer.txt"), "answer.txt: a query result is written as .csv, .parquet, .json or .html"),
        (("-o", "nowhere/answer.csv"), "nowhere/answer.csv: no such folder"),
        (("COPY points TO 'x'",), "queries are read-only"),
    ],
)
def test_slips_end_with_one_line_and_code_2(
    run: Run, folder: Path, arguments: tuple[str, ...], message: str
) -> None:
    code, out, err = run(folder, *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert "Traceback" not in err


def test_a_folder_that_does_not_exist_is_an_error(run: Run, tmp_path: Path) -> None:
    code, _, err = run(tmp_path / "nothing")
    assert code == 2
    assert "no sweep results found" in err


def test_help_holds_an_example(run: Run) -> None:
    code, out, _ = run("--help")
    assert code == 0
    assert "Example: sizeup query results --view fits" in " ".join(out.split())
