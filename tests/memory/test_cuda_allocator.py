"""PyTorch's caching allocator for CUDA: traces worked by hand, torch's own tests, and a naive simulator."""

from __future__ import annotations

import random
import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sizeup.memory.cuda_allocator import CachingAllocator, rounded_size, segment_size

KIB, MIB = 1 << 10, 1 << 20


@pytest.mark.parametrize(
    ("request_bytes", "size"), [(1, 512), (512, 512), (513, 1024), (40_000, 40_448), (MIB + 1, MIB + 512)]
)
def test_sizes_are_rounded_up_to_512_bytes(request_bytes: int, size: int) -> None:
    assert rounded_size(request_bytes) == size


@pytest.mark.parametrize(
    ("size", "segment"),
    [
        (512, 2 * MIB),
        (MIB, 2 * MIB),  # the largest small request
        (MIB + 512, 20 * MIB),
        (10 * MIB - 512, 20 * MIB),
        (10 * MIB, 10 * MIB),  # its own segment, a multiple of 2 MiB already
        (10 * MIB + 512, 12 * MIB),
    ],
)
def test_segments_by_the_size_of_the_request(size: int, segment: int) -> None:
    assert segment_size(size) == segment


def test_nothing_is_reserved_for_no_bytes() -> None:
    allocator = CachingAllocator()
    assert allocator.allocate(0) is None
    allocator.free(None)
    assert (allocator.allocated_bytes, allocator.reserved_bytes) == (0, 0)


def test_small_requests_share_a_segment_of_2_mib() -> None:
    allocator = CachingAllocator()
    for request in (40_000, 40, 4_000):
        allocator.allocate(request)
    # 40,448 + 512 + 4,096 of 2,097,152 B; the rest is one free block.
    assert allocator.blocks() == [[(40_448, True), (512, True), (4_096, True), (2_052_096, False)]]
    assert (allocator.allocated_bytes, allocator.reserved_bytes) == (45_056, 2 * MIB)


def test_a_small_rest_of_512_bytes_is_split_off() -> None:
    allocator = CachingAllocator()
    allocator.allocate(MIB)
    allocator.allocate(MIB - 512)  # of the second mebibyte, 512 B remain
    assert allocator.blocks() == [[(MIB, True), (MIB - 512, True), (512, False)]]
    allocator.allocate(1)  # fits exactly
    assert allocator.blocks() == [[(MIB, True), (MIB - 512, True), (512, True)]]


def test_a_large_rest_is_split_off_only_above_1_mib() -> None:
    allocator = CachingAllocator()
    allocator.allocate(9 * MIB)  # 11 MiB remain of 20 MiB
    allocator.allocate(8 * MIB)  # 3 MiB remain
    address = allocator.allocate(2 * MIB)  # 1 MiB would remain, which is not more than 1 MiB
    assert allocator.blocks() == [[(9 * MIB, True), (8 * MIB, True), (3 * MIB, True)]]
    assert allocator.allocated_bytes == 20 * MIB  # the whole block counts, not the 2 MiB requested
    allocator.free(address)
    allocator.allocate(2 * MIB - 512)  # now 1 MiB + 512 B remain
    assert allocator.blocks()[0][2:] == [(2 * MIB - 512, True), (MIB + 512, False)]


def test_the_smallest_block_that_suffices_is_taken_and_of_equal_ones_the_first() -> None:
    allocator = CachingAllocator()
    addresses = [allocator.allocate(size * KIB) for size in (8, 1, 4, 1, 4, 1)]
    for index in (0, 2, 4):
        allocator.free(addresses[index])
    # Free blocks of 8, 4 and 4 KiB, and the end of the segment: 3 KiB go into the first one of 4 KiB.
    assert allocator.allocate(3 * KIB) == addresses[2]
    assert allocator.allocate(4 * KIB) == addresses[4]
    assert allocator.allocate(5 * KIB) == addresses[0]


def test_free_neighbors_become_one_block_in_any_order() -> None:
    for order in ((0, 1, 2), (2, 1, 0), (0, 2, 1), (1, 0, 2)):
        allocator = CachingAllocator()
        addresses = [allocator.allocate(4 * MIB) for _ in range(3)]
        kept = allocator.allocate(5 * MIB)
        for index in order:
            allocator.free(addresses[index])
        assert allocator.blocks() == [[(12 * MIB, False), (5 * MIB, True), (3 * MIB, False)]]
        allocator.free(kept)
        assert allocator.blocks() == [[(20 * MIB, False)]]
        assert (allocator.allocated_bytes, allocator.reserved_bytes) == (0, 20 * MIB)  # nothing is returned


