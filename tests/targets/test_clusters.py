"""Targets of several devices, cluster files and the shipped clusters."""

from __future__ import annotations

from pathlib import Path

import pytest

from sizeup.errors import TargetError
from sizeup.targets import current_catalog, device
from sizeup.targets.clusters import MOST_DEVICES, cluster, read_cluster, shipped_clusters

# The example of a cluster file that documentation shows, with links of its own.
RACK = """\
[cluster]
name = "two DGX H100"
price = "2.50 USD/h"
[[node]]
count = 2
devices = { name = "h100-sxm", count = 8 }
link = "nvswitch4"
[[network]]
joins = "nodes"
link = "ndr"
[links.nvswitch4]
bandwidth = "450 GB/s"
reach = { all_reduce = { 2 = "281 GB/s", 8 = "365 GB/s" }, all_to_all = "265 GB/s" }
latency = { all_reduce = { 2 = "4.3 us", 8 = "5.2 us" }, all_to_all = "8.7 us" }
source = "fitted"
[links.ndr]
bandwidth = "50 GB/s"
latency = "5 us"
"""
SMALL = """\
[cluster]
name = "x"
[[node]]
devices = { name = "h100-sxm", count = 8 }
"""


@pytest.fixture
def rack(tmp_path: Path) -> Path:
    path = tmp_path / "rack.toml"
    path.write_text(RACK, "utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "name", "nodes", "per_node", "link", "network", "engine"),
    [
        ("h100", "h100-sxm", 1, 1, "nvlink4", "ndr400", ""),
        ("4xh100/vllm", "4xh100-sxm", 1, 4, "nvlink4", "ndr400", "vllm"),
        ("8 x H100", "8xh100-sxm", 1, 8, "nvlink4", "ndr400", ""),
        ("16xh100", "2x8xh100-sxm", 2, 8, "nvlink4", "ndr400", ""),
        ("2x8xh100", "2x8xh100-sxm", 2, 8, "nvlink4", "ndr400", ""),
        ("4x4xh200/sglang", "4x4xh200-sxm", 4, 4, "nvlink4", "ndr400", "sglang"),
        ("dgx-a100", "dgx-a100", 1, 8, "nvlink3", "hdr200", ""),
        ("128xdgx-h100", "128xdgx-h100", 128, 8, "nvlink4", "ndr400", ""),
        ("144xgb200", "2x72xgb200", 2, 72, "nvlink5-rack", "ndr400", ""),
    ],
)
def test_a_target_is_nodes_of_devices(
    text: str, name: str, nodes: int, per_node: int, link: str, network: str, engine: str
) -> None:
    result, found_engine = cluster(text)
    assert (result.name, result.nodes, result.devices_per_node) == (name, nodes, per_node)
    assert result.link is not None
    assert result.network is not None
    assert (result.link.name, result.network.name, found_engine) == (link, network, engine)
    assert result.devices == nodes * per_node
    assert result.unknown == ()


def test_links_of_devices_without_a_shipped_cluster_are_unknown() -> None:
    cards, _ = cluster("2x4xl40s")
    assert cards.link is None
    assert cards.network is None
    assert cards.unknown == (
        "the link between the 4 devices of a node",
        "the network between the 2 nodes",
    )
    assert cluster("l40s")[0].unknown == ()  # one device needs no link
    assert cluster("16x16xh100")[0].link is None  # no such node is known


def test_memory_is_that_of_the_catalog() -> None:
    assert cluster("8xh200")[0].memory_bytes == device("h200").ram_bytes == 141 * 2**30


