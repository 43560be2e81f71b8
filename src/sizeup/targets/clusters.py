"""Clusters of accelerators: devices of one kind in nodes, the link in a node and the network between nodes.

A target is written `[NODESx][Nx]DEVICE[/ENGINE]`, `[Nx]CLUSTER[/ENGINE]` or `FILE.toml[/ENGINE]`:

    h100           one device
    8xh100/vllm    eight devices, in nodes as large as those of the shipped cluster with that device
    2x8xh100       two nodes of eight devices
    2xdgx-h100     two of the nodes of a shipped cluster
    rack.toml      a cluster file; it may refer to the shipped links by name

Memory, bandwidth and rates are those of the device in the catalog of targets. A cluster file is input from
anywhere: unknown keys are refused by name, and counts are limited before anything is computed from them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sizeup.errors import SizeupError, TargetError
from sizeup.targets import Catalog, Device, current_catalog
from sizeup.targets.cluster_names import FILE, FOLDER, LINKS, content_of, shipped_names
from sizeup.targets.names import suggestion
from sizeup.targets.quantities import BANDWIDTH, TIME, Quantity
from sizeup.targets.table import Table
from sizeup.units import quoted

MOST_DEVICES = 16_384
"""The largest number of devices in a cluster."""
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send")
# GDDR6 boards with ECC in the memory itself, on by default: PyTorch reports 22.0 of 24 GiB on an L4
# (https://github.com/ArcInstitute/evo2/issues/190), 44.4 of 48 on an L40 (.../QwenLM/Qwen3-VL/issues/2097).
_INLINE_ECC = ("a10", "a40", "l4", "l40s", "t4")
_MOST_LINKS = 100  # in a file
_COUNT = r"([0-9]{1,9}) ?[xX] ?"
_TARGET = re.compile(rf"(?:{_COUNT})?(?:{_COUNT})?([^/]+)(?:/([^/]+))?")
_SIZE = re.compile(r"[0-9]{1,6}")


@dataclass(frozen=True, slots=True)
class Link:
    """A connection of each device with a group; rates are per device and direction, None if unknown.

    `reach` and `latency_seconds` are by collective and group size; size 0 stands for every size.
    """

    name: str
    bytes_per_second: float | None = None  # from the data sheet
    reach: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    latency_seconds: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    source: str = ""
    note: str = ""

    def measured_bandwidth(self, collective: str, group: int) -> float | None:
        """Bytes per second that a collective reaches in a group of that size; None if not measured."""
        return _at(self.reach.get(collective, {}), group)

    def latency(self, collective: str, group: int) -> float | None:
        """Seconds that a collective takes for no data in a group of that size; None if not measured."""
        return _at(self.latency_seconds.get(collective, {}), group)


def _at(values: Mapping[int, float], group: int) -> float | None:
    return values.get(group, values.get(0))


@dataclass(frozen=True, slots=True)
class Cluster:
    """Nodes of equal devices."""

    name: str
    device: Device
    nodes: int = 1
    devices_per_node: int = 1  # a domain of fast links
    link: Link | None = None  # in a node; None if unknown, or for one device
    network: Link | None = None  # between nodes; None if unknown, or for one node
    title: str = ""
    source: str = ""
    price: Price | None = None
    note: str = ""

    @property
    def devices(self) -> int:
        """Devices of all nodes."""
        return self.nodes * self.devices_per_node

    @property
    def memory_bytes(self) -> int | None:
        """Memory of one device, without the bits of its ECC; None if unknown."""
        size = self.device.ram_bytes
        return size - size // 16 if size is not None and self.has_inline_ecc else size

    @property
    def has_inline_ecc(self) -> bool:
        """Whether ECC bits take a sixteenth of the memory of the data sheet."""
        return self.device.name in _INLINE_ECC

    @property
    def unknown(self) -> tuple[str, ...]:
        """What is not known about the links that the cluster needs."""
        needed = {
            f"the link between the {self.devices_per_node} devices of a node": (
                self.devices_per_node > 1 and _bandwidth(self.link) is None
            ),
            f"the network between the {self.nodes} nodes": (
                self.nodes > 1 and _bandwidth(self.network) is None
            ),
        }
        return tuple(name for name, is_unknown in needed.items() if is_unknown)


def _bandwidth(link: Link | None) -> float | None:
    return None if link is None else link.bytes_per_second


def cluster(text: str, folder: Path | None = None) -> tuple[Cluster, str]:
    """The cluster of a target, and the name of its engine; the name is empty if the text has none.

    The path of a cluster file is relative to `folder`, by default the current one. Raises TargetError if the
    text is not a target, or a device, cluster or file is unknown.
    """
    if not isinstance(text, str):
        raise TargetError(f"target is {quoted(text)}; give a text such as 8xh100/vllm")
    stripped = text.strip()
    file = FILE.fullmatch(stripped)
    if file is not None:
        return read_cluster(Path(folder or "", file[1])), file[2] or ""
    match = _TARGET.fullmatch(stripped)
    if match is None:
        raise TargetError(
            f"{quoted(text)} is not a target; write [NODESx]NxDEVICE[/ENGINE], e.g. 2x8xh100/vllm,"
            " a cluster such as dgx-h100, or a cluster file such as rack.toml"
        )
    counts = [int(count) for count in match.groups()[:2] if count is not None]
    return _sized(match[3].strip(), counts, text), match[4] or ""


def _sized(name: str, counts: list[int], text: str) -> Cluster:
    known = shipped_clusters()
    _check_devices(counts, text)
    if name.casefold() in known:
        if len(counts) > 1:
            raise TargetError(f"{quoted(text)}: give the number of nodes alone, e.g. 2x{name.casefold()}")
        nodes = counts[0] if counts else 1
        shipped = known[name.casefold()]
        _check_devices([nodes, shipped.devices_per_node], text)
        return replace(shipped, nodes=nodes, name=shipped.name if nodes == 1 else f"{nodes}x{shipped.name}")
    catalog = current_catalog()
    if not catalog.has_device(name) and suggestion(name, known):
        near = suggestion(name, [*(device.name for device in catalog.devices()), *known])
        raise TargetError(f"unknown device or cluster {quoted(name)}{near}")
    device = catalog.device(name)
    like = next((other for other in known.values() if other.device.name == device.name), None)
    if len(counts) == 2:
        nodes, per_node = counts
    else:
        nodes, per_node = _nodes(counts[0] if counts else 1, like, device.name)
    prefix = "" if nodes * per_node == 1 else f"{nodes}x{per_node}x" if nodes > 1 else f"{per_node}x"
    return Cluster(
        name=f"{prefix}{device.name}",
        device=device,
        nodes=nodes,
        devices_per_node=per_node,
        link=like.link if like and per_node <= like.devices_per_node else None,
        network=like.network if like else None,
        source=f"links of {like.name}: {like.source}" if like else "",
    )


def _nodes(devices: int, like: Cluster | None, name: str) -> tuple[int, int]:
    """Nodes and devices per node, as in the shipped cluster with that device; one node without one."""
    if like is None or devices <= like.devices_per_node:
        return 1, devices
    per_node = like.devices_per_node
    if devices % per_node:
        raise TargetError(
            f"{devices} {name} do not fill nodes of {per_node}; write the nodes too, e.g. 2x{per_node}x{name}"
        )
    return devices // per_node, per_node


def _check_devices(counts: list[int], text: str) -> None:
    product = 1
    for count in counts:
        product *= count
    if not 1 <= product <= MOST_DEVICES:
        raise TargetError(f"{quoted(text)}: a cluster has 1 to {MOST_DEVICES:,} devices")


@cache
def _shipped_links() -> dict[str, Link]:
    return _links(content_of(FOLDER / f"{LINKS}.toml"))


def shipped_clusters() -> Mapping[str, Cluster]:
    """The clusters that sizeup knows, by name; devices are those of the current catalog."""
    return _shipped_with(current_catalog())


@lru_cache(maxsize=1)
def _shipped_with(_: Catalog) -> Mapping[str, Cluster]:
    return MappingProxyType({name: read_cluster(FOLDER / f"{name}.toml") for name in shipped_names()})


def read_cluster(path: str | Path) -> Cluster:
    """The cluster that a file describes.

    Raises TargetError if the file cannot be read or its content is invalid.
    """
    top = content_of(Path(path))
    if "node" in top.values:
        top.check_keys(("cluster", "node", "network", "links"))
    head = top.table("cluster")
    if head is None:
        raise top.error("not a cluster file: [cluster] is missing; it has at least a name")
    head.check_keys(("name", "title", "price", "source", "recorded", "note"))
    head.date("recorded")
    links = {**_shipped_links(), **_links(top)}
    nodes, device, per_node, link = _node_groups(top, links)
    if nodes * per_node > MOST_DEVICES:
        raise top.error(f"{nodes * per_node:,} devices; a cluster has at most {MOST_DEVICES:,}")
    return Cluster(
        name=head.text("name"),
        device=device,
        nodes=nodes,
        devices_per_node=per_node,
        link=link,
        network=_network(top, links),
        title=head.text("title", ""),
        source=head.text("source", ""),
        price=_price(head),
        note=head.text("note", ""),
    )


def _node_groups(top: Table, links: Mapping[str, Link]) -> tuple[int, Device, int, Link | None]:
    """The number of nodes, and the device, the number of devices and the link that all nodes have."""
    tables = top.tables("node")
    if not tables:
        raise top.error("[[node]] is missing; a cluster has at least one")
    groups = [_node(table, links) for table in tables]
    kinds = {(device.name, per_node, link) for _, device, per_node, link in _hashable(groups)}
    if len(kinds) > 1:
        raise tables[1].error("nodes differ in their devices or links; only equal nodes are supported")
    _, device, per_node, link = groups[0]
    return sum(group[0] for group in groups), device, per_node, link


def _hashable(groups: list[tuple[int, Device, int, Link | None]]) -> list[tuple[int, Device, int, str]]:
    return [(nodes, device, count, link.name if link else "") for nodes, device, count, link in groups]


def _node(table: Table, links: Mapping[str, Link]) -> tuple[int, Device, int, Link | None]:
    table.check_keys(("count", "devices", "link", "note"))
    devices = table.table("devices")
    if devices is None:
        raise table.error('devices is missing, e.g. devices = { name = "h100-sxm", count = 8 }')
    devices.check_keys(("name", "count"))
    name = devices.text("name")
    try:
        device = current_catalog().device(name)
    except TargetError as error:
        raise devices.error(str(error)) from None
    per_node = devices.integer("count", 1, MOST_DEVICES) or 1
    return table.integer("count", 1, MOST_DEVICES) or 1, device, per_node, _link_of(table, links)


def _network(top: Table, links: Mapping[str, Link]) -> Link | None:
    tables = top.tables("network")
    if len(tables) > 1:
        raise tables[1].error("only one network is supported")
    if not tables:
        return None
    tables[0].check_keys(("joins", "link", "note"))
    tables[0].choice("joins", ("nodes",), "nodes")
    return _link_of(tables[0], links)


def _link_of(table: Table, links: Mapping[str, Link]) -> Link | None:
    if "link" not in table.values:
        return None
    name = table.text("link")
    if name not in links:
        meant = suggestion(name, links) or f"; known: {', '.join(list(links)[:20])}"
        raise table.error(f"link {quoted(name)} is not described in [links]{meant}")
    return links[name]


def _links(top: Table) -> dict[str, Link]:
    named = top.table("links")
    if named is None:
        return {}
    if len(named.values) > _MOST_LINKS:
        raise named.error(f"{len(named.values):,} links; at most {_MOST_LINKS} are supported")
    return {name: _link(name, named) for name in named.values}


def _link(name: str, named: Table) -> Link:
    table = named.table(name)
    assert table is not None
    table.check_keys(("bandwidth", "reach", "latency", "source", "note"))
    return Link(
        name=name,
        bytes_per_second=table.quantity("bandwidth", BANDWIDTH),
        reach=_by_collective(table, "reach", BANDWIDTH),
        latency_seconds=_by_collective(table, "latency", TIME),
        source=table.text("source", ""),
        note=table.text("note", ""),
    )


def _by_collective(table: Table, key: str, quantity: Quantity) -> dict[str, dict[int, float]]:
    """Values by collective and group size; a text alone is for every collective and size."""
    value = table.values.get(key)
    if isinstance(value, str):
        return {collective: _by_size(table, key, quantity) for collective in COLLECTIVES}
    inner = table.table(key)
    if inner is None:
        return {}
    inner.check_keys(COLLECTIVES)
    return {collective: _by_size(inner, collective, quantity) for collective in inner.values}


def _by_size(table: Table, key: str, quantity: Quantity) -> dict[int, float]:
    value: Any = table.values[key]
    if isinstance(value, str):
        amount = table.quantity(key, quantity)
        return {} if amount is None else {0: amount}
    inner = table.table(key)
    assert inner is not None
    if len(inner.values) > _MOST_LINKS:
        raise inner.error(f"{len(inner.values):,} group sizes; at most {_MOST_LINKS} are supported")
    sizes: dict[int, float] = {}
    for size in inner.values:
        if _SIZE.fullmatch(size) is None or not 2 <= int(size) <= MOST_DEVICES:
            raise inner.error(f"{quoted(size)} is not a group size (2 to {MOST_DEVICES:,})")
        amount = inner.quantity(size, quantity)
        assert amount is not None
        sizes[int(size)] = amount
    return sizes


def _price(head: Table) -> Price | None:
    if "price" not in head.values:
        return None
    text = head.text("price")
    price = price_of(text)
    if price is None or not text.endswith("/h"):
        raise head.error(f"price is {quoted(text)}, not a price per device such as '2.50 USD/h'")
    return price


_PRICE = re.compile(r"([0-9]{1,10}(?:\.[0-9]{1,20})?)(?: ?([A-Z]{3})(?:/h)?)?")
_LEAST_PRICE, _MOST_PRICE = 1e-9, 1e9


@dataclass(frozen=True, slots=True)
class Price:
    """The price of one device per hour."""

    amount: float
    currency: str  # empty if not given


def price_of(text: str) -> Price | None:
    """The price of a text such as `2.50`, `2.50USD` or `2.50 USD/h`; None if it is none."""
    match = _PRICE.fullmatch(text)
    return None if match is None else Price(float(match[1]), match[2] or "")


def parse_price(price: float | str | None) -> Price | None:
    """The price of a number or a text; raises SizeupError unless it is from 1e-9 to 1,000,000,000."""
    if price is None:
        return None
    is_number = isinstance(price, int | float) and not isinstance(price, bool)
    is_number = is_number and _LEAST_PRICE <= price <= _MOST_PRICE  # type: ignore[operator]
    parsed = Price(float(price), "") if is_number else price_of(str(price))
    if parsed is None or not _LEAST_PRICE <= parsed.amount <= _MOST_PRICE:
        raise SizeupError(f"price {quoted(price)}: give a price per GPU and hour, such as 2.50 or 2.50USD")
    return parsed
