"""Layouts on clusters, against counts by hand and against a walk over every device."""

from __future__ import annotations

import time
import tracemalloc

import pytest

from language_model_shapes import deepseek_v3, llama_405b
from sizeup.errors import SizeupError
from sizeup.serving.memory.layout_costs import LayoutCosts, evaluate
from sizeup.serving.memory.layouts import Layout, enumerate_layouts, from_layouts, parse_layout, stages
from sizeup.serving.models.architecture import Architecture, Attention, Layer, Weight
from sizeup.targets.clusters import cluster

LLAMA, DEEPSEEK = llama_405b(), deepseek_v3()
H100, H200 = 80 * 2**30, 141 * 2**30


@pytest.mark.parametrize(
    ("model", "counts"),
    [(LLAMA, (10, 15, 28, 50)), (DEEPSEEK, (50, 105, 335, 1479))],
    ids=["dense", "experts"],
)
def test_all_layouts_are_enumerated(model: Architecture, counts: tuple[int, ...]) -> None:
    """Dense on 2^n GPUs: ways to write n = a + b + c, of which tp128 and pp64 are the largest on 1,024."""
    found = [
        len(enumerate_layouts(model, cluster(f"{gpus}xh100")[0], across_nodes=True))
        for gpus in (8, 16, 64, 1024)
    ]
    assert tuple(found) == counts


@pytest.mark.parametrize("gpus", [6, 12, 24, 30])
@pytest.mark.parametrize("model", [LLAMA, DEEPSEEK], ids=["dense", "experts"])
def test_no_layout_is_missing_or_invalid(model: Architecture, gpus: int) -> None:
    """Every combination of factors is tried here, and judged by the constraints as they are documented."""
    machine, _ = cluster(f"1x{gpus}xl40s")
    layouts = enumerate_layouts(model, machine)
    found = {layouts[row] for row in range(len(layouts))}
    assert len(found) == len(layouts)
    experts = 256 if model is DEEPSEEK else 0
    groups = 1 if model is DEEPSEEK else 8
    sides = range(1, gpus + 1)
    expected = set()
    for tensor in sides:
        for pipeline in sides:
            for data in sides:
                if gpus % (tensor * pipeline * data) or 128 % tensor:
                    continue
                replicas = gpus // (tensor * pipeline * data)
                if not experts and (replicas > 1 or (groups % tensor and tensor % groups)):
                    continue
                expected |= {
                    Layout(tensor, pipeline, data, expert, replicas)
                    for expert in (sides if experts else (1,))
                    if tensor * data % expert == 0 and (expert == 1 or experts % expert == 0)
                }
    assert found == expected


def test_tensor_groups_stay_in_a_node_unless_asked() -> None:
    machine, _ = cluster("16xh100")
    assert len(enumerate_layouts(LLAMA, machine)) == 14  # all but tp16
    assert max(enumerate_layouts(DEEPSEEK, machine).tensor) == 8
    assert max(enumerate_layouts(DEEPSEEK, machine, across_nodes=True).tensor) == 16


def _costs(model: Architecture, target: str, *, sequences: int = 16, context: int = 4096) -> LayoutCosts:
    machine, _ = cluster(target)
    layouts = enumerate_layouts(model, machine, across_nodes=True)
    return evaluate(model, machine, layouts, sequences=[sequences], context=context)


def _weights(costs: LayoutCosts, layout: Layout) -> int:
    return int(costs.weight_bytes[costs.layouts.index(layout)])


