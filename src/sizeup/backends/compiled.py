"""What the compiler of an NPU made of a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sizeup.runtimes.vela import Compilation


@dataclass(frozen=True, slots=True)
class NpuFit:
    """A model on an Ethos-U. Without a compilation, `reason` is why there is none.

    `arena` are bounds of the arena that TFLite Micro needs for the compiled file, over the kernels that may
    run operators on the CPU; None if it is not known, with the reason in `arena_unknown_reason`.
    """

    accelerator: str  # of the target, as Vela names it, or the name of its NPU
    compilation: Compilation | None = None
    reason: str = ""
    is_compiled_file: bool = False  # the model itself is a file that Vela compiled
    unsupported_reason: str | None = None  # why the target cannot run the model
    file_bytes: int | None = None  # of the compiled file
    arena: tuple[int, int] | None = None
    arena_unknown_reason: str = ""

    @property
    def is_known(self) -> bool:
        """Whether there is a compiled file to judge, of which the NPU runs a part."""
        return self.is_compiled_file or (self.compilation is not None and self.compilation.npu_ops > 0)
