"""The Dataflow Compiler of Hailo.

Source: Hailo Model Zoo, https://github.com/hailo-ai/hailo_model_zoo.
"""

from __future__ import annotations

from sizeup.backends.backend import Support
from sizeup.backends.needs import Needs
from sizeup.backends.system import System

_UNKNOWN = "whether the Dataflow Compiler takes all operators is not modeled"
_MODELED = (
    "not modeled: which operators the Dataflow Compiler takes, and the memory of the chip; a network that"
    " exceeds it is split into contexts, which are loaded one after the other"
)


class Hailo(System):
    """A Hailo NPU next to an operating system."""

    def support(self, needs: Needs) -> Support:
        """Undetermined: the operators of the compiler are not modeled."""
        return Support(gaps=(("host", _UNKNOWN),), caveats=(_MODELED,))


BACKEND = Hailo