def test_weights_of_llama_405b_by_hand() -> None:
    """Layer: 2 x 16,384^2 + 2 x 16,384 x 1,024 + 3 x 16,384 x 53,248 = 3,187,671,040, and two norms."""
    costs = _costs(LLAMA, "16xh100")
    layer, norms, table = 3_187_671_040, 2 * 16_384, 128_256 * 16_384
    tp8 = 2 * (126 * (layer // 8 + norms) + 2 * table // 8 + 16_384)
    assert tp8 == 101_470_601_216
    assert _weights(costs, Layout(8, 1, 2)) == tp8
    last_stage = 2 * (63 * (layer // 8 + norms) + table // 8 + 16_384)
    assert last_stage == 50_735_316_992
    assert _weights(costs, Layout(8, 2)) == last_stage
    # On 16 GPUs each holds one of the 8 key-value heads, so that keys and values are divided by 8 only.
    keys = 2 * 16_384 * 1_024
    tp16 = 2 * (126 * ((layer - keys) // 16 + keys // 8 + norms) + 2 * table // 16 + 16_384)
    assert tp16 == 51_267_928_064
    assert _weights(costs, Layout(16)) == tp16


def test_weights_of_deepseek_v3_by_hand() -> None:
    """In bytes: fp8 with 4 bytes of scale per block of 128 x 128, norms and tables of 2 bytes a number."""

    def fp8(rows: int, columns: int) -> int:
        return rows * columns + 4 * -(-rows // 128) * -(-columns // 128)

    every_gpu = fp8(1_536, 7_168) + fp8(576, 7_168) + 2 * (2 * 7_168 + 1_536 + 512)
    divided = fp8(24_576, 1_536) + fp8(32_768, 512) + fp8(7_168, 16_384)
    dense, expert = 3 * fp8(18_432, 7_168), 3 * fp8(2_048, 7_168)
    router, table, norm = 2 * 256 * 7_168, 2 * 129_280 * 7_168, 2 * 7_168
    tp8 = 61 * every_gpu + 58 * router + norm
    tp8 += (61 * divided + 3 * dense + 58 * 257 * expert + 2 * table) // 8
    assert tp8 == 85_140_071_456  # 79.29 GiB
    assert _weights(_costs(DEEPSEEK, "8xh200"), Layout(8)) == tp8
    dp32 = 61 * (every_gpu + divided) + 3 * dense + 58 * (router + expert + 8 * expert) + 2 * table + norm
    assert round(dp32 / 2**30, 2) == 36.81
    costs = _costs(DEEPSEEK, "32xh100")
    assert _weights(costs, Layout(1, 1, 32, 32)) == dp32
    assert _weights(costs, Layout(1, 1, 32, 1)) == dp32  # divided by columns instead of by whole experts


def test_ranking_of_llama_405b_on_8_h100_by_hand() -> None:
    """16 sequences of 4,096 tokens; 2 x 126 x 8 x 128 x 2 = 516,096 bytes of cache per token."""
    costs = _costs(LLAMA, "8xh100")
    row = costs.layouts.index(Layout(8))
    assert costs.cache_bytes[row, 0] == 16 * 4_096 * 516_096 // 8
    # 16 tokens x 16,384 x 2 bytes, two all-reduces in 126 layers, 2 x 7 / 8 of it sent by each GPU.
    assert costs.link_bytes[row, 0] == 16 * 32_768 * 2 * 126 * 14 // 8 == 231_211_008
    assert costs.network_bytes[row, 0] == 0
    assert costs.transfer_seconds[row, 0] == pytest.approx(231_211_008 / 450e9)
    by_communication = [str(costs.layouts[each]) for each in costs.order("communication")]
    # A send of a stage is 1/126 of what a stage of two all-reduces per layer needs; servers exchange nothing.
    assert by_communication == [
        *("dp8", "pp2,dp4", "pp4,dp2", "pp8", "tp2,dp4"),
        *("tp2,pp2,dp2", "tp4,dp2", "tp2,pp4", "tp4,pp2", "tp8"),
    ]
    # 811.7 GB of bf16 weights are more than 8 x 80 GiB: nothing fits.
    assert len(costs.order("memory", most_bytes=H100)) == 0
    # 126 layers fill 2 stages evenly but not 4 or 8: stages of 32 of 31.5 and 16 of 15.75.
    assert str(costs.layouts[costs.order("memory")[0]]) == "tp4,pp2"


def test_ranking_of_llama_405b_on_16_h100_by_hand() -> None:
    costs = _costs(LLAMA, "16xh100")
    fitting = [str(costs.layouts[each]) for each in costs.order("communication", most_bytes=H100)]
    # 811.7 GB / 16 = 50.7 GB: only layouts that divide the weights by all 16 GPUs fit into 85.9 GB.
    assert fitting == ["pp16", "tp2,pp8", "tp4,pp4", "tp8,pp2", "tp16"]
    tp8, tp16 = costs.layouts.index(Layout(8, 2)), costs.layouts.index(Layout(16))
    # A stage: 63 x 2 all-reduces of 16 tokens x 32,768 bytes in the node, and one send to the other node.
    assert costs.link_bytes[tp8, 0] == 16 * 32_768 * 2 * 63 * 14 // 8
    assert costs.network_bytes[tp8, 0] == 16 * 32_768
    # tp16: 14/8 of each all-reduce in the node; the other node has the same eighth: 2 x 1/2 x 1/8 of it.
    assert costs.link_bytes[tp16, 0] == 16 * 32_768 * 252 * 14 // 8
    assert costs.network_bytes[tp16, 0] == 16 * 32_768 * 252 // 8
    seconds = (2 * 16 * 32_768 * 126 * 14 / 8) / 450e9 + 16 * 32_768 / 50e9
    assert costs.transfer_seconds[tp8, 0] == pytest.approx(seconds)
    assert [str(costs.layouts[each]) for each in costs.order("memory")][:3] == ["tp8,pp2", "pp16", "tp2,pp8"]


def test_ranking_of_deepseek_v3_on_8_h200_by_hand() -> None:
    costs = _costs(DEEPSEEK, "8xh200")
    fitting = {str(costs.layouts[each]) for each in costs.order("communication", most_bytes=H200)}
    # 673 GB of weights in 8 x 151 GB: all GPUs are one server, so no layout with replicas fits.
    assert fitting == {str(costs.layouts[row]) for row in range(50) if costs.layouts[row].replicas == 1}
    tp8, dp8 = costs.layouts.index(Layout(8, 1, 1, 8)), costs.layouts.index(Layout(1, 1, 8, 8))
    # Latent cache: 61 x 576 x 2 = 70,272 bytes per token, whole on every GPU of a tensor group.
    assert costs.cache_bytes[tp8, 0] == 16 * 4_096 * 70_272
    assert costs.cache_bytes[dp8, 0] == 2 * 4_096 * 70_272
    # dp8: 2 tokens per GPU go to 8 experts in 58 layers and back, 7 of 8 on other GPUs.
    assert costs.link_bytes[dp8, 0] == 2 * (2 * 8 * 14_336 * 58) * 7 // 8 == 23_281_664
    # tp8: 61 + 3 all-reduces of 16 tokens, and per GPU 2 tokens to 8 experts and back in 58 layers.
    assert costs.link_bytes[tp8, 0] == 64 * 16 * 14_336 * 14 // 8 + 23_281_664
    order = [str(costs.layouts[each]) for each in costs.order("communication", most_bytes=H200)]
    assert order[0] == "pp8"
    assert order.index("dp8,ep8") < order.index("tp4,dp2,ep8") < order.index("tp8,ep8")
    memory = [str(costs.layouts[each]) for each in costs.order("memory", most_bytes=H200)]
    # tp8 has 2 GiB less of weights than tp4,dp2 but twice the cache: 4.3 GiB instead of 2.1.
    assert memory.index("tp4,dp2,ep8") < memory.index("tp8,ep8") < memory.index("dp8,ep8")


def test_ranking_of_deepseek_v3_on_32_h100_by_hand() -> None:
    costs = _costs(DEEPSEEK, "32xh100", sequences=256)
    wide, deep = costs.layouts.index(Layout(1, 1, 32, 32)), costs.layouts.index(Layout(8, 4, 1, 8))
    # 8 tokens per GPU to 8 experts and back: 7 of the 31 other GPUs are in the node, 24 are not.
    exchanged = 2 * 8 * 8 * 14_336 * 58
    assert costs.link_bytes[wide, 0] == exchanged * 7 / 32
    assert costs.network_bytes[wide, 0] == exchanged * 24 / 32
    # tp8,pp4: stages of 15, 15, 16, 15 layers, the first with 3 dense layers; 32 tokens per GPU to experts.
    third = 16 * 2 * 256 * 14_336 * 7 / 8 + 16 * 2 * (32 * 8 * 14_336) * 7 / 8
    assert costs.link_bytes[deep, 0] == third
    assert costs.network_bytes[deep, 0] == 256 * 14_336
    assert costs.cache_bytes[wide, 0] == 8 * 4_096 * 70_272
    assert costs.cache_bytes[deep, 0] == 256 * 4_096 * 16 * 576 * 2
    # All stages: 64 all-reduces and 58 exchanges in the node, three sends between nodes.
    inside = 64 * 2 * 256 * 14_336 * 7 / 8 + 58 * 2 * (32 * 8 * 14_336) * 7 / 8
    assert costs.transfer_seconds[deep, 0] == pytest.approx(inside / 450e9 + 3 * 256 * 14_336 / 50e9)
    assert costs.transfer_seconds[wide, 0] == pytest.approx(exchanged * (7 / 32 / 450e9 + 24 / 32 / 50e9))
    order = [str(costs.layouts[each]) for each in costs.order("communication", most_bytes=H100)]
    assert order.index("dp32,ep32") < order.index("tp8,pp4,ep8")  # 1.65 ms and 1.96 ms
    # Two servers of 16 GPUs hold 43 GB per GPU; four of 8 hold 85.1 GB, which leaves no room for the cache.
    assert max(int(each) for each in costs.layouts.replicas[costs.order("memory", most_bytes=H100)]) == 2


@pytest.mark.parametrize(
    ("model", "target"),
    [(LLAMA, "8xh100"), (LLAMA, "16xh100"), (DEEPSEEK, "8xh200"), (DEEPSEEK, "32xh100")],
    ids=["llama-8", "llama-16", "deepseek-8", "deepseek-32"],
)
def test_every_layout_agrees_with_a_walk_over_its_devices(model: Architecture, target: str) -> None:
    machine, _ = cluster(target)
    layouts = enumerate_layouts(model, machine, across_nodes=True)
    costs = evaluate(model, machine, layouts, sequences=[96], context=1000)
    for row in range(len(layouts)):
        link, network = _walk(model, layouts[row], machine.devices_per_node, 96)
        assert costs.link_bytes[row, 0] == pytest.approx(link), layouts[row]
        assert costs.network_bytes[row, 0] == pytest.approx(network), layouts[row]


def test_groups_that_are_not_aligned_with_nodes_are_counted_as_apart() -> None:
    machine, _ = cluster("3x4xh100")
    layouts = enumerate_layouts(DEEPSEEK, machine)
    costs = evaluate(DEEPSEEK, machine, layouts, sequences=[96])
    for row in range(len(layouts)):
        _, network = _walk(DEEPSEEK, layouts[row], 4, 96)
        assert costs.network_bytes[row, 0] >= network - 1
    apart = layouts.index(Layout(1, 1, 3, 1, 4))  # devices 3 to 5 are in two nodes
    assert costs.network_bytes[apart, 0] == pytest.approx(2 * 8 * 2 * 14_336 * 58)


def _walk(model: Architecture, layout: Layout, node: int, sequences: int) -> tuple[float, float]:
    """Bytes that the device sends, in its node and to others, that sends most to others, peer by peer."""
    t, p, d = layout.tensor, layout.pipeline, layout.data
    tokens = -(-sequences // (d * layout.replicas))
    hidden = model.hidden_size * 2
    sums = [(0.0, 0.0)]
    first = 0
    for stage, layers in enumerate(stages(len(model.layers), p)):
        for position in range(t * d):
            rank = stage * t * d + position
            group = [rank - position % t + member for member in range(t)]
            near = sum(1 for member in group if member // node == rank // node)
            sent = {True: 0.0, False: 0.0}
            mixtures = sum(1 for layer in model.layers[first : first + layers] if layer.experts)
            reduces = mixtures + 2 * (layers - mixtures)
            sent[True] += reduces * 2 * (near - 1) / near * tokens * hidden
            sent[False] += reduces * 2 * (t // near - 1) / (t // near) * tokens * hidden / near
            copies = min(8, layout.expert) * layout.expert_tensor / (t * d)  # that each peer receives
            for member in range(stage * t * d, (stage + 1) * t * d):
                if member != rank:
                    is_near = member // node == rank // node
                    sent[is_near] += mixtures * 2 * copies * tokens / t * hidden
            if stage < p - 1:
                sent[rank // node == (rank + t * d) // node] += tokens * hidden
            sums.append((round(sent[False], 3), sent[True]))
        first += layers
    network, link = max(sums)
    return link, network


def test_only_stages_at_the_end_of_a_node_send_over_the_network() -> None:
    """16 stages on two nodes: 14 sends at 450 GB/s and one at 50 GB/s, of 7,168 values of 2 bytes."""
    machine, _ = cluster("2x8xh100")
    costs = evaluate(DEEPSEEK, machine, from_layouts([Layout(pipeline=16)]))
    size = 2 * 7168
    assert costs.transfer_seconds[0, 0] == pytest.approx(14 * size / 450e9 + size / 50e9)
    assert (costs.link_bytes[0, 0], costs.network_bytes[0, 0]) == (0, size)


def test_the_rest_of_the_layers_goes_before_the_last_stage() -> None:
    assert stages(61, 4) == [15, 15, 16, 15]
    assert stages(126, 4) == [31, 32, 32, 31]
    assert stages(7, 7) == [1] * 7
    assert all(sum(stages(layers, p)) == layers for layers in range(1, 40) for p in range(1, layers + 1))


def test_the_fullest_stage_is_counted() -> None:
    """Three layers of 100 bytes with 1 byte of cache per token, then one of 10 bytes with 50."""
    large = Layer(Attention("full", 1, 1, cache_elements=1), (Weight("w", "dense", 50, 100),))
    small = Layer(Attention("full", 1, 1, cache_elements=50), (Weight("w", "dense", 5, 10),))
    model = Architecture("m", "m", 8, 8, (), (large, large, large, small), ())
    machine, _ = cluster("2xh100")
    costs = evaluate(model, machine, from_layouts([Layout(1, 2)]), sequences=[1, 9], context=1, kv="fp8")
    assert costs.weight_bytes.tolist() == [200]
    assert costs.cache_bytes.tolist() == [[51, 459]]
    assert costs.memory_bytes.tolist() == [[202, 569]]  # 200 + 2, and 110 + 9 x 51


def test_windows_and_states_do_not_grow_with_the_context() -> None:
    window = Layer(Attention("window", 8, 2, cache_elements=64, window=128), ())
    state = Layer(Attention("linear", 0, 4, state_elements=1000, conv_elements=40), ())
    machine, _ = cluster("4xh100")
    for tensor, expected in ((1, 128 * 128 + 4080), (4, 128 * 64 + 1020)):
        layout = from_layouts([Layout(tensor, 1, 4 // tensor)])
        model = Architecture("m", "m", 8, 8, (), (window, state), ())
        for context in (128, 4096):
            cost = evaluate(model, machine, layout, sequences=[1], context=context)
            assert cost.cache_bytes.tolist() == [[expected]]


def test_a_tied_head_is_stored_twice_in_a_pipeline() -> None:
    table = Weight("embed_tokens", "embedding", 500, 1000)
    layer = Layer(Attention("full", 1, 1), (Weight("w", "dense", 5, 10),))
    model = Architecture("m", "m", 8, 8, (table,), (layer, layer), (), tied_head=True)
    machine, _ = cluster("2xh100")
    layouts = from_layouts([Layout(1, 1, 2), Layout(1, 2)])
    assert evaluate(model, machine, layouts).weight_bytes.tolist() == [1020, 1010]


def test_bytes_rank_layouts_if_a_bandwidth_is_unknown() -> None:
    machine, _ = cluster("8xl40s")
    layouts = enumerate_layouts(LLAMA, machine)
    costs = evaluate(LLAMA, machine, layouts, sequences=[16])
    assert str(layouts[costs.order("communication")[-1]]) == "tp8"
    with pytest.raises(SizeupError, match="ordered by memory or communication, not 'speed'"):
        costs.order("speed")


@pytest.mark.parametrize(
    ("text", "target", "expected"),
    [
        ("tp8,pp2", "16xh100", Layout(8, 2)),
        ("TP4, dp2", "16xh100", Layout(4, 1, 2, 1, 2)),
        ("2 x tp4,dp2", "16xh100", Layout(4, 1, 2, 1, 2)),  # as it is printed
        ("dp32,ep32", "32xh100", Layout(1, 1, 32, 32)),
    ],
)
def test_a_layout_is_parsed_and_replicated(text: str, target: str, expected: Layout) -> None:
    assert parse_layout(text, DEEPSEEK, cluster(target)[0]) == expected


def test_servers_of_a_dense_model_are_data_parallel() -> None:
    assert parse_layout("tp4", LLAMA, cluster("16xh100")[0]) == Layout(4, 1, 4)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "write factors such as"),
        ("tp4,tp2", "each once"),
        ("tp4x", "write factors such as"),
        ("4 x tp8", "on 2x8xh100-sxm it is 2 x tp8"),
        ("2x", "write factors such as"),
        ("tp0", "a factor is at least 1"),
        ("tp3,dp2", "it uses 6 devices, which do not divide the 16 of"),
        ("tp32", "it needs 32 devices, and 2x8xh100-sxm has 16"),
        ("tp99999,pp99999", "it needs 9,999,800,001 devices"),
        ("ep2", "ep2 does not divide tp x dp = 1"),
        ("dp16,ep3", "ep3 does not divide 256 routed experts"),
    ],
)
def test_a_wrong_layout_is_refused(text: str, message: str) -> None:
    with pytest.raises(SizeupError, match=message):
        parse_layout(text, DEEPSEEK, cluster("16xh100")[0])


def test_layouts_that_the_model_does_not_allow_are_refused() -> None:
    small = Architecture("small", "m", 8, 8, (), (Layer(Attention("full", 12, 4), ()),), ())
    with pytest.raises(SizeupError, match="tp8 does not divide the attention heads of small"):
        parse_layout("tp8", small, cluster("8xh100")[0])
    with pytest.raises(SizeupError, match="pp2 exceeds the 1 layers"):
        parse_layout("pp2", small, cluster("8xh100")[0])
    with pytest.raises(SizeupError, match="ep2 does not divide 0 routed experts"):
        parse_layout("dp2,ep2", small, cluster("8xh100")[0])


@pytest.mark.parametrize("bad", [{"sequences": []}, {"sequences": [0]}, {"context": -1}, {"tokens": 0}])
def test_impossible_batches_are_refused(bad: dict[str, object]) -> None:
    machine, _ = cluster("8xh100")
    with pytest.raises(SizeupError, match="at least"):
        evaluate(LLAMA, machine, enumerate_layouts(LLAMA, machine), **bad)  # type: ignore[arg-type]


def test_figures_beyond_64_bits_are_refused() -> None:
    machine, _ = cluster("8xh100")
    with pytest.raises(SizeupError, match=r"more than 2\^62 bytes"):
        evaluate(LLAMA, machine, enumerate_layouts(LLAMA, machine), sequences=[2**40], context=2**30)


@pytest.mark.alone
def test_all_layouts_of_deepseek_v3_on_1024_gpus_take_less_than_a_second() -> None:
    machine, _ = cluster("1024xh100")
    start = time.process_time()
    layouts = enumerate_layouts(DEEPSEEK, machine, across_nodes=True)
    costs = evaluate(DEEPSEEK, machine, layouts, sequences=range(64, 64 * 65, 64), context=4096)
    seconds = time.process_time() - start
    assert costs.memory_bytes.shape == (1479, 64)
    assert seconds < 1
    tracemalloc.start()
    evaluate(DEEPSEEK, machine, layouts, sequences=range(64, 64 * 65, 64), context=4096)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 300e6
