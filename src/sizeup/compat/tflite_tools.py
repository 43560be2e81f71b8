"""The face of tflite-tools: a .tflite file's tensors, its schedule and its peak; a better order of operators.

    python -m sizeup.compat.tflite_tools -i model.tflite -o smaller.tflite --optimize

Every tensor counts as memory of its own, as there; weights do not. Unlike the original it reads int8, int4
and floats, operators of several outputs, tensors without names and branches that lead nowhere, and a
rewritten file was run against the original in a real runtime.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path

from sizeup import memory
from sizeup.api import analyze as analyze_api
from sizeup.api import models as api
from sizeup.api import plan as plan_api
from sizeup.compat.networks import centred
from sizeup.csv_cells import csv_lines
from sizeup.errors import SizeupError
from sizeup.files import is_file, write_bytes, write_text
from sizeup.graph import Graph, Tensor
from sizeup.render import plots
from sizeup.render.console.layout import leaving_quietly

_LONGEST_NAME = 80
_OPTIMAL = "The model already has optimal operator order."


@dataclass(frozen=True, slots=True)
class Step:
    """One operator of the schedule: the tensors in memory while it runs, and their bytes."""

    name: str
    working_set: tuple[int, ...]
    bytes: int


class TFLiteModel:
    """A model file in memory, to be looked at, reordered, clustered and written."""

    def __init__(self, model_bytes: bytes | bytearray) -> None:
        self._change_to(bytes(model_bytes))
        self._source: Path | None = None

    @classmethod
    def load_from_file(cls, model_path: str | PathLike[str]) -> TFLiteModel:
        """The model of a .tflite file."""
        model = cls(Path(model_path).read_bytes())
        model._source = Path(model_path)
        return model

    def write_to_file(self, output_path: str | PathLike[str]) -> None:
        """Write the model as it is now."""
        like = self._source if self._source is not None and is_file(self._source) else None
        write_bytes(output_path, self.model_bytes, like=like)

    def cluster_weights(self, weight_clusters: int) -> None:
        """Leave at most so many values in every weight; biases stay as they are."""
        print(f"Clustering weights into {weight_clusters} clusters...")
        self._rewrite(reorder=False, cluster=weight_clusters)

    def optimize_memory(self) -> None:
        """Bring the operators into the order with the least peak, where there is a better one."""
        before = self.peak_memory_usage()
        self._rewrite(reorder=True)
        if self.peak_memory_usage() >= before:
            print(_OPTIMAL)

    def peak_memory_usage(self) -> int:
        """The most bytes of tensors in memory at once, in the file's order."""
        return max((step.bytes for step in self.schedule()), default=0)

    def compute_best_peak_memory_usage(self) -> tuple[int, list[int]]:
        """The least peak of any order, and that order: the operators by their numbers in the file."""
        found = memory.best_schedule(memory.problem_of(self.graph, aliases=False))
        return found.peak_bytes, list(found.ops)

    def print_model_analysis(self) -> None:
        """Print the tensors, the schedule and the peak."""
        print("Tensor information (weights excluded):")
        tensors = [
            (identity, _short(tensor.name), tuple(tensor.shape or ()), f"{size:,}")
            for identity, tensor, size in self.tensors()
        ]
        print(centred(("Id", "Tensor", "Shape", "Size in RAM (B)"), tensors, ("Id", "Size in RAM (B)")))
        print()
        print("Operator execution schedule:")
        steps = [(_short(step.name), list(step.working_set), f"{step.bytes:,}") for step in self.schedule()]
        headers = ("Operator (output name)", "Tensors in memory (IDs)", "Memory use (B)")
        print(centred(headers, steps, ("Memory use (B)",)))
        print(f"Current peak memory usage: {self.peak_memory_usage():,} B")
        self._print_shared()
        print()

    def output_model_analysis_to_csv(
        self, output_folder: str | PathLike[str], *, raw_csv: bool = False
    ) -> None:
        """Write tensor_details.csv and execution_schedule_info.csv into a folder, which is made.

        `raw_csv` leaves names as they are that a spreadsheet would take for formulas.
        """
        folder = Path(output_folder)
        details = [
            (identity, tensor.name, " ".join(map(str, tensor.shape or ())), size)
            for identity, tensor, size in self.tensors()
        ]
        headers = ("Id", "Name", "Shape", "Size")
        _write_csv(folder / "tensor_details.csv", headers, details, raw_csv)
        schedule = [(step.name, " ".join(map(str, step.working_set)), step.bytes) for step in self.schedule()]
        columns = ("Operator", "Working set", "Memory use")
        _write_csv(folder / "execution_schedule_info.csv", columns, schedule, raw_csv)

    def plot_memory_usage(self, plot_file: str | PathLike[str]) -> None:
        """Draw memory by operator as stacked bars: its inputs, its outputs, other tensors."""
        plots.plot(analyze_api.analyze(self.graph), plot_file, "memory")

    @cached_property
    def graph(self) -> Graph:
        """What sizeup reads from the file."""
        return api.load(self.model_bytes)

    def tensors(self) -> list[tuple[int, Tensor, int]]:
        """Number, tensor and bytes of all that takes memory beside the weights."""
        place = memory.buffer_liveness(self.graph, aliases=False).buffer_of_tensor
        return [
            (identity, tensor, memory.tensor_bytes(tensor))
            for identity, tensor in enumerate(self.graph.tensors)
            if place[identity] >= 0 and memory.tensor_bytes(tensor)
        ]

    def schedule(self) -> list[Step]:
        """The operators in the file's order, each with what is in memory while it runs."""
        graph = self.graph
        buffers = memory.buffer_liveness(graph, aliases=False)
        live = buffers.live_bytes().tolist()
        return [
            Step(_output_name(graph, index), _working_set(buffers, index), live[index])
            for index in range(len(graph.ops))
        ]

    def _print_shared(self) -> None:
        """Say what the peak is where outputs that only rename their input take no memory of their own."""
        shared = memory.usage(self.graph).peak_bytes
        if shared < self.peak_memory_usage():
            print(f"Note: {shared:,} B where a reshape shares the bytes of its input, as runtimes allow.")

    def _rewrite(self, *, reorder: bool, cluster: int | None = None) -> None:
        with tempfile.TemporaryDirectory() as folder:
            before, after = Path(folder, "before.tflite"), Path(folder, "after.tflite")
            before.write_bytes(self.model_bytes)
            plan_api.optimize(before, after, reorder=reorder, plan=False, cluster=cluster)
            self._change_to(after.read_bytes())

    def _change_to(self, model_bytes: bytes) -> None:
        self.model_bytes = model_bytes
        self.__dict__.pop("graph", None)