def test_shipped_clusters_are_read_once_per_catalog(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A search for more devices names hundreds of clusters: reading them each time took 12 seconds."""
    before = shipped_clusters()
    assert shipped_clusters() is before
    monkeypatch.setenv("SIZEUP_TARGETS", str(tmp_path))
    after = shipped_clusters()
    assert after is not before
    assert after["dgx-h100"].device is current_catalog().device("h100-sxm")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not a target"),
        ("8xh100/", "is not a target"),
        ("0xh100", f"1 to {MOST_DEVICES:,} devices"),
        ("999999999x999999999xh100", f"1 to {MOST_DEVICES:,} devices"),
        ("9999xdgx-h100", f"1 to {MOST_DEVICES:,} devices"),
        ("12xh100", "12 h100-sxm do not fill nodes of 8; write the nodes too, e.g. 2x8xh100-sxm"),
        ("2x8xdgx-h100", "give the number of nodes alone, e.g. 2xdgx-h100"),
        ("dgx-h10", "nearest: dgx-h100"),
        ("2xh10", "unknown device or cluster 'h10'; nearest: h100-sxm, "),
        ("8xh1000", "unknown device"),
        ("none.toml/vllm", "none.toml: no such file"),
    ],
)
def test_a_wrong_target_is_refused_by_name(text: str, message: str) -> None:
    with pytest.raises(TargetError) as error:
        cluster(text)
    assert message in str(error.value)


def test_a_cluster_file_has_its_own_links(rack: Path) -> None:
    result, engine = cluster(f"{rack}/vllm")
    assert engine == "vllm"
    assert (result.name, result.nodes, result.devices_per_node) == ("two DGX H100", 2, 8)
    assert result.price is not None
    assert (result.price.amount, result.price.currency) == (2.5, "USD")
    link, network = result.link, result.network
    assert link is not None
    assert network is not None
    assert link.bytes_per_second == 450e9
    assert link.measured_bandwidth("all_reduce", 8) == 365e9
    assert link.measured_bandwidth("all_reduce", 4) is None  # not in the file, and not guessed
    assert link.measured_bandwidth("all_to_all", 4) == 265e9
    assert link.latency("all_reduce", 2) == pytest.approx(4.3e-6)
    assert network.latency("send", 2) == pytest.approx(5e-6)
    assert network.measured_bandwidth("all_reduce", 2) is None


def test_a_cluster_file_may_name_shipped_links(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(SMALL + 'link = "nvlink4"\n', "utf-8")
    link = read_cluster(path).link
    assert link is not None
    assert link.bytes_per_second == 450e9


def test_the_cluster_file_of_the_documentation_is_valid(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "llm.md").read_text("utf-8")
    path = tmp_path / "rack.toml"
    path.write_text(page.partition("```toml\n")[2].partition("```")[0], "utf-8")
    result = read_cluster(path)
    assert (result.name, result.devices) == ("two nodes", 16)
    assert result.network is not None
    assert result.network.bytes_per_second == 25e9


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[cluster]", "[cluter]", "unknown key 'cluter'; nearest: cluster"),
        ("price =", "cost =", "unknown key 'cost'"),
        ("2.50 USD/h", "2.50", "price is '2.50', not a price per device"),
        ("count = 2", "count = 0", "count is 0, not within 1 to"),
        ("count = 2", "count = 10000", "80,000 devices; a cluster has at most"),
        ("count = 2", "count = true", "not a whole number"),
        ("h100-sxm", "h1000", "unknown device 'h1000'"),
        ('link = "ndr"', 'link = "nrd"', "link 'nrd' is not described in [links]"),
        ("joins = ", "join = ", "unknown key 'join'; nearest: joins"),
        ('"nodes"', '"racks"', "joins is 'racks'"),
        ("450 GB/s", "450 Gb/s", "is not a bandwidth"),
        ("450 GB/s", "450000000 TB/s", "is out of range"),
        ("all_reduce = { 2", "allreduce = { 2", "unknown key 'allreduce'; nearest: all_reduce"),
        ("{ 2 = ", "{ 1 = ", "'1' is not a group size"),
        ("{ 2 = ", "{ '²' = ", "is not a group size"),
        ("[links.ndr]", "[links]\nndr = 5\n[links.x]", "links: ndr is 5, not a table"),
        ("[[network]]", "[[network]]\n[[network]]", "only one network is supported"),
    ],
)
def test_a_wrong_cluster_file_is_refused_by_name(rack: Path, old: str, new: str, message: str) -> None:
    assert old in RACK
    rack.write_text(RACK.replace(old, new, 1), "utf-8")
    with pytest.raises(TargetError) as error:
        read_cluster(rack)
    assert message in str(error.value)


def test_nodes_that_differ_are_refused(rack: Path) -> None:
    rack.write_text(RACK + '[[node]]\ndevices = { name = "h100-sxm", count = 4 }\n', "utf-8")
    with pytest.raises(TargetError, match="nodes differ in their devices or links"):
        read_cluster(rack)


def test_equal_nodes_are_summed(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(SMALL + SMALL.partition("[[node]]")[1] + SMALL.partition("[[node]]")[2], "utf-8")
    assert read_cluster(path).nodes == 2


# From the data sheets: devices per node, GiB per device, GB/s of NVLink and network per GPU and direction.
SHEETS = {
    "dgx-a100": (8, 80, 300, 25),
    "dgx-a100-320gb": (8, 40, 300, 25),
    "dgx-b200": (8, 180, 900, 50),
    "dgx-h100": (8, 80, 450, 50),
    "gb200-nvl72": (72, 186, 900, 50),
    "hgx-b300": (8, 268, 900, 100),
    "hgx-h200": (8, 141, 450, 50),
}


@pytest.mark.parametrize("name", SHEETS)
def test_shipped_clusters_have_the_values_of_their_data_sheets(name: str) -> None:
    per_node, memory, link, network = SHEETS[name]
    shipped = shipped_clusters()[name]
    assert shipped.link is not None
    assert shipped.network is not None
    assert (shipped.nodes, shipped.devices_per_node) == (1, per_node)
    assert shipped.memory_bytes == memory * 2**30
    assert shipped.link.bytes_per_second == link * 1e9
    assert shipped.network.bytes_per_second == network * 1e9
    assert shipped.unknown == ()


def test_every_shipped_cluster_and_link_has_a_source_that_can_be_opened() -> None:
    shipped = shipped_clusters()
    assert sorted(shipped) == sorted(SHEETS)
    for each in shipped.values():
        assert "https://" in each.source
        for link in (each.link, each.network):
            assert link is not None
            assert "https://" in link.source
            reached = [rate for sizes in link.reach.values() for rate in sizes.values()]
            assert all(rate < (link.bytes_per_second or 0) for rate in reached), link.name
