"""All sets, their held-out groups, and the goals for their errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from latency.truth import (
    board_sets,
    cell_sets,
    gemm_sets,
    gpu_networks,
    image_models,
    ncnn_sets,
    ofa_sets,
    own_trace,
)
from latency.truth.judge import Outcome

COVERAGE = (85.0, 95.0)


@dataclass(frozen=True)
class Case:
    """One set with its goals: error in percent, percent within 10 %, rank correlation.

    `missed` has the goals (`error`, `within`, `tau`, `coverage`, `baseline`) that are not reached, and why.
    """

    name: str
    run: Callable[[Path], Outcome]
    error: float | None = None
    within: float | None = None
    tau: float | None = None
    missed: tuple[tuple[str, str], ...] = ()
    tested: bool = True  # False: only in the table, to save time
    needs: Path | None = None  # a file that takes long to make; without it the case is skipped

    def misses(self, goal: str) -> str:
        """Why a goal is not reached; '' if it is."""
        return dict(self.missed).get(goal, "")


@cache
def outcome(case: Case, folder: Path) -> Outcome:
    """The outcome of a case, cached."""
    return case.run(folder)


def _timm(name: str, error: float, missed: tuple[tuple[str, str], ...] = ()) -> Case:
    run = partial(image_models.outcome, name=name)
    return Case(f"timm {name}, family held out", run, error, tau=0.92, missed=missed)


def _own(name: str, error: float, missed: tuple[tuple[str, str], ...] = ()) -> Case:
    run = partial(image_models.outcome, name=name, trace=own_trace.PATH)
    label = f"timm {name}, traced by sizeup, family held out"
    return Case(label, run, error, tau=0.92, missed=missed, needs=own_trace.PATH)


def _kin(name: str) -> Case:
    run = partial(image_models.outcome, name=name, strict=True)
    return Case(f"timm {name}, related families held out", run, tested=False)


def _family(board: str, missed: tuple[tuple[str, str], ...] = ()) -> Case:
    run = partial(board_sets.stm32, board=board, by_family=True)
    return Case(f"{board}, family held out", run, missed=missed)


def _shapes(
    runtime: str, in_shape: float, third: float | None, missed: tuple[tuple[str, str], ...] = ()
) -> list[Case]:
    return [
        Case(
            f"hwnas360 {runtime}, known input shape", partial(cell_sets.in_shape, runtime=runtime), in_shape
        ),
        Case(
            f"hwnas360 {runtime}, unseen input shape",
            partial(cell_sets.third_shape, runtime=runtime),
            third,
            missed=missed,
        ),
    ]


_ALIKE_IN_SIZE = (
    "coverage",
    "62 %: the two shapes of similar size differ by 5 %, which their distance in size does not predict",
)
CASES = [
    _timm("3090 eager", 8.5),
    _timm("4090 eager", 9.5),
    _timm("4090 inductor", 10.0),
    _timm(
        "i9 CPU",
        12.0,
        (("tau", "0.911, and 0.913 with large and small convolutions apart: see docs/latency-model.md"),),
    ),
    _timm("i7 CPU", 9.5),
    _own("3090 eager", 8.5),
    _own("4090 eager", 9.5),
    _own("4090 inductor", 10.0),
    _own(
        "i9 CPU",
        12.0,
        (("tau", "0.906; 0.911 with the table that others traced"),),
    ),
    _own("i7 CPU", 9.5),
    *(_kin(name) for name in image_models.RUNS),
    *_shapes("ONNX Runtime", 1.0, 8.0, (_ALIKE_IN_SIZE,)),
    *_shapes("TorchMobile", 1.2, None),
    *_shapes("LiteRT", 2.2, 3.5),
    *_shapes("Pixel", 3.0, None),
    Case("HELP NB201 GPUs, batch 1", partial(cell_sets.help_cells, group="batch 1"), within=97.0),
    Case("HELP NB201 GPUs, batch 256", partial(cell_sets.help_cells, group="batch 256"), within=97.0),
    Case("HELP NB201 Xeons", partial(cell_sets.help_cells, group="Xeons"), 16.0),
    Case("HELP NB201 Raspberry Pi 4", partial(cell_sets.help_cells, group="Raspberry Pi 4"), 18.0),
    Case("HELP OFA GPUs, batch 1", ofa_sets.outcome, 5.3),
    Case("STM32H747, leave one out", partial(board_sets.stm32, board="STM32H747"), 5.0),
    Case("STM32N6, leave one out", partial(board_sets.stm32, board="STM32N6"), 17.0),
    _family("STM32H747", (("coverage", "63 %: five families, of which mobilenet has most networks"),)),
    _family("STM32N6"),
    Case("ncnn CPU, unseen network", partial(ncnn_sets.unseen_network, runtime="ncnn-cpu"), 25.0),
    Case("ncnn CPU, new device with ten measurements", ncnn_sets.new_device, 15.0),
    Case("ncnn Vulkan, unseen network", partial(ncnn_sets.unseen_network, runtime="ncnn-vulkan")),
    Case(
        "MLPerf Tiny, Cortex-M without accelerator, known runtime",
        lambda folder: board_sets.unseen_boards(folder).plain,
        18.0,
    ),
    Case("MLPerf Tiny, all processors", lambda folder: board_sets.unseen_boards(folder).all, 33.0),
    Case(
        "MLPerf Tiny, one measurement on the device",
        lambda folder: board_sets.unseen_boards(folder).anchored,
        15.0,
    ),
    Case("Vidur GEMM A100, unseen LLMs", partial(gemm_sets.outcome, gpu="a100"), 6.5),
    Case("Vidur GEMM A40, unseen LLMs", partial(gemm_sets.outcome, gpu="a40"), 8.0),
    Case("Vidur GEMM H100, unseen LLMs", partial(gemm_sets.outcome, gpu="h100"), 10.0),
    Case("NeuSight GPUs, network held out", gpu_networks.network_held_out, 9.4, within=68.0),
    Case(
        "NeuSight GPUs, timed operators only",
        gpu_networks.operators_alone,
        9.4,
        missed=(
            ("error", "11.6 %: on AMD's cards, a third of the cases, no product was timed; 8.0 % on others"),
            (
                "coverage",
                "96 %: errors of a card go together, and ten cards make the interval a little too wide",
            ),
        ),
    ),
    Case("NeuSight GPUs, card held out", partial(gpu_networks.operators_alone, splits=()), tested=False),
]
