"""Checks for CI: annotations of GitHub Actions, JUnit XML, and the Code Quality report of GitLab.

Its fields are those of "Code Quality report format" (docs.gitlab.com, ci/testing/code_quality).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from sizeup.logs import inert, inert_xml
from sizeup.render.console.check import (
    Finding,
    announced,
    cells,
    headline,
    notices,
    over,
    reasons,
    title,
    undetermined,
)
from sizeup.render.vocabulary import NOT_APPLICABLE
from sizeup.results.check import Check, by_path
from sizeup.units import printable

if TYPE_CHECKING:
    from sizeup.results.parts import Limit

_SEVERITIES = {"error": "critical", "warning": "major", "notice": "info"}
# Characters that XML 1.0 cannot represent.
_UNWRITABLE = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def annotation_lines(checks: Sequence[Check]) -> Iterator[str]:
    """Yields one line per error, exceeded or undetermined limit, and notice."""
    for check in by_path(checks):
        for finding in announced(check):
            properties = [f"file={_property(model_path(check))}"] if check.is_file else []
            properties.append(f"title={_property(f'{check.name}: {finding.label}')}")
            yield f"::{finding.level} {','.join(properties)}::{_message(finding.text)}\n"


def model_path(check: Check) -> str:
    """Returns the path of a model relative to the current folder, as CI systems show it."""
    path = Path(check.model)
    is_inside = path.is_absolute() and path.is_relative_to(Path.cwd())
    return path.relative_to(Path.cwd()).as_posix() if is_inside else check.model


def _message(text: str) -> str:
    """Returns a message escaped for a workflow command."""
    return inert(printable(text)).replace("%", "%25")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")


def junit(checks: Sequence[Check]) -> str:
    """Returns one suite per model and one case per limit: a failure if exceeded, an error if undetermined.

    A model that could not be checked is one case with an error; a new or removed model, and an edit of the
    policy that decides nothing, is a skipped case.
    """
    root = ElementTree.Element("testsuites", {"name": "sizeup check"})
    for check in by_path(checks):
        suite = ElementTree.SubElement(root, "testsuite", {"name": _writable(check.model)})
        for name, limit in _case_names(check.limits):
            _case(suite, check, name, _outcome(limit), _amounts(limit))
        if check.error:
            _case(suite, check, "checked", ("error", check.error), headline(check))
        if check.unsupported_reason:
            _case(suite, check, "runs", ("failure", check.unsupported_reason), headline(check))
        if check.is_run_undetermined:
            text = "; ".join(finding.text for finding in notices(check) if finding.label == "host run")
            _case(suite, check, "runs", ("error", text), headline(check))
        if check.undetermined_reasons:
            text = "; ".join((*check.undetermined_reasons, *check.edits))
            _case(suite, check, "policy", ("error", text), headline(check))
        for label in ("new", "renamed", "removed") + ("edited",) * (not check.undetermined_reasons):
            if texts := [notice.text for notice in notices(check) if notice.label == label]:
                _case(suite, check, label, ("skipped", "; ".join(texts)), headline(check))
        if check.strict:
            text = "; ".join(finding.text for finding in reasons(check) if finding.label == "coverage")
            _case(suite, check, "coverage", ("error", text) if text else None, headline(check))
        _count(suite, failures="failure", errors="error", skipped="skipped")
    _count(root, failures="failure", errors="error")  # the schema of Jenkins has no `skipped` here
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{inert_xml(ElementTree.tostring(root, "unicode"))}\n'


def _case_names(limits: Sequence[Limit]) -> Iterator[tuple[str, Limit]]:
    """Yields every limit with a unique name: with its budget, and a number if budgets share a name."""
    counts = Counter(limit.name for limit in limits)
    seen: Counter[str] = Counter()
    for limit in limits:
        name = title(limit) if counts[limit.name] == 1 else cells(limit).name
        seen[name] += 1
        yield (name if seen[name] == 1 else f"{name} #{seen[name]}"), limit


def _amounts(limit: Limit) -> str:
    """Returns need, limit and headroom in one line, for a log."""
    row = cells(limit)
    amounts = {"need": row.need, "limit": row.limit, "headroom": row.headroom}
    return f"{', '.join(f'{name} {text}' for name, text in amounts.items() if text)}: {row.mark}"


def _outcome(limit: Limit) -> tuple[str, str] | None:
    if not limit.is_applicable:
        return "skipped", NOT_APPLICABLE
    if limit.fits is True:
        return None
    return ("failure", over(limit)) if limit.fits is False else ("error", undetermined(limit))


def _case(
    suite: ElementTree.Element, check: Check, name: str, outcome: tuple[str, str] | None, details: str
) -> None:
    names = {"classname": _writable(check.name), "name": _writable(name), "time": "0"}
    case = ElementTree.SubElement(suite, "testcase", names)
    if outcome is None:
        ElementTree.SubElement(case, "system-out").text = _writable(details)
        return
    tag, text = outcome
    reason = ElementTree.SubElement(case, tag, {"message": _writable(text), "type": f"sizeup.{tag}"})
    reason.text = _writable(f"{text}\n{details}")


def _count(element: ElementTree.Element, **tags: str) -> None:
    cases = list(element.iter("testcase"))
    for name, tag in tags.items():
        element.set(name, str(sum(case.find(tag) is not None for case in cases)))
    element.set("tests", str(len(cases)))


def _writable(text: str) -> str:
    return _UNWRITABLE.sub("\N{REPLACEMENT CHARACTER}", "\n".join(map(printable, text.split("\n"))))


def junit_lines(checks: Sequence[Check]) -> Iterator[str]:
    """Yields the JUnit XML as one text."""
    yield junit(checks)


def code_quality_lines(checks: Sequence[Check]) -> Iterator[str]:
    """Yields the Code Quality report as JSON text."""
    yield json.dumps(code_quality(checks), indent=2)
    yield "\n"


def code_quality(checks: Sequence[Check]) -> list[dict[str, Any]]:
    """Returns one issue per finding; fingerprints exclude amounts, so that they are stable."""
    seen: Counter[tuple[str, ...]] = Counter()
    issues = []
    for check in by_path(checks):
        for finding in announced(check):
            identity = (model_path(check), check.target or "", *check.budgets, finding.label, finding.about)
            seen[identity] += 1
            issues.append(_issue(check, finding, (*identity, str(seen[identity]))))
    return issues


def _issue(check: Check, finding: Finding, identity: tuple[str, ...]) -> dict[str, Any]:
    is_named = finding.text.startswith((f"{check.name}:", f"{check.model}:"))  # as most errors are
    return {
        "description": printable(finding.text if is_named else f"{check.name}: {finding.text}"),
        "check_name": f"sizeup-{finding.label}",
        "fingerprint": hashlib.sha256(repr(identity).encode("utf-8")).hexdigest(),
        "severity": _SEVERITIES[finding.level],
        "location": {"path": printable(model_path(check)), "lines": {"begin": 1}},
    }
