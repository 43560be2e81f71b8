"""Whether a target has room for a model: RAM and flash, each need from below and from above.

Nothing here searches: for many graphs, precisions and targets this is arithmetic on what `Needs` found once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

from sizeup import units
from sizeup.checks.limits import Part, Space
from sizeup.cost import Cost
from sizeup.dtypes import DType, precision_name
from sizeup.graph import Graph
from sizeup.memory import Usage, as_shipped, refusal_of, usage
from sizeup.memory.tflm import MicroArena, most_scratch
from sizeup.memory.tflm.head import place
from sizeup.mixed_precision import assign, layers
from sizeup.targets import Target

# What lies in flash and runs bare; every other kind of device loads its weights into RAM.
_BARE = ("microcontroller",)
# Beside a model whose file is not there: of 30 files, TFLite Micro keeps 166 to 1,771 B for each operator.
_TAIL = (128, 2048)
# For the runtime and whatever else runs where there is an operating system.
_OTHERS_SHARE, _OTHERS_LEAST = 10, 128 << 20


@dataclass(frozen=True, slots=True)
class Room:
    """Both memories of a target; `refused` says why its runtime does not take the model at all."""

    ram: Space
    flash: Space | None  # None where the weights do not stay in flash, which then is no limit
    refused: str | None = None

    @property
    def spaces(self) -> tuple[Space, ...]:
        """The memories that limit."""
        return (self.ram,) if self.flash is None else (self.ram, self.flash)

    @property
    def fits(self) -> bool | None:
        """Whether there is room for all of it and the runtime takes it; None where that cannot be told."""
        answers = [space.fits for space in self.spaces]
        if self.refused or False in answers:
            return False
        return None if None in answers else True


def room(needs: Needs, target: Target, *, ram: int | None = None, flash: int | None = None) -> Room:
    """Hold what a graph needs against a target; `ram` and `flash` are what is really left for the model."""
    bare = target.device.kind in _BARE or bool(target.runtime.micro)
    memory = _micro_ram(needs, target, ram) if bare else _system_ram(needs, target, ram)
    return Room(memory, _flash(needs, target, flash) if bare else None, _refusal(needs, target))


def is_run_by_torch(target: Target) -> bool:
    """Whether memory is what PyTorch's own allocator and kernels take."""
    return target.runtime.name == "torch-eager"


def _refusal(needs: Needs, target: Target) -> str | None:
    runtime = target.runtime
    if needs.precision is not None and precision_name(needs.precision) not in runtime.dtypes:
        return f"{runtime.name} has no kernels for {precision_name(needs.precision)}"
    # What Vela compiled is one operator that only its own runtime has.
    if not runtime.micro or runtime.micro == "ethos-u" or needs.refused is None:
        return None
    return f"TFLite Micro does not run this file: {needs.refused}"


def _micro_ram(needs: Needs, target: Target, given: int | None) -> Space:
    device = target.device
    limit = device.largest_ram_bytes if given is None else given
    parts = _arena_parts(needs, target)
    unknown = [needs.usage.missing] if needs.usage.missing else []
    if limit is None:
        unknown.append(f"the RAM of {device.title} is not known; --ram says how much there is")
    where, assumptions = "--ram", []
    if given is None:
        where = device.title
        assumptions.append("all of that RAM is free: --ram says what stack and application leave")
        if sum(memory.role == "ram" for memory in device.memories) > 1:
            where = f"the largest bank of {device.title}"
            assumptions.append("an arena lies in one bank: the largest counts, not the sum of all")
    return Space("ram", limit, tuple(parts), 0, where, tuple(unknown), tuple(assumptions))


