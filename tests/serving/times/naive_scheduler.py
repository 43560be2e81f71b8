"""Continuous batching written out: each step loops over all sequences. Slow; an oracle for tests alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sizeup.serving.times.scheduler import SchedulerLimits


@dataclass(eq=False)
class Item:
    prompt: int
    answer: int
    arrival: float | None
    tokens: int = 0  # in the cache
    answered: int = 0
    blocks: int = 0  # in its table, shared ones included
    shared: int = 0
    is_prompt: bool = True
    first: float | None = None
    end: float | None = None

    @property
    def left(self) -> int:
        return self.prompt + self.answered - self.tokens


class Server:
    def __init__(
        self, rows: list[tuple[float, int, int]], limits: SchedulerLimits, clients: int | None
    ) -> None:
        self.items = [Item(prompt, answer, None if clients else at) for at, prompt, answer in rows]
        for item in self.items[: clients or 0]:
            item.arrival = 0.0
        self.limits, self.size = limits, limits.block_tokens
        self.prefix = limits.shared_prefix // self.size
        self.free, self.now, self.steps, self.preemptions = limits.blocks - self.prefix, 0.0, 0, 0
        self.unseen = list(self.items)
        self.waiting: list[Item] = []
        self.running: list[Item] = []

    def run(self, seconds: Callable[[int, float, int, float], float]) -> None:
        while any(item.end is None for item in self.items):
            while self.unseen and self.unseen[0].arrival is not None and self.unseen[0].arrival <= self.now:
                self.waiting.append(self.unseen.pop(0))
            if not self.running and not self.waiting:
                assert self.unseen[0].arrival is not None
                self.now = self.unseen[0].arrival
                continue
            before = self.preemptions
            counts = self.running_counts()
            if self.preemptions == before:
                self.admit(counts)
            prompts = [item for item in counts if item.is_prompt]
            decoding = [item for item in counts if not item.is_prompt]
            tokens = sum(counts[item] for item in prompts)
            self.now += seconds(
                len(decoding),
                sum(item.tokens for item in decoding) / max(len(decoding), 1),
                tokens,
                sum(counts[item] * item.tokens for item in prompts) / max(tokens, 1),
            )
            self.steps += 1
            self.advance(counts)

    def running_counts(self) -> dict[Item, int]:
        counts: dict[Item, int] = {}
        for item in list(self.running):
            count = min(item.left, self.limits.batch_tokens - sum(counts.values()))
            while item in self.running and count:
                needed = -(-(item.tokens + count) // self.size) - item.blocks
                if needed <= self.free:
                    self.free -= needed
                    item.blocks += needed
                    counts[item] = count
                    break
                last = self.running.pop()
                self.free += last.blocks - last.shared
                self.waiting.insert(0, last)
                self.preemptions += 1
        return counts

    def admit(self, counts: dict[Item, int]) -> None:
        while self.waiting and len(self.running) < self.limits.sequences:
            item = self.waiting[0]
            item.is_prompt, item.tokens = True, 0
            shared = min(self.prefix, (item.left - 1) // self.size)
            item.tokens = shared * self.size
            count = min(item.left, self.limits.batch_tokens - sum(counts.values()))
            needed = -(-(item.tokens + count) // self.size) - shared
            if not count or needed > self.free:
                return
            self.free -= needed
            item.shared, item.blocks = shared, shared + needed
            counts[item] = count
            self.running.append(self.waiting.pop(0))

    def advance(self, counts: dict[Item, int]) -> None:
        for item, count in counts.items():
            item.tokens += count
            if item.left:
                continue
            item.answered, item.is_prompt = item.answered + 1, False
            item.first = self.now if item.first is None else item.first
            if item.answered == item.answer:
                item.end = self.now
                self.free += item.blocks - item.shared
                self.running.remove(item)
                following = [each for each in self.unseen if each.arrival is None]
                if following:
                    following[0].arrival = self.now
