"""Results of serving benchmarks, from the files that engines write. The content is untrusted.

    vllm bench serve --save-result                one JSON object, or one per line with --append-result
    python -m sglang.bench_serving --output-file  one JSON object per line
    trtllm-bench throughput --streaming           one JSON object, with --report_json

Times are medians if a file has them, else means: requests that start together delay the first tokens of a
run. Lengths are means over completed requests.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sizeup.errors import SizeupError
from sizeup.files import read_problem, read_settings
from sizeup.formats.names import check_regular
from sizeup.settings import parse_json
from sizeup.targets.table import Table

_MOST_RUNS = 1_000
_MOST_REQUESTS = 1 << 24
_MOST_TOKENS = 1 << 40  # of all requests
_LONGEST_MS = 1e9
_MOST_DIGITS = 18
_LEAST_PER_CLIENT = 3  # requests: the first ones of all clients start together
_BURST = "most requests started together and queued, so TTFT is not used"
_HELP = (
    "give the JSON file of vllm bench serve --save-result, sglang.bench_serving --output-file or"
    " trtllm-bench throughput --streaming --report_json"
)


@dataclass(frozen=True, slots=True)
class BenchmarkRun:
    """One run of a benchmark; times in seconds."""

    place: str  # file and line, for messages
    file: str  # its name
    tool: str  # 'trtllm-bench', or 'bench serve' for vLLM and SGLang, whose files have the same keys
    model: str  # as the benchmark names it; empty if it does not
    requests: int  # concurrent
    input: int
    output: int
    tpot: float
    ttft: float | None  # None if most requests started together
    notes: tuple[str, ...] = ()
    divisions: tuple[int, int, int] | None = None  # tensor, pipeline and all GPUs, if the file states them


def read_runs(file: str | os.PathLike[str]) -> list[BenchmarkRun]:
    """The runs of a file; raises SizeupError, with the line, if it is not the result of a benchmark."""
    name = os.fspath(file)
    runs = [_run(table) for table in _tables(name)]
    if not runs:
        raise SizeupError(f"{name}: no result; {_HELP}")
    return runs


def _tables(name: str) -> Iterator[Table]:
    try:
        check_regular(Path(name))
        text = read_settings(name)
    except OSError as error:
        raise SizeupError(f"{name}: {read_problem(error)}") from None
    except ValueError as error:
        raise SizeupError(f"{name}: {error}; leave out --save-detailed and --output-details") from None
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    if len(lines) > 1 and not lines[0][1].rstrip().endswith("}"):
        lines = [(1, text)]  # one object over several lines
    if len(lines) > _MOST_RUNS:
        raise SizeupError(f"{name}: more than {_MOST_RUNS:,} lines")
    for number, line in lines:
        content = _parsed(line, f"{name}: line {number}")
        if not isinstance(content, dict):
            raise SizeupError(f"{name}: line {number}: not the result of a benchmark; {_HELP}")
        yield Table(content, name, f"line {number}", {})


def _parsed(text: str, place: str) -> Any:
    try:
        return parse_json(text, parse_int=_integer)
    except ValueError as error:
        raise SizeupError(f"{place}: not JSON: {error}; {_HELP}") from None


def _integer(digits: str) -> float:
    return int(digits) if len(digits) <= _MOST_DIGITS else math.inf


def _run(table: Table) -> BenchmarkRun:
    if "request_info" in table.values:
        return _trtllm_run(table)
    if "completed" in table.values and any(f"{kind}_tpot_ms" in table.values for kind in _KINDS):
        return _client_run(table)
    raise table.error(f"not the result of a benchmark; {_HELP}")


_KINDS = ("median", "mean")


def _client_run(table: Table) -> BenchmarkRun:
    """A run of `vllm bench serve` or `sglang.bench_serving`."""
    for key in ("accept_length", "spec_decode_acceptance_length"):
        _refuse_speculation(table, _optional(table, key, 0, 1e6))
    completed = table.integer("completed", 1, _MOST_REQUESTS) or 1
    input, output = (
        max(1, round((table.integer(key, 1, _MOST_TOKENS) or 0) / completed))
        for key in ("total_input_tokens", "total_output_tokens")
    )
    tpot = _first(table, [f"{kind}_tpot_ms" for kind in _KINDS])
    ttft = _first(table, [f"{kind}_ttft_ms" for kind in _KINDS])
    requests, notes = _concurrency(table, completed, ttft + tpot * (output - 1))
    failed = _optional(table, "failed", 0, _MOST_REQUESTS)
    if failed:
        notes = (*notes, f"{int(failed):,} requests failed")
    is_short = table.values.get("max_concurrency") is None or completed < _LEAST_PER_CLIENT * requests
    is_burst = _is_unlimited(table) and is_short
    if is_burst:
        notes = (*notes, _BURST)
    return BenchmarkRun(
        f"{table.file}: {table.location}", Path(table.file).name, "bench serve", _text(table, "model_id"),
        requests, input, output, tpot, None if is_burst else ttft, notes,
    )  # fmt: skip


def _concurrency(table: Table, completed: int, seconds: float) -> tuple[int, tuple[str, ...]]:
    """Concurrent requests: the limit that clients kept, else requests x seconds of each / duration."""
    limit = _optional(table, "max_concurrency", 1, _MOST_REQUESTS)
    if limit is not None and _is_unlimited(table):
        return min(int(limit), completed), ()
    duration = table.number("duration", 1e-6, _LONGEST_MS)
    mean = completed * seconds / duration
    requests = max(1, min(round(mean), completed, int(limit or completed)))
    return requests, (f"{requests:,} concurrent requests inferred from throughput and times",)


def _is_unlimited(table: Table) -> bool:
    """Whether requests were sent without waiting for a rate, as both benchmarks do by default."""
    return table.values.get("request_rate", "inf") in ("inf", math.inf, None)


def _trtllm_run(table: Table) -> BenchmarkRun:
    """A run of `trtllm-bench throughput`."""
    if table.values.get("decoding_stats") is not None:
        _refuse_speculation(table, 2)
    streaming, info = table.table("streaming_metrics"), table.table("request_info")
    if streaming is None or info is None:
        raise table.error("no TTFT and TPOT; run trtllm-bench throughput with --streaming")
    requests = max(1, round(info.number("avg_num_concurrent_requests", 1e-6, _MOST_REQUESTS)))
    input, output = (
        max(1, round(info.number(key, 1, _MOST_TOKENS))) for key in ("avg_input_length", "avg_output_length")
    )
    tpot, ttft = (
        _milliseconds(part, "p50") if part is not None else _milliseconds(streaming, f"avg_{name}_ms")
        for name in ("tpot", "ttft")
        for part in (streaming.table(f"{name}_percentiles"),)
    )
    is_burst = info.number("num_requests", 1, _MOST_REQUESTS) < _LEAST_PER_CLIENT * requests
    engine, world = table.table("engine"), table.table("world_info")
    sizes = ("tp_size", "pp_size", "world_size")
    divisions = None if world is None else tuple(world.integer(key, 1, _MOST_REQUESTS) or 1 for key in sizes)
    return BenchmarkRun(
        f"{table.file}: {table.location}", Path(table.file).name, "trtllm-bench",
        "" if engine is None else _text(engine, "model"),
        requests, input, output, tpot, None if is_burst else ttft,
        (f"{requests:,} concurrent requests on average", *((_BURST,) if is_burst else ())),
        None if divisions is None else (divisions[0], divisions[1], divisions[2]),
    )  # fmt: skip


def _refuse_speculation(table: Table, length: float | None) -> None:
    if length is not None and length > 1:
        raise table.error("measured with speculative decoding, which estimates leave out; run without it")


def _first(table: Table, keys: list[str]) -> float:
    """Seconds of the first key that is present."""
    return _milliseconds(table, next((key for key in keys if table.values.get(key) is not None), keys[0]))


def _milliseconds(table: Table, key: str) -> float:
    return table.number(key, 1e-6, _LONGEST_MS) / 1e3


def _optional(table: Table, key: str, least: float, most: float) -> float | None:
    return None if table.values.get(key) is None else table.number(key, least, most)


def _text(table: Table, key: str) -> str:
    value = table.values.get(key)
    return value if isinstance(value, str) else ""