def _arena_parts(needs: Needs, target: Target) -> list[Part]:
    """The arena that the runtime plans, and what its kernels may ask for beside."""
    kernels, usage = target.runtime.micro, needs.usage
    if usage.unknown:
        return [Part("tensors", usage.peak_bytes, None, "without those whose size depends on data")]
    if not kernels:
        how = f"the peak in the order as given: what {target.runtime.name} plans itself is taken to reach it"
        return [Part("tensors", usage.peak_bytes, usage.peak_bytes, how)]
    arena = needs.arena
    exact = None if arena is None else arena.arena_bytes(target.device.word_bits)
    if exact is not None:
        how = "what TFLite Micro's AllocateTensors needs"
        if needs.precision is not None:
            how += f" with every layer at {precision_name(needs.precision)}"
        parts = [Part("arena", exact, exact + needs.description_bytes, how)]
    elif arena is not None:
        parts = [Part("arena", arena.head_bytes, None, arena.unknown)]
    else:
        packed, count = needs.packed_bytes, len(needs.graph.ops)
        parts = [
            Part("arena", usage.peak_bytes, packed, "its tensors as TFLite Micro's planner places them"),
            Part(
                "interpreter",
                _TAIL[0] * count,
                _TAIL[1] * (count + 1),
                f"assumed, for {count:,} operators, as the file for TFLite Micro is not there",
            ),
        ]
    most = needs.scratch_bytes(f"{kernels} with helium" if _has_helium(target) else kernels)
    if most is None:
        parts.append(Part("scratch", 0, None, f"what kernels of {kernels} ask for is not known"))
    elif most:
        parts.append(Part("scratch", 0, most, f"the most that kernels of {kernels} ask for while they run"))
    return parts


def _has_helium(target: Target) -> bool:
    """Whether CMSIS-NN is built for vectors; a core that is not known may have them."""
    if target.runtime.micro != "cmsis-nn":
        return False
    return any(unit.core is None or "Helium" in unit.core.architecture for unit in target.units)


