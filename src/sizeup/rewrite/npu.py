"""Writes the file that Vela compiles for the Ethos-U of a target."""

from __future__ import annotations

from pathlib import Path

from sizeup.backends.tflm.kernels import ETHOS_U
from sizeup.errors import WriteError
from sizeup.files import write_bytes
from sizeup.formats import files, tflite
from sizeup.memory.schedule import peak_bytes
from sizeup.rewrite.result import Footprint, Optimization, OptimizeOptions
from sizeup.runtimes.vela import compile_for_npu, options_for
from sizeup.targets import Target

_NOT_RUN = "outputs were not compared: this machine has no Ethos-U"


def optimize(source: Path, out: Path, options: OptimizeOptions, target: Target) -> Optimization:
    """Write the compiled file; raises WriteError if there is none, or if another change is requested."""
    if options.cluster is not None or options.pack:
        raise WriteError(f"--cluster and --pack are not possible on {target.name}: Vela encodes the weights")
    vela_options = options_for(target)
    if vela_options is None:
        raise WriteError(f"{target.name}: Vela has no accelerator {target.units[0].name}")
    graph = tflite.load(source)
    if any(op.source == ETHOS_U for op in graph.ops):
        raise WriteError(f"{source}: the file is compiled by Vela already; start from the original file")
    compilation = compile_for_npu(source, vela_options)
    if not compilation.npu_ops:
        raise WriteError(f"{source}: not an NPU model: Vela leaves all operators to the CPU; quantize it")
    write_bytes(out, compilation.content, like=source)
    before = Footprint(peak_bytes(graph), source.stat().st_size, files.gzip_bytes(source.read_bytes()))
    after = Footprint(None, len(compilation.content), files.gzip_bytes(compilation.content))
    return Optimization(
        graph.name,
        graph.format,
        out,
        before,
        after,
        changed=True,
        ops=len(graph.ops),
        notes=(_NOT_RUN,),
        target=target,
        compilation=compilation,
    )
