"""Operators that read between the pixels: interpolation, grid sampling, regions of interest."""

from __future__ import annotations

from sizeup.graph import Dim
from sizeup.ops.rule import Call, OpRule, names, register


def _taps(call: Call) -> Dim:
    taps: Dim = call.attrs.get("taps", 4)
    # A nearest neighbour is a copy; a weighted sum of n taps has n products and n - 1 sums.
    return (2 * taps - 1) * call.output.elements if taps > 1 else 0


def _resample(kind: str, torch: str, onnx: str, tflite: str) -> None:
    register(
        OpRule(
            kind,
            "resample",
            "A product and a sum for each tap of each output number; a nearest neighbour computes nothing.",
            elementwise=_taps,
            torch=names(torch),
            onnx=names(onnx),
            tflite=names(tflite),
        )
    )


_resample(
    "resize",
    "aten.upsample_nearest1d aten.upsample_nearest2d aten.upsample_nearest3d aten._upsample_nearest_exact1d"
    " aten._upsample_nearest_exact2d aten._upsample_nearest_exact3d aten.upsample_linear1d"
    " aten.upsample_bilinear2d aten._upsample_bilinear2d_aa aten.upsample_trilinear3d aten.upsample_bicubic2d"
    " aten._upsample_bicubic2d_aa",
    "Resize Upsample",
    "RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR",
)
_resample("grid_sample", "aten.grid_sampler aten.grid_sampler_2d aten.grid_sampler_3d", "GridSample", "-")
_resample("roi_align", "torchvision.roi_align torchvision.roi_pool torchvision.ps_roi_align", "RoiAlign", "-")
register(
    OpRule(
        "affine_grid",
        "resample",
        "A 2x3 product for each grid point.",
        elementwise=lambda call: 5 * call.output.elements,
        torch=names("aten.affine_grid_generator"),
        onnx=names("AffineGrid"),
    )
)