def test_blocks_of_different_segments_are_never_joined() -> None:
    allocator = CachingAllocator()
    addresses = [allocator.allocate(12 * MIB) for _ in range(2)]
    for address in addresses:
        allocator.free(address)
    assert allocator.blocks() == [[(12 * MIB, False)], [(12 * MIB, False)]]
    allocator.allocate(14 * MIB)
    assert allocator.reserved_bytes == (12 + 12 + 14) * MIB


def test_the_pools_do_not_lend_to_each_other() -> None:
    allocator = CachingAllocator()
    allocator.free(allocator.allocate(2 * MIB))  # 20 MiB are free in the large pool
    allocator.allocate(MIB)
    assert [size for _, size in allocator.segments] == [20 * MIB, 2 * MIB]


def test_growing_tensors_leave_segments_behind() -> None:
    """Each tensor is freed only when the next one exists; none fits into what earlier ones left."""
    allocator, previous = CachingAllocator(), None
    for size in (30, 60, 100, 170):
        address = allocator.allocate(size * MIB)
        allocator.free(previous)
        previous = address
    # 170 MiB fit into no single segment of 30, 60 and 100 MiB.
    assert (allocator.peak_allocated_bytes, allocator.reserved_bytes) == (270 * MIB, 360 * MIB)


def test_a_published_snapshot_is_reproduced() -> None:
    """y = X @ W + b, https://discuss.pytorch.org/t/178671, of a torch in which cuBLAS takes a block."""
    allocator = CachingAllocator()
    for request in (1000 * 10 * 4, 10 * 4, 1000 * 4):  # W, b, X
        allocator.allocate(request)
    product = allocator.allocate(10 * 4)
    allocator.allocate(2 * 4096 * KIB + 8 * 16 * KIB)  # cuBLAS: two buffers of 4,096 KiB, eight of 16 KiB
    allocator.allocate(10 * 4)
    allocator.free(product)
    small = [(40_448, True), (512, True), (4_096, True), (512, False), (512, True), (2_051_072, False)]
    assert allocator.blocks() == [small, [(8_519_680, True), (12_451_840, False)]]
    assert allocator.allocated_bytes == 45_568 + 8_519_680


@pytest.mark.parametrize(
    ("request_bytes", "segments", "reserved"),
    [
        (512, 1, 2 * MIB),
        (MIB, 2, 4 * MIB),
        (MIB + 512, 1, 20 * MIB),
        (10 * MIB - 512, 2, 40 * MIB),
        (10 * MIB + 512, 3, 36 * MIB),
    ],
)
def test_the_cases_of_torchs_own_test(request_bytes: int, segments: int, reserved: int) -> None:
    """test/test_cuda.py, test_graph_memory_stats_and_use_result_after_destroy_graph: b = b.clone() + 1."""
    allocator = CachingAllocator()
    b = allocator.allocate(request_bytes)
    for _ in range(5):
        clone = allocator.allocate(request_bytes)
        result = allocator.allocate(request_bytes)
        allocator.free(clone)
        allocator.free(b)
        b = result
    assert (len(allocator.segments), allocator.reserved_bytes) == (segments, reserved)
    assert allocator.allocated_bytes == request_bytes


def test_a_large_tensor_of_torchs_own_test_is_not_rounded() -> None:
    """test/test_cuda.py, test_allocator_settings: 21 Mi elements take 84 MiB."""
    allocator = CachingAllocator()
    allocator.allocate(21 * MIB * 4)
    assert allocator.allocated_bytes == allocator.reserved_bytes == 84 * MIB


