"""What a page opens with: does the model fit the target, yes or no."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Literal

from sizeup import units
from sizeup.units import plain

if TYPE_CHECKING:
    from sizeup.results.parts import Room, Space
    from sizeup.results.report import Report
    from sizeup.targets import Target

State = Literal["fits", "not", "unsure", "none"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Yes, no or neither in a few words, what to add to that, and the memories behind it."""

    state: State
    words: str
    sentences: tuple[str, ...] = ()
    spaces: tuple[Space, ...] = ()


def verdict(report: Report) -> Verdict:
    """Whether the target that the report was made for has room for the model."""
    if report.target is None:
        return Verdict("none", "No target given", ("Name one with -d TARGET to see whether it fits.",))
    assert report.room is not None
    return _told(report, report.target, report.room)


def _told(report: Report, target: Target, found: Room) -> Verdict:
    title = target.device.title
    if found.refused:
        return Verdict("not", f"Does not run on {title}", (f"{found.refused}.",), found.spaces)
    if found.fits is False:
        short = " and ".join(each.words for each in found.spaces if each.fits is False)
        return Verdict(
            "not", f"Does not fit {title}", (f"There is too little {short} for it.",), found.spaces
        )
    doubts = tuple(f"{each[:1].upper()}{each[1:]}." for space in found.spaces for each in space.unknown)
    if found.fits is None:
        words = f"Cannot tell whether it fits {title}"
        return Verdict("unsure", words, doubts or (_between(found),), found.spaces)
    if report.unknown:
        doubts = ("Not every operator is known, and those may take more.",)
    return Verdict("fits", f"Fits {title}", doubts, found.spaces)


def _between(found: Room) -> str:
    unsure = " and ".join(each.words for each in found.spaces if each.fits is None)
    return f"What it needs of {unsure} is known from below and above only, and the limit lies between."


def verdict_html(found: Verdict) -> str:
    """The verdict as the first thing in the page."""
    said = " ".join(plain(each) for each in found.sentences)
    spaces = "".join(map(_space, found.spaces))
    listed = f'<ul class="rooms">{spaces}</ul>' if spaces else ""
    return (
        f'<div class="verdict {found.state}" id="verdict"><strong>{escape(plain(found.words))}</strong>'
        f" {escape(said)}{listed}</div>"
    )


def _space(space: Space) -> str:
    style = {True: "", False: ' class="short"', None: ' class="open"'}[space.fits]
    parts = escape(plain("; ".join(_parts(space))))
    words = f"<b>{escape(space.words)}</b>: {escape(needed(space)).replace(' %', '&nbsp;%')}"
    return f"<li{style}>{words}{_gauge(space)}<small>{parts}</small></li>"


def _gauge(space: Space) -> str:
    """What is certainly needed, and lighter what it may come to, of what there is."""
    if not space.limit_bytes:
        return ""
    least, most = (min(100 * each / space.limit_bytes, 100) for each in (space.least_bytes, space.need_bytes))
    return (
        f'<div class="gauge"><span style="width:{least:.1f}%"></span>'
        f'<span class="may" style="width:{most - least:.1f}%"></span></div>'
    )


def _parts(space: Space) -> Iterator[str]:
    for part in space.parts:
        least, most = units.size(part.least_bytes), part.most_bytes
        if part.is_exact:
            yield f"{part.name} {least}, {part.how}"
        elif most is None:
            yield f"{part.name} at least {least}, {part.how}"
        else:
            span = f"up to {units.size(most)}" if not part.least_bytes else f"{least} to {units.size(most)}"
            yield f"{part.name} {span}, {part.how}"
    yield from space.assumptions


def needed(space: Space) -> str:
    """The numbers of one memory in words: `54 KiB of 320 KiB (17 %)`."""
    least, most, limit = space.least_bytes, space.most_bytes, space.limit_bytes
    amount = units.size(least) if least == most else f"at least {units.size(least)}"
    if most is not None and least != most:
        amount = f"{units.size(least)} to {units.size(most)}"
    if limit is None:
        return f"{amount}; how much there is of it is not known"
    share = 100 * space.need_bytes / limit if limit else 100
    few = f"{share:.0f}" if share >= 1 else "under 1"
    return f"{amount} of {units.size(limit)} ({few} %)"