def _system_ram(needs: Needs, target: Target, given: int | None) -> Space:
    """Where an operating system runs, or on a card: weights and activations both, beside everything else."""
    device, runtime = target.device, target.runtime
    usage = needs.usage_as_run if is_run_by_torch(target) else needs.usage
    limit = device.ram_bytes if given is None else given
    weights, unknown = needs.weight_bytes, []
    copies = 2 if runtime.packs else 1
    how = f"{runtime.name} may keep a second copy for its kernels" if runtime.packs else "loaded once"
    parts = [Part("weights", weights, copies * weights, how)]
    if usage.unknown:
        unknown.append(usage.missing)
        parts.append(Part("tensors", usage.peak_bytes, None, "without those whose size depends on data"))
    else:
        most = None if usage.unmodelled else usage.peak_bytes
        beyond = f"; {', '.join(usage.unmodelled)} take more, which is not known" if usage.unmodelled else ""
        parts.append(Part("tensors", usage.peak_bytes, most, f"the peak in the order as given{beyond}"))
    if limit is None:
        unknown.append(f"the RAM of {device.title} is not known; --ram says how much there is")
    reserve = 0
    assumptions = []
    if limit is not None and given is None:
        reserve = min(max(limit // _OTHERS_SHARE, _OTHERS_LEAST), limit // 2)
        taken = f"{units.size(reserve)} of that RAM may be taken by the runtime and all else that runs"
        assumptions.append(f"{taken}: --ram says what they leave")
    where = device.title if given is None else "--ram"
    return Space("ram", limit, tuple(parts), reserve, where, tuple(unknown), tuple(assumptions))


def _flash(needs: Needs, target: Target, given: int | None) -> Space:
    device, code = target.device, target.runtime.code
    limit = device.flash_bytes if given is None else given
    unknown: list[str] = []
    if limit is None:
        unknown.append(f"{device.title} has no flash of a known size; --flash says how much there is")
    parts = [_stored(needs)]
    if code is None:
        unknown.append(f"what the code of {target.runtime.name} takes is not known")
        parts.append(Part("code", 0, None, "not known"))
    else:
        parts.append(Part("code", code.least_bytes, code.most_bytes, f"of {target.runtime.name}"))
    assumed = ("the application's own code is not counted",) if given is None else ()
    where = device.title if given is None else "--flash"
    return Space("flash", limit, tuple(parts), 0, where, tuple(unknown), assumed)


def _stored(needs: Needs) -> Part:
    """The file as it is, or what one of these weights takes."""
    least, most = needs.stored_bytes
    if least == most:
        return Part("model", least, most, "the file as it is")
    return Part("model", least, most, "its weights, and what a file of such a model holds beside them")


_ALIGNMENT = 16  # of whatever TFLite Micro places
# What quantised inputs and outputs are described by beside real ones.
_DESCRIPTION = 32
# What a file grows by where numbers become integers: scales and zero points of weight and bias by channel,
# and those of every tensor. Four networks that exist both ways grew by 6 to 37 B a channel.
_BY_CHANNEL, _BY_TENSOR = 48, 128


@dataclass(frozen=True, eq=False)
class Needs:
    """The demand of one graph at one precision; `file_bytes` is the size of the file that it was read from.

    `given` is what the file holds where the graph is a mixture of precisions made of it. Nothing is searched
    for: the order is the graph's own, and places are found greedily.
    """

    graph: Graph
    cost: Cost
    precision: DType | None = None
    file_bytes: int | None = None
    given: Cost | None = None

    @cached_property
    def usage(self) -> Usage:
        """Memory beside the weights, operator by operator, in the order as given."""
        return usage(self.graph, precision=self.precision)

    @cached_property
    def usage_as_run(self) -> Usage:
        """The same as PyTorch held it where the graph was recorded from a run, which others do not repeat."""
        if self.graph.run is None:
            return self.usage
        return usage(self.graph, precision=self.precision, as_run=True)

    @cached_property
    def weight_bytes(self) -> int:
        """Bytes of all parameters, as the model keeps them or at the precision."""
        return self.cost.bytes_at(self.precision).weights

    @property
    def is_converted(self) -> bool:
        """Whether the numbers have other types than in the file."""
        return self.precision is not None or self.given is not None

    @cached_property
    def stored_bytes(self) -> tuple[int, int]:
        """What a file takes at least and at most: its size where it is there, its weights and more if not."""
        if self.file_bytes is not None and not self.is_converted:
            return self.file_bytes, self.file_bytes
        held = (self.given or self.cost).stored_bytes
        tensors = _BY_TENSOR * len(self.graph.tensors)
        beside = tensors if self.file_bytes is None else max(self.file_bytes - held, 0)
        if self.is_converted:
            beside += tensors + _BY_CHANNEL * self._channels
        return self.weight_bytes, self.weight_bytes + beside

    @property
    def _channels(self) -> int:
        """Output channels of all layers, or more: which axis they are is the format's to know."""
        graph = self.graph
        outputs = (graph.tensors[graph.ops[each.op].outputs[0]] for each in layers(graph))
        return sum(max(each.shape or (1,)) for each in outputs)

    @cached_property
    def micro_graph(self) -> Graph:
        """The graph as TFLite Micro would see it: every layer at the precision that was asked for."""
        if self.precision is None:
            # A plan for the arena is one for the tensors of the file.
            return self.graph if self.given is None else replace(self.graph, offsets=())
        chosen = {layer.op: self.precision for layer in layers(self.graph)}
        return replace(assign(self.graph, chosen), offsets=(), name=self.graph.name)

    @cached_property
    def arena(self) -> MicroArena | None:
        """TFLite Micro's arena; None for other formats than its own, and where it cannot run the model."""
        return as_shipped(self.micro_graph)

    @cached_property
    def refused(self) -> str | None:
        """Why TFLite Micro does not take the file; None where no reason is known."""
        return refusal_of(self.micro_graph, self.arena)

    @cached_property
    def description_bytes(self) -> int:
        """What a real file may add to the arena of a graph that was only priced at a precision."""
        ports = len(self.graph.inputs) + len(self.graph.outputs)
        return _DESCRIPTION * ports if self.is_converted else 0

    @cached_property
    def packed_bytes(self) -> int:
        """The arena that TFLite Micro's planner makes of the tensors of any graph."""
        buffers = self.usage.buffers
        sizes = [math.ceil(size / _ALIGNMENT) * _ALIGNMENT for size in buffers.size.tolist()]
        found = place(sizes, buffers.first.tolist(), buffers.last.tolist())
        return max(map(sum, zip(found, sizes, strict=True)), default=0)

    def scratch_bytes(self, kernels: str) -> int | None:
        """The most that one kernel asks for beside its tensors; None where that is not known."""
        return self._scratch.setdefault(kernels, most_scratch(self.micro_graph, kernels))

    @cached_property
    def _scratch(self) -> dict[str, int | None]:
        return {}
