"""The result of `diffusion`: weights, FLOPs and least time of a diffusion transformer on a GPU."""

from __future__ import annotations

from dataclasses import dataclass

from sizeup.results.result import Result
from sizeup.serving.memory.gpus import Fits
from sizeup.serving.models.diffusion import DiffusionTransformer, least_inference_seconds
from sizeup.targets.clusters import Cluster


@dataclass(frozen=True, slots=True)
class Diffusion(Result):
    """A diffusion transformer that generates one image on one device."""

    model: DiffusionTransformer
    cluster: Cluster
    weights: str  # precision asked for; empty: that of the checkpoint
    width: int  # pixels
    height: int
    text_tokens: int
    steps: int
    inferences: int  # per step: 2 with classifier-free guidance
    assumptions: tuple[str, ...]
    not_modeled: tuple[str, ...]

    @property
    def image_tokens(self) -> int:
        """Tokens of the image in each inference."""
        return self.model.image_tokens(self.width, self.height)

    @property
    def step_macs(self) -> int:
        """MACs of one denoising step."""
        tokens = self.image_tokens, self.text_tokens
        return self.inferences * (
            sum(self.model.weight_macs(*tokens).values()) + self.model.attention_macs(*tokens)
        )

    @property
    def image_macs(self) -> int:
        """MACs of all steps."""
        return self.steps * self.step_macs

    @property
    def memory_bytes(self) -> int | None:
        """Memory of the device; None if unknown."""
        return self.cluster.memory_bytes

    @property
    def fits(self) -> Fits:
        """No if the weights alone exceed the memory; undetermined otherwise, as activations are unknown."""
        total = self.memory_bytes
        return "no" if total is not None and self.model.stored_bytes > total else "undetermined"

    @property
    def verdict(self) -> Fits:
        """The same as `fits`."""
        return self.fits

    @property
    def least_step_seconds(self) -> float | None:
        """Lower bound of one step; None if a peak rate of the device is unknown."""
        tokens = self.image_tokens, self.text_tokens
        seconds = least_inference_seconds(self.model, self.cluster.device, *tokens)
        return None if seconds is None else self.inferences * seconds

    @property
    def least_image_seconds(self) -> float | None:
        """Lower bound of all steps; None if a peak rate of the device is unknown."""
        seconds = self.least_step_seconds
        return None if seconds is None else self.steps * seconds
