"""Settings files that cost far more than their size, or that have no end, in every reader."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sizeup.checks import read_baselines, read_budgets
from sizeup.errors import SizeupError, TargetError
from sizeup.formats.config_json import parse_json as parse_config
from sizeup.latency import read_table
from sizeup.mixed_precision.accuracy import read_accuracy
from sizeup.mixed_precision.precision_map import read_precision_map
from sizeup.results.precision import read_losses
from sizeup.runtimes import read_profile
from sizeup.serving.times.bench_files import read_runs
from sizeup.settings import parse_json, parse_toml
from sizeup.sweeps.expand import models_of
from sizeup.sweeps.spec import read_spec
from sizeup.targets import Catalog, write
from sizeup.targets.clusters import read_cluster
from timing import cpu_seconds

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TOML: dict[str, Callable[[Path], Any]] = {
    "budgets": read_budgets,
    "devices": lambda path: Catalog((path,)).devices(),
    "cluster": read_cluster,
    "sweep": read_spec,
    "coefficients": read_table,
}
JSON: dict[str, Callable[[Path], Any]] = {
    "baselines": lambda path: read_baselines(path, "sizeup"),
    "precision map": read_precision_map,
    "losses": read_losses,
    "configuration": lambda path: parse_config(path, str(path)),
    "benchmark": read_runs,
    "JSON coefficients": lambda path: read_table(path.rename(path.with_suffix(".json"))),
    "cards": lambda path: Catalog((path.rename(path.with_name("gpu_specs.json")),)).devices(),
}
OTHERS: dict[str, Callable[[Path], Any]] = {
    "profile": read_profile,
    "accuracy": read_accuracy,
    "calibration": write.check_writable,
    "latencies": lambda path: list(_rows(path)),
}


def _rows(path: Path) -> Iterator[dict[str, str]]:
    from sizeup.calibration.calibrate import _rows as rows

    return rows(path)


@contextmanager
def ended_after(seconds: int) -> Iterator[None]:
    """Ends a read that does not end by itself."""

    def end(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"still reading after {seconds} s")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.skipif(os.name != "posix", reason="only POSIX has pipes and devices in folders")
@pytest.mark.parametrize("kind", ["pipe", "device"])
@pytest.mark.parametrize("read", {**TOML, **JSON, **OTHERS}.values(), ids=[*TOML, *JSON, *OTHERS])
def test_only_regular_files_are_read(tmp_path: Path, read: Callable[[Path], Any], kind: str) -> None:
    path = tmp_path / "settings.toml"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    with ended_after(20), pytest.raises(SizeupError) as raised:
        read(path)
    assert "\n" not in str(raised.value)


PREFIXES = [".".join("a" * number) for number in range(1, 1501)]
COSTLY = {
    "tables in tables": "\n".join(f"[{prefix}]" for prefix in PREFIXES),
    "dotted keys": "\n".join(f"{prefix}.b = 1" for prefix in PREFIXES[:400]),
    "one key": f"{'a.' * 20_000}b = 1",
    "a long header": f"[{'a.' * 3_000}b]\n" + "".join(f"k{number} = 1\n" for number in range(3_000)),
    "quoted parts": "\n".join(f"""[{'."a."'.join("b" * 20)}]""" for _ in range(3)),
    "keys after a string": f'x = \'\'\'"\'\'\'\ny = """a\\"""""\n[{"a." * 3_000}b]',
    "very many tables": "".join(f"[a{number}]\n" for number in range(150_000)),
    "nested arrays": f"x = {'[' * 200}{']' * 200}",
}


@pytest.mark.alone
@pytest.mark.parametrize("text", COSTLY.values(), ids=COSTLY)
@pytest.mark.parametrize("read", TOML.values(), ids=TOML)
def test_a_toml_file_that_costs_more_than_its_size_is_refused_at_once(
    tmp_path: Path, read: Callable[[Path], Any], text: str
) -> None:
    path, plain = tmp_path / "costly.toml", tmp_path / "plain.toml"
    path.write_text(text, "utf-8")
    plain.write_text("# a comment\n" * (len(text) // 12 + 2_000), "utf-8")

    def refused() -> None:
        with pytest.raises(SizeupError, match=r"not a|more than|nested too deeply") as raised:
            read(path)
        assert "\n" not in str(raised.value)

    seconds = min(cpu_seconds(refused) for _ in range(2))
    assert seconds < 3 * cpu_seconds(lambda: tomllib.loads(plain.read_text("utf-8")))


@pytest.mark.parametrize("text", ["[" * 900 + "]" * 900, '{"a":' * 900 + "1" + "}" * 900, "1" * 5_000, "["])
@pytest.mark.parametrize("read", JSON.values(), ids=JSON)
def test_a_json_file_is_refused_in_one_line(tmp_path: Path, read: Callable[[Path], Any], text: str) -> None:
    path = tmp_path / "deep.json"
    path.write_text(text, "utf-8")
    with pytest.raises(SizeupError) as raised:
        read(path)
    assert "\n" not in str(raised.value)


_texts = st.text(st.sampled_from("ab.\"'#\\[]{}=\n é"), max_size=8)
_values = st.recursive(
    st.booleans() | st.integers(-9, 9) | _texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_texts, inner, max_size=3),
    max_leaves=8,
)


@given(st.text(st.sampled_from("ab.=\"'#\\[]{}1, \n"), max_size=60))
def test_what_the_toml_parser_reads_is_read_alike(text: str) -> None:
    try:
        content = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        with pytest.raises(ValueError, match=r"."):
            parse_toml(text)
    else:
        assert parse_toml(text) == content


@given(_values)
def test_json_is_read_alike(value: Any) -> None:
    assert parse_json(json.dumps(value)) == value


def test_sixteen_parts_are_enough_and_strings_do_not_count() -> None:
    text = "/".join(["a.b.c.d"] * 40)
    keys = (
        f"[{'.'.join('abcdefgh')}]\nx = \"{'.'.join(['a'] * 50)}\" # {'.'.join(['a'] * 50)}\ny = '{text}'\n"
    )
    assert parse_toml(keys) == tomllib.loads(keys)


@pytest.mark.parametrize("content", [b"\xff\n", b"a" * (1 << 17)])
def test_a_list_of_models_that_is_no_text_is_an_error(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_bytes(content)
    (tmp_path / "sweep.toml").write_text('models = "@list.txt"\ntargets = "rpi5/ort"\n')
    with pytest.raises(SizeupError, match=r"list\.txt"):
        list(models_of(read_spec(tmp_path / "sweep.toml")))


@pytest.mark.parametrize("value", ["NaN", "Infinity", "1" + "0" * 400, "true", '"1"'])
def test_a_loss_is_a_number_that_can_be_compared(value: str, tmp_path: Path) -> None:
    path = tmp_path / "losses.json"
    path.write_text(f'{{"a": {{"int8": {value}}}}}')
    with pytest.raises(SizeupError, match="losses"):
        read_losses(path)
    path.write_text('{"a": {"int8": 1}}')
    assert read_losses(path) == {"a": {"int8": 1}}


@pytest.mark.parametrize(
    "text",
    ["fit = 5", "device = 1", "[[fit]]\nx = 1", 'fit = ["a"]', "[[fit]]\nname = []", f"fit = 0x{'f' * 5000}"],
)
def test_a_forged_calibration_is_not_added_to(text: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(f"{write.HEAD}\n\n{text}\n")
    with pytest.raises(TargetError, match=r"mine\.toml"):
        write.save(path, {"name": "new"}, None)
