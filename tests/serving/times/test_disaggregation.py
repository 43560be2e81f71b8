"""Disaggregated serving, compared with hand calculations at data-sheet rates and a simulated queue."""

from __future__ import annotations

import heapq
import json
import random
from importlib.resources import files
from pathlib import Path

import jsonschema  # type: ignore[import-untyped,unused-ignore] # its types are in a separate package
import pytest

import published_configs
import sizeup
from cli.running import run_command
from sizeup.errors import SizeupError
from sizeup.serving.memory.deployment import deploy
from sizeup.serving.memory.engines import engine_of
from sizeup.serving.models.reader import read
from sizeup.serving.times.disaggregation import Disaggregation, disaggregate
from sizeup.targets.clusters import cluster

BANDWIDTH, MACS, LINK = 2.039e12, 156e12, 300e9  # A100 SXM 80 GB, NVLink 3
TOKEN_BYTES = 131_072  # of Llama-3.1-8B
SMALL = "llama-3.1-8b.json"


@pytest.fixture(scope="module")
def configs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("configs")
    published_configs.make(folder)
    return folder


def _divided(
    config: Path, target: str, text: str, input: int, output: int, clients: int = 1
) -> Disaggregation:
    """With data-sheet rates, which `sizeup.llm` refuses."""
    machines, engine = cluster(target)
    deployment = deploy(read(config), machines, engine_of(engine), input=input, output=output)
    return disaggregate(text, deployment, [clients], input, output)


def _step(context: float, tokens: int, sequences: int = 1) -> float:
    """Seconds of one step of Llama-3.1-8B on one A100: a prompt if it has several tokens, else decode."""
    attention = 32 * (2 * 4096 * 4096 + 2 * 1024 * 4096)
    norms, dense, head = 65 * 4096, 32 * 3 * 4096 * 14336, 128256 * 4096
    rows = sequences * tokens
    seconds = 0.0
    for stored, products in (
        (attention + norms, attention * rows), (dense, dense * rows), (head, head * sequences)
    ):  # fmt: skip
        seconds += ((2 * stored / BANDWIDTH) ** 4 + (products / MACS) ** 4) ** 0.25
    cache = sequences * TOKEN_BYTES * (context + tokens) / BANDWIDTH
    pairs = sequences * 32 * 2 * 4096 * (tokens * context + tokens * (tokens + 1) / 2) / MACS
    return seconds + (cache + pairs if tokens > 1 else max(cache, pairs))


def test_one_request_takes_its_prefill_the_transfer_and_decode_steps(configs: Path) -> None:
    division = _divided(configs / SMALL, "2xa100/sglang", "1:1", 2000, 200)
    point = division.points[0]
    prefill, decode, sent = _step(0, 2000), _step(2100, 1), TOKEN_BYTES * 2000 / LINK
    assert division.transfer_seconds == pytest.approx(sent, rel=1e-9)
    assert division.prefill_rate == pytest.approx(1 / prefill, rel=1e-9)
    assert point.tpot == pytest.approx(decode, rel=1e-9)
    assert point.ttft == pytest.approx(prefill + sent, rel=1e-6)
    each = 1 / (prefill + sent + 199 * decode)
    assert point.requests_per_second == pytest.approx(each, rel=1e-6)
    assert point.gpu_tokens_per_second == pytest.approx(each * 200 / 2, rel=1e-6)
    assert point.prefill_load == pytest.approx(each * prefill, rel=1e-6)
    # Both sides complete as many with r decode GPUs per prefill GPU: 1 / prefill = r / (199 decode).
    assert division.balance == pytest.approx(199 * decode / prefill, rel=1e-6)
    assert division.caveats == ("no interval: disaggregated serving is not calibrated",)


def test_the_smaller_side_limits_throughput(configs: Path) -> None:
    division = _divided(configs / SMALL, "2xa100/sglang", "1:1", 8000, 20, clients=64)
    point = division.points[0]
    prefill = _step(0, 8000)
    assert point.limiter == "prefill"
    assert point.requests_per_second == pytest.approx(1 / prefill, rel=0.02)
    # All clients but the few that decode wait for the prefill server.
    assert point.ttft == pytest.approx((64 - point.decoding) * prefill, rel=0.02)
    assert point.decoding == pytest.approx(19 * point.tpot / prefill, rel=0.02)


@pytest.mark.parametrize(("clients", "servers"), [(4, 1), (16, 1), (16, 4), (64, 2), (200, 4)])
def test_throughput_is_that_of_a_simulated_queue(configs: Path, clients: int, servers: int) -> None:
    division = _divided(
        configs / SMALL, f"{servers + 4}xa100/sglang", f"{servers}xtp1:4xtp1", 2000, 100, clients
    )
    point = division.points[0]
    decode = 99 * point.tpot
    completed, end = _simulated(clients, servers, _step(0, 2000), decode, 200 * clients)
    # Prefill times of the approximation are random, so waits are too long just before saturation.
    assert point.requests_per_second == pytest.approx(completed / end, rel=0.06)
    assert point.decoding == pytest.approx(completed / end * decode, rel=0.06)


