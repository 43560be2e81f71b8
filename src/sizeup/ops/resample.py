"""Resampling: interpolation, grid sampling, regions of interest."""

from __future__ import annotations

from sizeup.graph import Dim
from sizeup.ops.cost_rule import Call, OpRule, UnknownShape, names, register


def _taps(call: Call) -> Dim:
    taps: Dim = call.attrs.get("taps", 4)
    # Nearest-neighbor sampling is a copy; a weighted sum of n taps has n products and n - 1 sums.
    return (2 * taps - 1) * call.output.elements if taps > 1 else 0


def _resample(op_kind: str, torch: str, onnx: str, tflite: str) -> None:
    register(
        OpRule(
            op_kind,
            "resample",
            "A product and a sum per tap and output element; nearest neighbor has no arithmetic.",
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
_resample(
    "grid_sample",
    "aten.grid_sampler aten.grid_sampler_2d aten.grid_sampler_3d",
    "GridSample com.microsoft::GridSample",
    "-",
)
_resample("roi_align", "torchvision.roi_align torchvision.ps_roi_align", "RoiAlign", "-")


def _regions(call: Call) -> Dim:
    raise UnknownShape


register(
    OpRule(
        "roi_pool",
        "resample",
        "Unknown: the size of every region depends on data.",
        elementwise=_regions,
        torch=names("torchvision.roi_pool torchvision.ps_roi_pool"),
        onnx=names("MaxRoiPool"),
    )
)
register(
    OpRule(
        "affine_grid",
        "resample",
        "Per output element: a row of the affine matrix times a grid point.",
        # n products and n - 1 sums, with n = 3 in 2D and 4 in 3D.
        elementwise=lambda call: (2 * call.input(0).shape[-1] - 1) * call.output.elements,
        torch=names("aten.affine_grid_generator"),
        onnx=names("AffineGrid"),
    )
)
