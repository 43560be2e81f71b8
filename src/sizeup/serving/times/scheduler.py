"""Continuous batching simulated step by step: when each request gets its first and its last token.

One server runs engine steps one after another, as vLLM's scheduler orders them (vLLM 0.11,
`vllm/v1/core/sched/scheduler.py`):

    a step holds at most `batch_tokens` tokens: one per decoding sequence, then prompts
    a prompt that exceeds the rest of the step is divided over steps (chunked prefill)
    prompts are admitted in order of arrival while sequences and cache blocks are free
    a step that lacks a block preempts the request admitted last: its cache is dropped, and computed again
    the step that ends a prompt also emits the first token

Every decoding sequence takes part in every step, so steps between two events (an arrival, a prompt, an end, a
lack of blocks) differ in the context alone and are timed in one call. Work grows with the number of events,
not with the number of steps or sequences.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sizeup.errors import SizeupError

Floats: TypeAlias = npt.NDArray[np.float64]
Integers: TypeAlias = npt.NDArray[np.int64]
# Seconds of steps, from columns: decoding sequences, their mean context, prompt tokens, and the mean number
# of cached tokens before these.
StepSeconds: TypeAlias = Callable[[Floats, Floats, Floats, Floats], Floats]

_LONGEST_RUN = 256  # steps timed in one call


@dataclass(frozen=True, slots=True)
class Requests:
    """Requests as columns, in order of arrival."""

    arrival_s: Floats
    input: Integers
    output: Integers

    def __len__(self) -> int:
        return len(self.input)


@dataclass(frozen=True, slots=True)
class SchedulerLimits:
    """What one server holds: tokens of a step, sequences, and blocks of its cache."""

    batch_tokens: int
    sequences: int
    blocks: int
    block_tokens: int
    shared_prefix: int = 0  # tokens that all prompts begin with; in the cache from the start, stored once


@dataclass(frozen=True, slots=True)
class Timeline:
    """When the requests of a simulation arrived, began to answer and ended, in seconds."""

    requests: Requests
    arrival_s: Floats
    first_token_s: Floats
    end_s: Floats
    preemptions: int
    steps: int

    @property
    def ttft_s(self) -> Floats:
        """Time to the first token of each request."""
        return self.first_token_s - self.arrival_s

    @property
    def tpot_s(self) -> Floats:
        """Mean time per token after the first of each request; NaN for an answer of one token."""
        later = self.requests.output - 1
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(later > 0, (self.end_s - self.first_token_s) / later, np.nan)

    @property
    def output_tokens_per_s(self) -> float:
        """Output tokens of all requests, over the time from the first arrival to the last end."""
        return float(self.requests.output.sum() / (self.end_s.max() - self.arrival_s.min()))


def simulate(
    requests: Requests, limits: SchedulerLimits, seconds: StepSeconds, *, concurrency: int | None = None
) -> Timeline:
    """Run requests on one server. With `concurrency`, that number of clients send one request after another.

    Raises SizeupError if one request alone exceeds the cache.
    """
    _require_room(requests, limits)
    return _Server(requests, limits, seconds, concurrency).run()


def _require_room(requests: Requests, limits: SchedulerLimits) -> None:
    if not len(requests):
        raise SizeupError("a simulation needs at least one request")
    if limits.sequences > limits.batch_tokens:
        raise SizeupError("a step needs a token for each of its sequences")
    stored = np.maximum(requests.input + requests.output - 1, limits.shared_prefix)
    needed = -(-stored // limits.block_tokens)
    if int(needed.max()) > limits.blocks:
        longest = int(stored[int(needed.argmax())])
        raise SizeupError(
            f"a request of {longest:,} tokens needs {int(needed.max()):,} cache blocks,"
            f" and the server has {limits.blocks:,}"
        )


@dataclass(slots=True)
class _Prompts:
    """The prompts of one step."""

    tokens: int = 0
    cached: int = 0  # cached tokens before each of them, summed
    complete: list[_Sequence] = field(default_factory=list)


@dataclass(slots=True)
class _Sequence:
    """A request that waits or runs."""

    request: int
    target: (
        int  # tokens to compute before the next token: the prompt, and what was answered before a preemption
    )
    computed: int  # tokens in the cache when it began to decode, or of its prompt so far
    shared: int  # of these, tokens in blocks that it shares
    emitted: int = 0  # tokens of the answer before its first decode step
    first_step: int = -1  # its first decode step, -1 before

    def stored(self, step: int) -> int:
        """Tokens in the cache before a step."""
        return self.computed if self.first_step < 0 else self.computed + step - self.first_step


class _Server:
    """The state between two steps. `step` is the number of the next one."""

    def __init__(
        self, requests: Requests, limits: SchedulerLimits, seconds: StepSeconds, concurrency: int | None
    ) -> None:
        self.requests, self.limits, self.seconds = requests, limits, seconds
        self.inputs, self.outputs = requests.input.tolist(), requests.output.tolist()
        count = len(requests)
        self.arrivals = [0.0] * count if concurrency else requests.arrival_s.tolist()
        self.known = min(concurrency, count) if concurrency else count  # requests whose arrival is known
        self.arrived = self.ended = 0
        self.firsts, self.ends = [0.0] * count, [0.0] * count
        self.waiting: deque[_Sequence] = deque()
        self.running: dict[int, _Sequence] = {}  # in order of admission
        self.partial: _Sequence | None = None  # the prompt that is divided over steps: last of running
        self.now, self.step, self.preemptions = 0.0, 0, 0
        self.shared = limits.shared_prefix // limits.block_tokens * limits.block_tokens
        self.free = limits.blocks - self._blocks(self.shared)
        self.decoding, self.context = 0, 0  # sequences, and the sum of their cached tokens
        self.block_starts = np.zeros(
            limits.block_tokens, np.int64
        )  # decoding sequences by steps that need a block
        self.last_steps: dict[int, list[_Sequence]] = {}  # decoding sequences by the step of their last token
        self.order: list[int] = []  # a heap of these steps

    def run(self) -> Timeline:
        while self.ended < len(self.requests):
            self._arrive()
            if not self.running and not self.waiting:
                self.now = self.arrivals[self.arrived]
                continue
            before = self.preemptions
            while self._new_blocks() > self.free:
                self._preempt()
            prompts = self._prompts(can_admit=self.preemptions == before)
            is_run = not prompts.tokens and self.preemptions == before
            self._run_steps(prompts, self._steps() if is_run else 1)
        return Timeline(
            self.requests, np.array(self.arrivals), np.array(self.firsts), np.array(self.ends),
            self.preemptions, self.step,
        )  # fmt: skip

    def _arrive(self) -> None:
        while self.arrived < self.known and self.arrivals[self.arrived] <= self.now:
            tokens = self.inputs[self.arrived]
            self.waiting.append(_Sequence(self.arrived, tokens, *self._hit(tokens)))
            self.arrived += 1

    def _hit(self, tokens: int) -> tuple[int, int]:
        """Tokens of a prompt in the cache, and in shared blocks; the last token is always computed."""
        block = self.limits.block_tokens
        shared = min(self.shared, (tokens - 1) // block * block)
        return shared, shared

    def _blocks(self, tokens: int) -> int:
        return -(-tokens // self.limits.block_tokens)

    def _new_blocks(self) -> int:
        """Blocks that decoding sequences begin in the next step."""
        return int(self.block_starts[self.step % self.limits.block_tokens])

    def _preempt(self) -> None:
        """Take the request admitted last out of the server, and let it wait before all others."""
        request, sequence = self.running.popitem()
        self.free += self._blocks(sequence.stored(self.step)) - self._blocks(sequence.shared)
        if sequence is self.partial:
            self.partial = None
        else:
            self._stop_decoding(sequence)
            self.last_steps[self._last_step(sequence)].remove(sequence)
            sequence.emitted += self.step - sequence.first_step
        target = self.inputs[request] + sequence.emitted
        self.waiting.appendleft(_Sequence(request, target, *self._hit(target), sequence.emitted))
        self.preemptions += 1

    def _last_step(self, sequence: _Sequence) -> int:
        return sequence.first_step + int(self.outputs[sequence.request]) - sequence.emitted - 1

    def _phase(self, sequence: _Sequence) -> int:
        """The steps, modulo the size of a block, in which a decoding sequence begins one."""
        return (sequence.first_step - sequence.computed) % self.limits.block_tokens

    def _stop_decoding(self, sequence: _Sequence) -> None:
        self.decoding -= 1
        self.context -= sequence.stored(self.step)
        self.block_starts[self._phase(sequence)] -= 1

    def _prompts(self, can_admit: bool) -> _Prompts:
        """Give prompts the tokens and blocks that decoding leaves of the next step."""
        prompts = _Prompts()
        budget, free = self.limits.batch_tokens - self.decoding, self.free - self._new_blocks()
        while budget > 0:
            sequence = self.partial
            if sequence is None:
                if not can_admit or not self.waiting or len(self.running) >= self.limits.sequences:
                    break
                sequence = self.waiting[0]
            chunk = min(sequence.target - sequence.computed, budget)
            needed = self._blocks(sequence.computed + chunk) - self._blocks(sequence.computed)
            if needed > free:
                if sequence is self.partial:
                    self._preempt()
                break
            if sequence is not self.partial:
                self.running[sequence.request] = self.waiting.popleft()
            free, budget = free - needed, budget - chunk
            self.free -= needed
            prompts.tokens += chunk
            prompts.cached += chunk * sequence.computed
            sequence.computed += chunk
            self.partial = sequence if sequence.computed < sequence.target else None
            if self.partial is None:
                prompts.complete.append(sequence)
        return prompts

    def _steps(self) -> int:
        """The number of next steps, at most, that differ in the context of decoding sequences alone."""
        while not self.last_steps.get(self.order[0]):
            self.last_steps.pop(heapq.heappop(self.order), None)
        steps = min(self.order[0] - self.step + 1, _LONGEST_RUN)
        if self._blocks(steps) * self.decoding > self.free:
            numbers = np.arange(self.step, self.step + steps) % self.limits.block_tokens
            steps = int(np.searchsorted(np.cumsum(self.block_starts[numbers]), self.free, "right"))
        return steps

    def _run_steps(self, prompts: _Prompts, steps: int) -> None:
        contexts = self.context / max(self.decoding, 1) + np.arange(steps, dtype=np.float64)
        cached = prompts.cached / max(prompts.tokens, 1)
        columns = (float(self.decoding), contexts, float(prompts.tokens), cached)
        ends = self.now + np.cumsum(self.seconds(*(np.broadcast_to(each, steps) for each in columns)))
        if not self.waiting and self.arrived < self.known:
            # The first step that ends after an arrival is the last before its prompt.
            steps = min(steps, int(np.searchsorted(ends, self.arrivals[self.arrived])) + 1)
        block = self.limits.block_tokens
        whole, rest = divmod(steps, block)
        numbers = np.arange(self.step, self.step + rest) % block
        self.free -= whole * self.decoding + int(self.block_starts[numbers].sum())
        self.now = float(ends[steps - 1])
        self.step += steps
        self.context += steps * self.decoding
        for sequence in self.last_steps.pop(self.step - 1, ()):
            self._stop_decoding(sequence)
            self._end(sequence)
        for sequence in prompts.complete:
            self._emit_first(sequence)

    def _emit_first(self, sequence: _Sequence) -> None:
        if not sequence.emitted:
            self.firsts[sequence.request] = self.now
        sequence.emitted += 1
        if sequence.emitted == self.outputs[sequence.request]:
            self._end(sequence)
            return
        sequence.first_step = self.step
        self.decoding += 1
        self.context += sequence.computed
        self.block_starts[self._phase(sequence)] += 1
        last = self._last_step(sequence)
        if last not in self.last_steps:
            self.last_steps[last] = []
            heapq.heappush(self.order, last)
        self.last_steps[last].append(sequence)

    def _end(self, sequence: _Sequence) -> None:
        self.ends[sequence.request] = self.now
        self.free += self._blocks(sequence.stored(self.step)) - self._blocks(sequence.shared)
        del self.running[sequence.request]
        self.ended += 1
        if self.known < len(self.requests):  # a client of the closed loop sends its next request
            self.arrivals[self.known] = self.now
            self.known += 1