def _working_set(buffers: memory.Buffers, step: int) -> tuple[int, ...]:
    held = (buffer for buffer in buffers.live_at(step) if buffers.size[buffer])
    return tuple(sorted(identity for buffer in held for identity in buffers.tensors[buffer]))


def _output_name(graph: Graph, index: int) -> str:
    outputs = graph.ops[index].outputs
    name = graph.tensors[outputs[0]].name if outputs else ""
    return name or f"(operator {index})"


def _short(name: str) -> str:
    if len(name) <= _LONGEST_NAME:
        return name
    left = (_LONGEST_NAME - 3) // 2
    return f"{name[:left]}...{name[left - _LONGEST_NAME + 3 :]}"


def _write_csv(path: Path, headers: Sequence[str], rows: Sequence[Sequence[object]], raw: bool) -> None:
    write_text(path, csv_lines(headers, rows, raw=raw, end="\r\n"), make_folder=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tflite_tools.py", description="TFLite model analyser & memory optimizer"
    )
    parser.add_argument("-i", dest="input_path", required=True, help="input model file (.tflite)")
    parser.add_argument("-o", dest="output_path", help="output model file (.tflite)")
    parser.add_argument(
        "--clusters",
        type=int,
        default=0,
        help="cluster weights into n-many values (simulate code-book quantization)",
    )
    parser.add_argument("--optimize", action="store_true", help="optimize peak working set size")
    parser.add_argument(
        "--csv",
        dest="csv_output_folder",
        help="output model analysis in CSV format into the specified folder",
    )
    parser.add_argument("--raw-csv", action="store_true", help="do not neutralize formulas in CSV cells")
    parser.add_argument(
        "--plot", dest="plot_file", help="plot memory usage for each operator during the execution"
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command as the original did; what cannot be done is said in one line."""
    parser = _parser()
    given = parser.parse_args(arguments)
    try:
        with leaving_quietly():
            _run(given)
    except (OSError, SizeupError) as error:
        parser.error(str(error))


def _run(given: argparse.Namespace) -> None:
    model = TFLiteModel.load_from_file(given.input_path)
    if given.optimize:
        print("Optimizing peak memory usage...")
        model.optimize_memory()
    if given.csv_output_folder:
        print(f"Writing model analysis to {given.csv_output_folder} in CSV format")
        model.output_model_analysis_to_csv(given.csv_output_folder, raw_csv=given.raw_csv)
    else:
        model.print_model_analysis()
    if given.clusters > 0:
        model.cluster_weights(given.clusters)
    if given.plot_file:
        print(f"Plotting operator memory usage to {given.plot_file}")
        model.plot_memory_usage(given.plot_file)
    if given.output_path:
        print(f"Saving the model to {given.output_path}...")
        model.write_to_file(given.output_path)


if __name__ == "__main__":
    main()
