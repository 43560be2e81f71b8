"""PyTorch's caching allocator for CUDA devices, simulated on sizes alone.

The algorithm is that of c10/cuda/CUDACachingAllocator.cpp with its default settings (no expandable segments,
no limit on splitting), and the sizes are those of c10/core/AllocatorConfig.h of torch 2.13. There is one
stream, and memory never runs out: a segment, once reserved, is kept.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TypeAlias

MIN_BLOCK = 512
"""Every request is rounded up to a multiple of it."""
SMALL_REQUEST = 1 << 20
"""The largest request that is served from the small pool."""
SMALL_SEGMENT = 2 << 20
LARGE_SEGMENT = 20 << 20
"""The segment for requests of the large pool below `OWN_SEGMENT`."""
OWN_SEGMENT = 10 << 20
"""From this size on, a request without a free block gets a segment of its size."""
SEGMENT_STEP = 2 << 20
"""Such a segment is rounded up to a multiple of it."""

_FreeBlock: TypeAlias = tuple[int, int]  # size, address
_BUCKET = 512


def rounded_size(request: int) -> int:
    """The size of the smallest block for a request of at least one byte."""
    return max(-(-request // MIN_BLOCK), 1) * MIN_BLOCK


def segment_size(size: int) -> int:
    """The size of the segment that is reserved if no free block has a rounded size."""
    if size <= SMALL_REQUEST:
        return SMALL_SEGMENT
    if size < OWN_SEGMENT:
        return LARGE_SEGMENT
    return -(-size // SEGMENT_STEP) * SEGMENT_STEP


class CachingAllocator:
    """Blocks in segments: allocation by best fit, coalescing of free neighbors, two pools."""

    def __init__(self) -> None:
        self.allocated_bytes = 0
        """Bytes of the blocks in use, as `torch.cuda.memory_allocated` returns them."""
        self.reserved_bytes = 0
        """Bytes of all segments, as `torch.cuda.memory_reserved` returns them."""
        self.peak_allocated_bytes = 0
        self.segments: list[tuple[int, int]] = []
        """Address and size of every segment, in the order in which they were reserved."""
        self._next_address = 0
        self._used: dict[int, tuple[int, bool]] = {}  # size and pool of the block at an address
        self._free: dict[int, int] = {}  # size of the free block at an address
        self._free_start: dict[int, int] = {}  # address of the free block that ends at an address
        self._pools = (_SortedBlocks(), _SortedBlocks())  # small, large

    def allocate(self, request: int) -> int | None:
        """Return the address of a block for a request; None for no bytes, which need no block."""
        if request <= 0:
            return None
        size = rounded_size(request)
        is_large = size > SMALL_REQUEST
        block = self._pools[is_large].pop_smallest(size)
        if block is None:
            block_size, address = self._reserve(segment_size(size))
        else:
            block_size, address = block
            self._forget(address, block_size)
        rest = block_size - size
        if rest > SMALL_REQUEST if is_large else rest >= MIN_BLOCK:
            self._add_free(address + size, rest, is_large)
            block_size = size
        self._used[address] = (block_size, is_large)
        self.allocated_bytes += block_size
        self.peak_allocated_bytes = max(self.peak_allocated_bytes, self.allocated_bytes)
        return address

    def free(self, address: int | None) -> None:
        """Return a block to its pool; free neighbors in the same segment become one block."""
        if address is None:
            return
        size, is_large = self._used.pop(address)
        self.allocated_bytes -= size
        start, end = address, address + size
        before, after = self._free_start.get(start), self._free.get(end)
        if before is not None:
            self._take(before, start - before, is_large)
            start = before
        if after is not None:
            self._take(end, after, is_large)
            end += after
        self._add_free(start, end - start, is_large)

    def blocks(self) -> list[list[tuple[int, bool]]]:
        """Per segment, the size of every block by address, and whether it is in use."""
        rows = []
        for start, size in self.segments:
            row, address = [], start
            while address < start + size:
                is_used = address in self._used
                row.append((self._used[address][0] if is_used else self._free[address], is_used))
                address += row[-1][0]
            rows.append(row)
        return rows

    def _reserve(self, size: int) -> _FreeBlock:
        address = self._next_address
        # A gap, because blocks of different segments are never neighbors.
        self._next_address += size + MIN_BLOCK
        self.segments.append((address, size))
        self.reserved_bytes += size
        return size, address

    def _add_free(self, address: int, size: int, is_large: bool) -> None:
        self._free[address] = size
        self._free_start[address + size] = address
        self._pools[is_large].add((size, address))

    def _take(self, address: int, size: int, is_large: bool) -> None:
        self._pools[is_large].remove((size, address))
        self._forget(address, size)

    def _forget(self, address: int, size: int) -> None:
        del self._free[address]
        del self._free_start[address + size]


class _SortedBlocks:
    """Free blocks by size, then by address, in sorted buckets of bounded length."""

    def __init__(self) -> None:
        self._buckets: list[list[_FreeBlock]] = []
        self._last: list[_FreeBlock] = []  # of each bucket

    def add(self, block: _FreeBlock) -> None:
        """Insert a block."""
        if not self._buckets:
            self._buckets.append([block])
            self._last.append(block)
            return
        index = min(bisect_left(self._last, block), len(self._last) - 1)
        bucket = self._buckets[index]
        insort(bucket, block)
        if len(bucket) > 2 * _BUCKET:
            self._buckets.insert(index + 1, bucket[_BUCKET:])
            del bucket[_BUCKET:]
            self._last.insert(index, bucket[-1])
            self._last[index + 1] = self._buckets[index + 1][-1]
        else:
            self._last[index] = bucket[-1]

    def remove(self, block: _FreeBlock) -> None:
        """Remove a block that is present."""
        index = bisect_left(self._last, block)
        self._delete(index, bisect_left(self._buckets[index], block))

    def pop_smallest(self, size: int) -> _FreeBlock | None:
        """Remove and return the smallest block of at least a size; None if there is none."""
        key = (size, -1)
        index = bisect_left(self._last, key)
        if index == len(self._last):
            return None
        position = bisect_left(self._buckets[index], key)
        block = self._buckets[index][position]
        self._delete(index, position)
        return block

    def _delete(self, index: int, position: int) -> None:
        bucket = self._buckets[index]
        del bucket[position]
        if bucket:
            self._last[index] = bucket[-1]
        else:
            del self._buckets[index], self._last[index]
