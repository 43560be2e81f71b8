"""Clusters as plain data: raw numbers, the unit in every key, null if unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sizeup.targets.clusters import Cluster, Link


def to_dict(cluster: Cluster) -> dict[str, Any]:
    """Returns a cluster as plain data."""
    price = cluster.price
    return {
        "name": cluster.name,
        "title": cluster.title or None,
        "device": cluster.device.name,
        "nodes": cluster.nodes,
        "devices_per_node": cluster.devices_per_node,
        "memory_bytes_per_device": cluster.memory_bytes,
        "link": None if cluster.link is None else _link(cluster.link),
        "network": None if cluster.network is None else _link(cluster.network),
        "price_per_device_hour": None
        if price is None
        else {"amount": price.amount, "currency": price.currency},
        "note": cluster.note or None,
        "source": cluster.source or None,
    }


def _link(link: Link) -> dict[str, Any]:
    return {
        "name": link.name,
        "bytes_per_second": link.bytes_per_second,
        "measured_bytes_per_second": {name: dict(sizes) for name, sizes in link.reach.items()},
        "latency_seconds": {name: dict(sizes) for name, sizes in link.latency_seconds.items()},
        "note": link.note or None,
        "source": link.source or None,
    }