def _simulated(clients: int, servers: int, prefill: float, decode: float, requests: int) -> tuple[int, float]:
    """Requests and seconds of clients that wait for a prefill server, then decode for about that long."""
    draw = random.Random(1)
    arrivals = [draw.random() * decode for _ in range(clients)]
    heapq.heapify(arrivals)
    free, end = [0.0] * servers, 0.0
    for _ in range(requests):
        start = max(heapq.heappop(arrivals), heapq.heappop(free))
        heapq.heappush(free, start + prefill)
        end = start + prefill + TOKEN_BYTES * 2000 / LINK + decode * (0.8 + 0.4 * draw.random())
        heapq.heappush(arrivals, end)
    return requests, end


@pytest.mark.parametrize(
    ("config", "target", "text", "size", "sent", "seconds"),
    [
        # Each of two decode GPUs receives half; one prefill GPU sends both halves.
        (SMALL, "3xa100/sglang", "tp1:tp2", TOKEN_BYTES * 500, TOKEN_BYTES * 1000, TOKEN_BYTES * 1000 / LINK),
        (SMALL, "4xa100/sglang", "tp2:tp2", TOKEN_BYTES * 500, TOKEN_BYTES * 500, TOKEN_BYTES * 500 / LINK),
        (SMALL, "3xa100/sglang", "tp2:tp1", TOKEN_BYTES * 1000, TOKEN_BYTES * 500, TOKEN_BYTES * 1000 / LINK),
        # 61 layers x (512 + 64) x 2 bytes, to each of 8 GPUs, over one port of 50 GB/s each
        ("deepseek-v3.json", "2x8xh200/vllm", "tp8:tp8", 70_272_000, 70_272_000, 70_272_000 / 50e9),
    ],
)
def test_fewer_prefill_gpus_send_longer_and_latent_caches_go_to_every_gpu(
    configs: Path, config: str, target: str, text: str, size: int, sent: int, seconds: float
) -> None:
    division = _divided(configs / config, target, text, 1000, 100)
    assert (division.transfer_bytes, division.sent_bytes) == (size, sent)
    assert division.transfer_seconds == pytest.approx(seconds, rel=1e-9)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("8", "write prefill:decode, such as 4:4 GPUs or 2xtp4:tp8"),
        ("4:2:2", "write prefill:decode"),
        ("nan:8", "write prefill:decode"),
        ("-4:12", "write prefill:decode"),
        ("4:", "write prefill:decode"),
        ("0:8", "0 GPUs are no part of 8xh100-sxm"),
        ("8:0", "8 GPUs are no part of 8xh100-sxm"),
        ("2:4", "it uses 6 GPUs, and 8xh100-sxm has 8"),
        ("4:8", "it uses 12 GPUs, and 8xh100-sxm has 8"),
        ("99999xtp9:tp1", "it uses 899,992 GPUs, and 8xh100-sxm has 8"),
        ("tp3:tp5", "tp3 does not divide the attention heads"),
        ("1:7", "no layout divides it|does not fit the prefill GPUs"),
        ("tp1:7xtp1", "llama-3.1-70b does not fit the prefill GPUs in layout tp1"),
    ],
)
def test_a_division_that_is_not_possible_is_refused(configs: Path, text: str, message: str) -> None:
    with pytest.raises(SizeupError, match=message):
        sizeup.llm(configs / "llama-3.1-70b.json", target="8xh100/vllm", disaggregate=text)


def test_targets_without_calibration_answers_of_one_token_and_drafts_are_refused(configs: Path) -> None:
    with pytest.raises(SizeupError, match="disaggregated serving needs calibrated times, and SGLang on a100"):
        sizeup.llm(configs / SMALL, target="2xa100/sglang", disaggregate="1:1")
    with pytest.raises(SizeupError, match="give answers of at least 2 tokens"):
        sizeup.llm(configs / SMALL, target="2xh100/vllm", output=1, disaggregate="1:1")
    with pytest.raises(SizeupError, match="a draft with disaggregated serving is not supported"):
        sizeup.llm(
            configs / SMALL, target="2xh100/vllm", disaggregate="1:1", draft=configs / SMALL,
            draft_tokens=4, acceptance=0.7,
        )  # fmt: skip


def test_a_division_is_printed_in_the_json_and_on_the_page(configs: Path, tmp_path: Path) -> None:
    command = ("llm", configs / SMALL, "-d", "8xh100/vllm", "--disaggregate", "4xtp1:4xtp1")
    shown = run_command(*command, "--concurrency", "1,64", "--price", "2.50USD")
    assert max(map(len, shown.stdout.splitlines())) <= 80
    text = " ".join(shown.stdout.split())
    assert "prefill 4 GPUs, dp4: at most" in text
    assert "requests decoding TPOT TTFT per 1 M output prefill busy limited by" in text
    assert "balance with 64 requests, both sides are as fast with" in text
    page = tmp_path / "llm.html"
    content = json.loads(run_command(*command, "--json", "-o", page).stdout)
    jsonschema.validate(content, json.loads((files("sizeup.serving.render") / "llm_schema.json").read_text()))
    assert content["disaggregation"]["points"][0]["requests"] == 1
    assert "Disaggregated serving" in page.read_text("utf-8")


def test_one_request_has_no_balance(configs: Path) -> None:
    """One request is on one side at a time, so that more GPUs on one side do not balance anything."""
    text = run_command("llm", configs / SMALL, "-d", "8xh100/vllm", "--disaggregate", "4:4").stdout
    assert "decode       4 GPUs" in text
    assert "balance" not in text