class NaiveAllocator:
    """The same rules on lists: every segment is a list of [size, owner], and every search looks at all."""

    def __init__(self) -> None:
        self.segments: list[tuple[str, list[list[int]]]] = []  # pool, blocks; owner -1 is free
        self.peak = 0

    def allocate(self, owner: int, request: int) -> None:
        size = 512
        while size < request:
            size += 512 if request < 100_000 else 512 * max((request - size) // 512, 1)
        pool = "small" if size <= 1_048_576 else "large"
        candidates = [
            (blocks[index][0], order, index)
            for order, (name, blocks) in enumerate(self.segments)
            for index in range(len(blocks))
            if name == pool and blocks[index][1] == -1 and blocks[index][0] >= size
        ]
        if not candidates:
            if pool == "small":
                total = 2_097_152
            elif size < 10_485_760:
                total = 20_971_520
            else:
                total = (size + 2_097_151) // 2_097_152 * 2_097_152
            self.segments.append((pool, [[total, -1]]))
            candidates = [(total, len(self.segments) - 1, 0)]
        # In a segment, a lower index is a lower address; segments are at increasing addresses.
        _, order, index = min(candidates)
        blocks = self.segments[order][1]
        rest = blocks[index][0] - size
        blocks[index][1] = owner
        if (pool == "small" and rest >= 512) or (pool == "large" and rest > 1_048_576):
            blocks[index][0] = size
            blocks.insert(index + 1, [rest, -1])
        self.peak = max(self.peak, self.allocated)

    def free(self, owner: int) -> None:
        for _, blocks in self.segments:
            for block in blocks:
                if block[1] == owner:
                    block[1] = -1
            index = 0
            while index + 1 < len(blocks):
                if blocks[index][1] == blocks[index + 1][1] == -1:
                    blocks[index][0] += blocks.pop(index + 1)[0]
                else:
                    index += 1

    @property
    def allocated(self) -> int:
        return sum(block[0] for _, blocks in self.segments for block in blocks if block[1] != -1)

    def snapshot(self) -> list[list[tuple[int, bool]]]:
        return [[(size, owner != -1) for size, owner in blocks] for _, blocks in self.segments]


SIZES = st.one_of(
    st.integers(1, 4_096),
    st.integers(1, 2 * MIB),
    st.integers(MIB, 40 * MIB),
    st.sampled_from([512, MIB, MIB + 1, 2 * MIB, 9 * MIB, 10 * MIB - 512, 10 * MIB, 12 * MIB, 19 * MIB]),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(SIZES, st.integers(-1_000, -1)), max_size=80))
def test_a_naive_simulator_agrees_on_random_traces(trace: list[int]) -> None:
    """A positive number is a request, a negative one frees one of the live blocks."""
    allocator, naive = CachingAllocator(), NaiveAllocator()
    live: list[tuple[int, int | None]] = []
    for step, number in enumerate(trace):
        if number > 0:
            live.append((step, allocator.allocate(number)))
            naive.allocate(step, number)
        elif live:
            owner, address = live.pop(number % len(live))
            allocator.free(address)
            naive.free(owner)
        assert allocator.blocks() == naive.snapshot()
        assert allocator.allocated_bytes == naive.allocated
    assert allocator.peak_allocated_bytes == naive.peak


def trace_seconds(count: int) -> float:
    """CPU time of requests of many different sizes, of which half are freed in between, in random order."""
    numbers = random.Random(count)
    requests = [numbers.randrange(1, 30 * MIB if step % 4 else MIB) for step in range(count)]
    allocator, live = CachingAllocator(), []
    begin = time.process_time()
    for step, request in enumerate(requests):
        live.append(allocator.allocate(request))
        if step % 2:
            index = numbers.randrange(len(live))
            live[index], live[-1] = live[-1], live[index]
            allocator.free(live.pop())
    return time.process_time() - begin


@pytest.mark.alone
@pytest.mark.slow
def test_time_per_request_hardly_grows_from_a_hundred_thousand_to_a_million() -> None:
    best = {count: float("inf") for count in (100_000, 1_000_000)}
    # The least of several runs, taken in turn: other work on the machine can only slow one down.
    for _ in range(3):
        for count in best:
            best[count] = min(best[count], trace_seconds(count) / count)
        if best[1_000_000] <= 2 * best[100_000]:
            break
    # Quadratic time would be ten times as much; caches alone cost some.
    assert best[1_000_000] <= 3 * best[100_000]


def test_addresses_are_disjoint() -> None:
    numbers, allocator = random.Random(1), CachingAllocator()
    blocks = {}
    for _ in range(500):
        size = numbers.randrange(1, 3 * MIB)
        blocks[allocator.allocate(size)] = size
        if len(blocks) > 50:
            allocator.free(blocks_pop := numbers.choice(list(blocks)))
            del blocks[blocks_pop]
    spans = sorted((address or 0, size) for address, size in blocks.items())
    assert all(first + size <= second for (first, size), (second, _) in pairwise(spans))
