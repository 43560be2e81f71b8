"""Clusters as text: a table, one cluster in full, and a section of the page on devices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from sizeup import units

if TYPE_CHECKING:
    from rich.console import Console

    from sizeup.targets.clusters import Cluster, Link

_TITLES = ("device", "devices", "memory each", "link", "network")


def render_list(clusters: Sequence[Cluster], console: Console) -> None:
    """Print a table of clusters."""
    from rich.text import Text

    from sizeup.render.console.layout import print_listing

    console.print(Text("clusters", style="bold"))
    rows = [[*_cells(cluster, _bandwidth_of), cluster.name] for cluster in clusters]
    print_listing(console, [*_TITLES, "cluster"], rows, ("network", "link"))


def render_one(cluster: Cluster, console: Console) -> None:
    """Print all values of a cluster with their sources."""
    from rich.text import Text

    from sizeup.render.console.layout import print_labeled

    title = f": {cluster.title}" if cluster.title else ""
    console.print(Text(f"{cluster.name}{title} (cluster)", style="bold"))
    previous = ""
    for label, text, style in _facts(cluster):
        print_labeled(console, "" if label == previous else label, text, style, width=19)
        previous = label


def markdown(clusters: Sequence[Cluster]) -> Iterator[str]:
    """Yields a section of the page on devices."""
    yield "\n## clusters\n\n"
    yield f"| {' | '.join(['cluster', 'title', *_TITLES])} |\n|{'---|' * (len(_TITLES) + 2)}\n"
    for cluster in clusters:
        yield f"| {' | '.join([f'`{cluster.name}`', cluster.title, *_cells(cluster, _short)])} |\n"


def _cells(cluster: Cluster, text: Callable[[Link | None], str]) -> list[str]:
    links = text(cluster.link), text(cluster.network)
    return [cluster.device.name, _devices(cluster), _memory(cluster), *links]


def _devices(cluster: Cluster) -> str:
    """Nodes and devices: a shipped cluster is one node, of which a target may have several."""
    per_node = f"{cluster.devices_per_node:,}"
    return per_node if cluster.nodes == 1 else f"{cluster.nodes:,} x {per_node}"


def _memory(cluster: Cluster) -> str:
    return "unknown" if cluster.memory_bytes is None else units.size(cluster.memory_bytes)


def _short(link: Link | None) -> str:
    return "-" if link is None else f"{link.name} {_bandwidth_of(link)}".removesuffix(" -")


def _bandwidth_of(link: Link | None) -> str:
    return "-" if link is None or link.bytes_per_second is None else _bandwidth(link.bytes_per_second)


def _bandwidth(value: float) -> str:
    return f"{units.count(value)}B/s"


def _facts(cluster: Cluster) -> Iterator[tuple[str, str, str]]:
    """Yields label, text and style of every line."""
    device = f"{cluster.device.name}: {cluster.device.title}, {_memory(cluster)} each"
    yield "devices", f"{_devices(cluster)} x {device}", "bold"
    for label, link in (("link", cluster.link), ("network", cluster.network)):
        if link is not None:
            yield from _link(label, link)
    yield from (("unknown", text, "") for text in cluster.unknown)
    if cluster.price is not None:
        yield "price", f"{cluster.price.amount:,.2f} {cluster.price.currency} per device and hour", ""
    if cluster.note:
        yield "note", cluster.note, ""
    if cluster.source:
        yield "source", cluster.source, "dim"


def _link(label: str, link: Link) -> Iterator[tuple[str, str, str]]:
    known = link.bytes_per_second
    rate = "bandwidth unknown" if known is None else f"{_bandwidth(known)} per device and direction"
    yield label, f"{link.name}, {rate}", "bold"
    for collective, sizes in link.reach.items():
        yield "measured", f"{collective} {_by_size(sizes, 'B/s')}", ""
    for collective, sizes in link.latency_seconds.items():
        yield "latency", f"{collective} {_by_size(sizes, 's')}", ""
    if link.note:
        yield "note", link.note, ""
    if link.source:
        yield "from", link.source, "dim"


def _by_size(values: Mapping[int, float], unit: str) -> str:
    """Values by group size; size 0 stands for every size."""
    texts = {
        size: f"{units.count(value)}{unit}" if unit == "B/s" else units.duration(value)
        for size, value in values.items()
    }
    return ", ".join(text if not size else f"{text} of {size} devices" for size, text in texts.items())
