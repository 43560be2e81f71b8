"""Checks for CI: annotations as GitHub shows them, JUnit's XML, and GitLab's Code Quality report.

The fields of the last are those of "Code Quality report format" in GitLab's documentation (docs.gitlab.com,
ci/testing/code_quality).
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO
from xml.etree import ElementTree

from sizeup.render.console.check import (
    Finding,
    announced,
    cells,
    headline,
    open_question,
    over,
    reasons,
    remarks,
    title,
)
from sizeup.results.check import Check, by_path
from sizeup.units import plain

if TYPE_CHECKING:
    from sizeup.results.parts import Limit

_SEVERITIES = {"error": "critical", "warning": "major", "notice": "info"}
# What XML 1.0 has no way to write.
_UNWRITABLE = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@contextmanager
def without_commands(log: TextIO) -> Iterator[None]:
    """Have GitHub Actions read what is printed meanwhile as text: a line may begin with a layer's name."""
    token = secrets.token_hex(16)
    log.write(f"::stop-commands::{token}\n")
    try:
        yield
    finally:
        log.write(f"::{token}::\n")


def annotated(checks: Sequence[Check]) -> Iterator[str]:
    """A line for every error, every limit that is over or undetermined, and every remark of a model."""
    for check in by_path(checks):
        for finding in announced(check):
            properties = [f"file={_property(place(check))}"] if check.is_file else []
            properties.append(f"title={_property(plain(f'{check.name}: {finding.label}'))}")
            yield f"::{finding.level} {','.join(properties)}::{_message(plain(finding.text))}\n"


def place(check: Check) -> str:
    """The path of a model as a CI system shows it: from the folder of the job, which is the present one."""
    path = Path(check.model)
    is_inside = path.is_absolute() and path.is_relative_to(Path.cwd())
    return path.relative_to(Path.cwd()).as_posix() if is_inside else check.model


def _message(text: str) -> str:
    """A message as a workflow command takes it: the runner undoes precisely these."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")


def junit(checks: Sequence[Check]) -> str:
    """One suite per model, one case per limit: a failure if it is exceeded, an error if undetermined.

    A model that could not be judged is one case with an error; growth of a new model is a skipped case.
    """
    root = ElementTree.Element("testsuites", {"name": "sizeup check"})
    for check in by_path(checks):
        suite = ElementTree.SubElement(root, "testsuite", {"name": _writable(check.model)})
        for name, limit in _case_names(check.limits):
            _case(suite, check, name, _verdict_of(limit), _told(limit))
        if check.error:
            _case(suite, check, "judged", ("error", check.error), headline(check))
        if check.refused:
            _case(suite, check, "runs", ("failure", check.refused), headline(check))
        for remark in remarks(check):
            if remark.label in ("new", "removed"):
                _case(suite, check, remark.label, ("skipped", remark.text), headline(check))
        if check.strict:
            text = "; ".join(each.text for each in reasons(check) if each.label == "coverage")
            _case(suite, check, "coverage", ("error", text) if text else None, headline(check))
        _count(suite, failures="failure", errors="error", skipped="skipped")
    _count(root, failures="failure", errors="error")  # the schema of Jenkins has no `skipped` there
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, "unicode")}\n'


def _case_names(limits: Sequence[Limit]) -> Iterator[tuple[str, Limit]]:
    """Every limit under a name that no other has: with its budget, and a number if budgets share a name."""
    counts = Counter(limit.name for limit in limits)
    seen: Counter[str] = Counter()
    for limit in limits:
        name = title(limit) if counts[limit.name] == 1 else cells(limit).name
        seen[name] += 1
        yield (name if seen[name] == 1 else f"{name} #{seen[name]}"), limit


def _told(limit: Limit) -> str:
    """Every amount under its name, for a log without a table."""
    found = cells(limit)
    amounts = {"need": found.need, "limit": found.limit, "headroom": found.headroom}
    return f"{', '.join(f'{name} {text}' for name, text in amounts.items() if text)}: {found.kept}"


def _verdict_of(limit: Limit) -> tuple[str, str] | None:
    if limit.fits is True:
        return None
    return ("failure", over(limit)) if limit.fits is False else ("error", open_question(limit))


def _case(
    suite: ElementTree.Element, check: Check, name: str, found: tuple[str, str] | None, said: str
) -> None:
    names = {"classname": _writable(check.name), "name": _writable(name), "time": "0"}
    case = ElementTree.SubElement(suite, "testcase", names)
    if found is None:
        ElementTree.SubElement(case, "system-out").text = _writable(said)
        return
    kind, text = found
    reason = ElementTree.SubElement(case, kind, {"message": _writable(text), "type": f"sizeup.{kind}"})
    reason.text = _writable(f"{text}\n{said}")


def _count(element: ElementTree.Element, **tags: str) -> None:
    cases = list(element.iter("testcase"))
    for name, tag in tags.items():
        element.set(name, str(sum(case.find(tag) is not None for case in cases)))
    element.set("tests", str(len(cases)))


def _writable(text: str) -> str:
    return _UNWRITABLE.sub("\N{REPLACEMENT CHARACTER}", "\n".join(map(plain, text.split("\n"))))


def junit_lines(checks: Sequence[Check]) -> Iterator[str]:
    """JUnit's XML as one piece of text."""
    yield junit(checks)


def code_quality_lines(checks: Sequence[Check]) -> Iterator[str]:
    """The Code Quality report as JSON text."""
    yield json.dumps(code_quality(checks), indent=2)
    yield "\n"


def code_quality(checks: Sequence[Check]) -> list[dict[str, Any]]:
    """One issue per finding; a fingerprint holds no amounts, so that it stays while the finding does."""
    seen: Counter[tuple[str, ...]] = Counter()
    listed = []
    for check in by_path(checks):
        for finding in announced(check):
            identity = (place(check), check.target or "", *check.budgets, finding.label, finding.about)
            seen[identity] += 1
            listed.append(_issue(check, finding, (*identity, str(seen[identity]))))
    return listed


def _issue(check: Check, finding: Finding, identity: tuple[str, ...]) -> dict[str, Any]:
    is_named = finding.text.startswith((f"{check.name}:", f"{check.model}:"))  # as most errors are
    return {
        "description": plain(finding.text if is_named else f"{check.name}: {finding.text}"),
        "check_name": f"sizeup-{finding.label}",
        "fingerprint": hashlib.sha256(repr(identity).encode("utf-8")).hexdigest(),
        "severity": _SEVERITIES[finding.level],
        "location": {"path": plain(place(check)), "lines": {"begin": 1}},
    }
