"""What machines read of a check: GitHub's annotations, JUnit's XML, Markdown."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sizeup.checks import Limit
from sizeup.render.console.check import over
from sizeup.render.data.ci import annotation_lines, code_quality, junit
from sizeup.render.markdown import MARKER, markdown
from sizeup.results.check import Check, Checks

_LINE = re.compile(r"::(error|warning|notice) (.*?)::(.*)\n")


def _check(name: str, model: str, limits: list[Limit], is_file: bool = True, strict: bool = False) -> Check:
    return Check(model, name, limits=tuple(limits), is_file=is_file, strict=strict, unknown_ops=0)


_OVER = Limit("macs", "count", 10, 20, 20)
_KEPT = Limit("params", "count", 10, 5, 5)
_OPEN = Limit("latency", "seconds", 0.02, 0.01, 0.03, 0.015)


def _undone(text: str) -> str:
    """As the runner of GitHub Actions reads it: these escapes, the per cent sign last."""
    for code, letter in {"%0D": "\r", "%0A": "\n", "%3A": ":", "%2C": ",", "%25": "%"}.items():
        text = text.replace(code, letter)
    return text


def _read(line: str) -> tuple[str, dict[str, str], str]:
    match = _LINE.fullmatch(line)
    assert match is not None, line
    pairs = (pair.partition("=") for pair in match[2].split(","))
    return match[1], {name: _undone(value) for name, _, value in pairs}, _undone(match[3])


def test_what_is_over_is_an_error_and_what_is_open_a_warning() -> None:
    lines = [
        _read(line) for line in annotation_lines([_check("net", "models/net.onnx", [_OVER, _KEPT, _OPEN])])
    ]
    assert [(level, properties["file"]) for level, properties, _ in lines] == [
        ("error", "models/net.onnx"),
        ("warning", "models/net.onnx"),
    ]
    assert lines[0][2] == "MACs: 20, 10 (100 %) more than the 10 allowed"
    assert list(annotation_lines([_check("net", "net.onnx", [_KEPT])])) == []


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (98.25, 102.5, "98.2 to 102 KiB, 2.25 to 6.50 KiB more than the 96.0 KiB of STM32F401RE"),
        (96.5, 2048, "96.5 KiB to 2.00 MiB, 512 B to 1.91 MiB more than the 96.0 KiB of STM32F401RE"),
        (960, 1920, "960 KiB to 1.88 MiB, 10 to 20 times the 96.0 KiB of STM32F401RE"),
        (102.5, None, "at least 102 KiB, 6.50 KiB (6.77 %) more than the 96.0 KiB of STM32F401RE"),
    ],
)
def test_an_excess_is_a_range_if_the_need_is(low: float, high: float | None, text: str) -> None:
    limit = Limit("ram", "bytes", 96 * 1024, low * 1024, high and high * 1024, source="STM32F401RE")
    assert over(limit) == f"RAM: {text}"


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=20))
def test_no_name_breaks_out_of_an_annotation(name: str) -> None:
    (line,) = annotation_lines([_check(f"n{name}", f"m{name}", [replace(_OVER, source=name)])])
    level, properties, message = _read(line)
    assert level == "error"
    # Control characters and what other agents take for a command are replaced.
    assert properties["file"] == f"m{name}" or not name.isprintable() or "##" in name
    assert set(properties) == {"file", "title"}
    assert message.startswith("MACs: 20")
    assert line.count("\n") == 1


@given(st.text(max_size=20), st.booleans())
def test_junit_is_well_formed_whatever_a_model_is_called(name: str, strict: bool) -> None:
    checks = [_check(name, name, [_OVER, _KEPT, _OPEN], strict=strict), _check("b", "b", [_KEPT])]
    root = ElementTree.fromstring(junit(checks).encode("utf-8"))
    assert root.tag == "testsuites"
    suites = root.findall("testsuite")
    assert len(suites) == 2
    cases = root.findall("testsuite/testcase")
    assert len(cases) == 4 + strict == int(root.attrib["tests"])
    assert root.attrib["failures"] == "1" == str(len(root.findall("testsuite/testcase/failure")))
    assert root.attrib["errors"] == "1" == str(len(root.findall("testsuite/testcase/error")))
    for suite in suites:
        assert int(suite.attrib["tests"]) == len(suite.findall("testcase"))
        assert suite.attrib["name"] is not None
    for case in cases:
        assert {"name", "classname", "time"} <= set(case.attrib)


@given(st.text(max_size=20))
def test_a_row_of_markdown_keeps_its_cells(name: str) -> None:
    text = "".join(markdown([_check(f"n{name}", "m", [replace(_OVER, source=f"o{name}")])]))
    rows = [line for line in text.split("\n") if line.startswith("| MACs")]
    assert len(rows) == 1
    assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", rows[0])) == 6
    assert "<" not in text.removesuffix(f"{MARKER}\n")


# The rules of the schema that Jenkins' xUnit plugin publishes (junit-10.xsd), which GitLab's reader is less
# strict than: attributes that an element must have, others that it may have, and the elements in it.
_JUNIT: dict[str, tuple[set[str], set[str], set[str]]] = {
    "testsuites": (set(), {"name", "time", "tests", "failures", "errors"}, {"testsuite"}),
    "testsuite": (
        {"name", "tests", "failures", "errors"},
        {"time", "skipped", "timestamp", "hostname", "id", "package", "file", "log", "url", "group"},
        {"testsuite", "properties", "testcase", "system-out", "system-err"},
    ),
    "testcase": (
        {"name"},
        {"time", "classname", "group"},
        {"skipped", "error", "failure", "system-out", "system-err"},
    ),
    **{name: (set(), {"type", "message"}, set()) for name in ("failure", "error", "skipped")},
    "system-out": (set(), set(), set()),
}
_ALL_KINDS = [
    _check("over", "models/over.onnx", [_OVER, _KEPT]),
    _check("open", "models/open.onnx", [_OPEN], strict=True),
    Check("bad.onnx", "bad.onnx", is_file=True, error="bad.onnx: not an ONNX model"),
    Check("new.onnx", "new", limits=(_KEPT,), is_file=True, no_baseline_reason="not in baselines.json"),
    Check("gone.onnx", "gone.onnx", is_file=True, base_revision="main", is_removed=True),
    Check("torchvision:alexnet", "alexnet", limits=(_OVER, _OVER), budgets=("one", "two")),
]


def test_junit_keeps_to_the_schema_of_jenkins() -> None:
    root = ElementTree.fromstring(junit(_ALL_KINDS).encode("utf-8"))
    assert root.tag == "testsuites"
    for element in root.iter():
        required, optional, inside = _JUNIT[element.tag]
        assert required <= set(element.attrib) <= required | optional, element.tag
        assert {each.tag for each in element} <= inside, element.tag
        if element.tag == "testcase":
            assert re.fullmatch(r"[0-9]*(\.[0-9]*)?", element.attrib["time"])
    suites = {each.attrib["name"]: each for each in root}
    assert len(suites) == len(_ALL_KINDS)
    for name, tag in {"bad.onnx": "error", "new.onnx": "skipped", "gone.onnx": "skipped"}.items():
        assert suites[name].find(f"testcase/{tag}") is not None
    assert suites["new.onnx"].attrib["skipped"] == "1"


# As GitLab documents the format: https://docs.gitlab.com/ci/testing/code_quality/#code-quality-report-format
_ISSUE = {
    "type": "object",
    "required": ["description", "check_name", "fingerprint", "severity", "location"],
    "properties": {
        "description": {"type": "string", "minLength": 1},
        "check_name": {"type": "string", "minLength": 1},
        "fingerprint": {"type": "string", "pattern": "^[0-9a-f]{32,}$"},
        "severity": {"enum": ["info", "minor", "major", "critical", "blocker"]},
        "location": {
            "type": "object",
            "required": ["path", "lines"],
            "properties": {
                # Relative, and without ./ before it.
                "path": {"type": "string", "pattern": "^(?!\\./|/)"},
                "lines": {
                    "type": "object",
                    "required": ["begin"],
                    "properties": {"begin": {"type": "integer", "minimum": 1}},
                },
            },
        },
    },
}


def test_code_quality_has_the_fields_that_gitlab_reads(tmp_path: Path) -> None:
    Checks(tuple(_ALL_KINDS)).save(tmp_path / "check.codequality.json")
    result = json.loads((tmp_path / "check.codequality.json").read_text("utf-8"))
    jsonschema.validate(result, {"type": "array", "items": _ISSUE})
    assert [(each["check_name"], each["severity"]) for each in result] == [
        ("sizeup-over", "critical"),
        ("sizeup-unknown", "major"),
        ("sizeup-error", "critical"),
        ("sizeup-new", "info"),
        ("sizeup-removed", "info"),
        ("sizeup-over", "critical"),
        ("sizeup-over", "critical"),
    ]
    assert len({each["fingerprint"] for each in result}) == len(result)


def test_a_fingerprint_stays_while_only_amounts_change() -> None:
    def prints(need: float) -> list[str]:
        limits = [replace(_OVER, need_low=need, need_high=need), _KEPT]
        return [each["fingerprint"] for each in code_quality([_check("net", "net.onnx", limits)])]

    assert prints(20) == prints(30)
    other = code_quality([_check("net", "other.onnx", [_OVER])]) + code_quality(
        [_check("net", "net.onnx", [_OPEN])]
    )
    assert not {each["fingerprint"] for each in other} & set(prints(20))


def test_paths_are_those_from_the_folder_of_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    check = _check("net", str(tmp_path / "models" / "net.onnx"), [_OVER])
    assert code_quality([check])[0]["location"]["path"] == "models/net.onnx"
    (line,) = annotation_lines([check])
    assert _read(line)[1]["file"] == "models/net.onnx"


def test_amounts_of_a_case_have_names_in_the_log_of_a_test(tmp_path: Path) -> None:
    _check("b", "b", [_KEPT]).save(tmp_path / "one.xml")
    assert "<system-out>need 5, limit 10, headroom 5 (50 %): ok<" in (tmp_path / "one.xml").read_text("utf-8")


def test_several_checks_share_a_file(tmp_path: Path) -> None:
    checks = [_check("a", "a", [_OVER]), _check("b", "b", [_KEPT])]
    for ending in ("json", "md", "xml"):
        Checks(tuple(checks)).save(tmp_path / f"all.{ending}")
    assert (tmp_path / "all.md").read_text("utf-8").startswith("## NO: 1 of 2 models fits, 1 does not (a)\n")
    assert '"fits": false' in (tmp_path / "all.json").read_text("utf-8")


@pytest.mark.parametrize(
    ("limits", "answer"), [([_KEPT], True), ([_KEPT, _OPEN], None), ([_OVER, _OPEN], False)]
)
def test_what_is_over_decides_before_what_is_open(limits: list[Limit], answer: bool | None) -> None:
    assert _check("net", "net", limits).fits is answer
