"""Counts ten networks, computed by hand, with sizeup and other tools, and writes docs/other-tools.md.

    pip install --group counters
    python tools/other_tools.py

The networks are those of tests/cases.py, in evaluation mode. An error of a tool is shown as such.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import logging
import sys
import warnings
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "other-tools.md"
sys.path.insert(0, str(ROOT / "tests"))

import torch  # noqa: E402 - the networks are PyTorch modules

import sizeup  # noqa: E402
from cases import BY_NAME, CASES, Case  # noqa: E402 - in the folder of tests
from documentation.tables import table  # noqa: E402
from fitting.page import with_block  # noqa: E402
from sizeup.formats.torch.zoo import import_torchvision  # noqa: E402


def _sizeup(model: Any, inputs: tuple[Any, ...]) -> float | None:
    """MACs; None if an operator is reported as unknown."""
    cost = sizeup.count(model, inputs)
    return cost.total_macs if cost.known.all() else None


def _fvcore(model: Any, inputs: tuple[Any, ...]) -> float:
    from fvcore.nn import FlopCountAnalysis

    return float(FlopCountAnalysis(model, inputs).total())


def _thop(model: Any, inputs: tuple[Any, ...]) -> float:
    import thop

    return float(thop.profile(model, inputs=inputs, verbose=False)[0])


def _ptflops(model: Any, inputs: tuple[Any, ...], backend: str) -> float:
    from ptflops import get_model_complexity_info

    # It divides by the first size of a positional input, which is not the batch size of a recurrent layer.
    keyword = next(iter(inspect.signature(model.forward).parameters))
    batch = inputs[0] if len(inputs[0]) == 1 else {keyword: inputs[0]}
    macs, _ = get_model_complexity_info(
        model,
        tuple(inputs[0].shape[1:]),
        backend=backend,
        as_strings=False,
        print_per_layer_stat=False,
        input_constructor=lambda _: batch,
    )
    return float(macs)


def _torchinfo(model: Any, inputs: tuple[Any, ...]) -> float:
    from torchinfo import summary

    return float(summary(model, input_data=inputs, verbose=0).total_mult_adds)


def _torchprofile(model: Any, inputs: tuple[Any, ...]) -> float:
    from torchprofile import profile_macs

    return float(profile_macs(model, inputs))


def _calflops(model: Any, inputs: tuple[Any, ...]) -> float:
    from calflops import calculate_flops

    options = {"print_results": False, "print_detailed": False, "output_as_string": False}
    return float(calculate_flops(model=model, args=list(inputs), **options)[1])


def _flop_counter(model: Any, inputs: tuple[Any, ...]) -> float:
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(*inputs)
    return float(counter.get_total_flops()) / 2


TOOLS: dict[str, Callable[[Any, tuple[Any, ...]], float | None]] = {
    "sizeup": _sizeup,
    "fvcore": _fvcore,
    "thop": _thop,
    "ptflops": lambda model, inputs: _ptflops(model, inputs, "pytorch"),
    "ptflops (aten)": lambda model, inputs: _ptflops(model, inputs, "aten"),
    "torchinfo": _torchinfo,
    "torchprofile": _torchprofile,
    "calflops": _calflops,
    "FlopCounterMode": _flop_counter,
}
_PACKAGES = {"ptflops (aten)": "ptflops", "FlopCounterMode": "torch"}


def reported(tool: str, case: Case) -> str:
    """The share of the true MACs that a tool reports for a network, `unknown`, or the error."""
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            macs = TOOLS[tool](case.make().eval(), case.inputs())
    except Exception as error:
        return type(error).__name__
    if macs is None:
        return "unknown"
    return "exact" if macs == case.macs else f"{100 * macs / case.macs:.5g} %"


def rows() -> Iterator[tuple[str, ...]]:
    """One row per network, and one for the custom operator with a cost rule in sizeup."""
    for case in CASES:
        yield f"`{case.name}`", f"{case.macs:,}", *(reported(tool, case) for tool in TOOLS)

    @sizeup.op_rule("product", torch=["sizeup_tests.product"], weight=1)
    def product(call: sizeup.Call) -> sizeup.Dim:
        """Each output element sums over the last axis of the input."""
        return call.output.elements * call.input(0).shape[-1]

    case = BY_NAME["custom_op"]
    yield (
        f"`{case.name}` with a cost rule",
        f"{case.macs:,}",
        reported("sizeup", case),
        *[""] * (len(TOOLS) - 1),
    )


def main() -> None:
    """Write the table into the page."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    import_torchvision()  # some of the tools import it, and its build may lack operators that it needs
    versions = ", ".join(f"{tool} {version(_PACKAGES.get(tool, tool))}" for tool in TOOLS if tool != "sizeup")
    head = f"{datetime.now(timezone.utc).date()}: {versions}.\n"
    text = head + "".join(table(("network", "MACs", *TOOLS), rows(), "lr" + "r" * len(TOOLS)))
    PAGE.write_text(with_block(PAGE.read_text("utf-8"), "other tools", text), "utf-8")


if __name__ == "__main__":
    main()
