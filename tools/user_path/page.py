"""The tables of the page on the errors of answers."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from user_path.evaluate import Answer, as_new
from user_path.scores import AT_LEAST, NO_ESTIMATE, Score, basis_of, by, error_factor, score

_BASES = ("calibrated", "instructions", "roofline")
_WORST = 15
_LEAST_ANSWERS = 3  # in a group that is listed among the worst
_SCORE_HEADER = "n | error factor | estimate / measured | interval covers | p-value | high / low |\n"
_SCORE_RULE = "--:|--:|--:|--:|--:|--:|\n"


def tables(answers: Sequence[Answer]) -> str:
    """All tables as Markdown, each under its heading."""
    judged = [answer for answer in answers if answer.quantity == "latency"]
    others = [answer for answer in answers if answer.quantity != "latency"]
    parts = (
        ("Answers with an interval", by_basis(judged)),
        ("Calibrations without the network's family", new_networks(judged)),
        ("Lower bounds", lower_bounds(judged)),
        ("Held-out sources", held_out(judged)),
        (f"Worst {_WORST} groups", worst(judged)),
        ("Answers that a user may not get", refusals(judged)),
        ("Other quantities", other_quantities(others)),
    )
    return "\n".join(f"### {title}\n\n{text}" for title, text in parts)


def _number(value: float, text: str) -> str:
    return "" if value != value else text


def _cells(scores: Score) -> str:
    p_value = "< 0.001" if scores.p_value < 0.001 else f"{scores.p_value:.3f}"
    return " | ".join(
        (
            f"{scores.answers:,}",
            _number(scores.error_factor, f"{scores.error_factor:.2f}"),
            _number(scores.ratio, f"{scores.ratio:.2f}"),
            _number(scores.coverage, f"{100 * scores.coverage:.0f} %"),
            _number(scores.p_value, p_value),
            _number(scores.width, f"{scores.width:.1f}"),
        )
    )


def by_basis(answers: Sequence[Answer]) -> str:
    """Answers with an interval, by basis and device class."""
    lines = [f"| basis | device class | {_SCORE_HEADER}", f"|---|---|{_SCORE_RULE}"]
    groups = by(answers, basis_of)
    for basis in _BASES:
        group = groups.get(basis, [])
        classes = by(group, lambda answer: answer.device_class)
        lines += [f"| {basis} | {name} | {_cells(score(classes[name]))} |\n" for name in sorted(classes)]
        if len(classes) > 1:
            lines.append(f"| {basis} | all | {_cells(score(group))} |\n")
    bounded = [answer for answer in answers if basis_of(answer) in _BASES]
    lines.append(f"| all | all | {_cells(score(bounded))} |\n")
    return "".join(lines)


def new_networks(answers: Sequence[Answer]) -> str:
    """Answers of calibrations that were fitted again without the family of the network, by device class."""
    lines = [f"| device class | {_SCORE_HEADER}", f"|---|{_SCORE_RULE}"]
    new = [answer for answer in map(as_new, answers) if answer is not None]
    classes = by(new, lambda answer: answer.device_class)
    for name, group in (*sorted(classes.items()), ("all", new)):
        lines.append(f"| {name} | {_cells(score(group))} |\n")
    return "".join(lines)


def lower_bounds(answers: Sequence[Answer]) -> str:
    """Answers without an interval, by device class: how many are below the measurement, and how far."""
    lines = ["| device class | n | below the measurement | bound / measured |\n", "|---|--:|--:|--:|\n"]
    bounds = [answer for answer in answers if basis_of(answer) == AT_LEAST]
    classes = by(bounds, lambda answer: answer.device_class)
    for name, group in (*sorted(classes.items()), ("all", bounds)):
        if group:
            below = sum(answer.ratio <= 1 for answer in group) / len(group)
            middle = median(answer.ratio for answer in group)
            lines.append(f"| {name} | {len(group):,} | {100 * below:.0f} % | {middle:.3g} |\n")
    return "".join(lines)


def held_out(answers: Sequence[Answer]) -> str:
    """The held-out sources, to which nothing is fitted; misleading answers include lower bounds."""
    lines = [
        f"| source | answers | misleading | with interval: {_SCORE_HEADER}",
        f"|---|--:|--:|{_SCORE_RULE}",
    ]
    estimated = [answer for answer in answers if answer.is_held_out and basis_of(answer) != NO_ESTIMATE]
    sources = by(estimated, lambda answer: answer.source)
    for name, group in (*sorted(sources.items()), ("all", estimated)):
        if group:
            bounded = score([answer for answer in group if answer.has_interval])
            share = f"{100 * score(group).misleading:.0f} %"
            lines.append(f"| {name} | {len(group):,} | {share} | {_cells(bounded)} |\n")
    return "".join(lines)


def worst(answers: Sequence[Answer], count: int = _WORST) -> str:
    """The groups of source, target, precision and basis with an interval with the largest error factors."""
    lines = [
        f"| source | target | precision | basis | {_SCORE_HEADER}",
        f"|---|---|---|---|{_SCORE_RULE}",
    ]
    bounded = [answer for answer in answers if answer.has_interval]
    groups = by(
        bounded,
        lambda answer: (answer.source, f"`{answer.target}`", answer.precision, basis_of(answer)),
    )
    large = [(key, group) for key, group in groups.items() if len(group) >= _LEAST_ANSWERS]
    large.sort(key=lambda item: -error_factor(answer.ratio for answer in item[1]))
    lines += [f"| {' | '.join(key)} | {_cells(score(group))} |\n" for key, group in large[:count]]
    return "".join(lines)


def refusals(answers: Sequence[Answer]) -> str:
    """Pairs without an estimate, and estimates marked as not applicable, by source and device class."""
    lines = ["| source | device class | pairs | no estimate | does not fit |\n", "|---|---|--:|--:|--:|\n"]
    groups = by(answers, lambda answer: (answer.source, answer.device_class))
    for (source, device_class), group in sorted(groups.items()):
        missing = sum(basis_of(answer) == NO_ESTIMATE for answer in group)
        unfit = sum(not answer.is_applicable for answer in group)
        if missing or unfit:
            lines.append(f"| {source} | {device_class} | {len(group):,} | {missing:,} | {unfit:,} |\n")
    return "".join(lines)


def other_quantities(answers: Sequence[Answer]) -> str:
    """Measurements that are not the latency of an estimate, which are not judged."""
    lines = [
        "| source | device class | quantity | n | estimate / measured |\n",
        "|---|---|---|--:|--:|\n",
    ]
    groups = by(answers, lambda answer: (answer.source, answer.device_class, answer.quantity))
    for (source, device_class, quantity), group in sorted(groups.items()):
        scores = score(group)
        ratio = _number(scores.ratio, f"{scores.ratio:.2f}")
        lines.append(f"| {source} | {device_class} | {quantity} | {scores.answers:,} | {ratio} |\n")
    return "".join(lines)
