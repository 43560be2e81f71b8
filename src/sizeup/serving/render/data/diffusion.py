"""Diffusion estimates as plain data, in bytes, tokens, MACs and seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizeup.render import envelope

if TYPE_CHECKING:
    from sizeup.serving.results.diffusion import Diffusion


def to_dict(estimate: Diffusion) -> dict[str, Any]:
    """Returns a diffusion estimate as plain data."""
    return {
        **envelope.head(),
        "model": {
            "name": estimate.model.name,
            "class_name": estimate.model.class_name,
            "parameters": estimate.model.parameters,
            "weights_bytes": estimate.model.stored_bytes,
        },
        "target": {"device": estimate.cluster.device.name, "memory_bytes": estimate.memory_bytes},
        "precision": {"weights": estimate.weights or None},
        "image": {"width": estimate.width, "height": estimate.height, "tokens": estimate.image_tokens},
        "text_tokens": estimate.text_tokens,
        "steps": estimate.steps,
        "inferences_per_step": estimate.inferences,
        "fits": estimate.fits,
        "step_macs": estimate.step_macs,
        "image_macs": estimate.image_macs,
        "least_step_seconds": estimate.least_step_seconds,
        "least_image_seconds": estimate.least_image_seconds,
        "assumptions": list(estimate.assumptions),
        "not_modeled": list(estimate.not_modeled),
    }
