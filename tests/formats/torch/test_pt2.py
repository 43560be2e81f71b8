"""Reading .pt2 files without torch.export.load gives the same graph as torch's loader."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from torch._export.serde.serialize import serialize

import sizeup
from exported_programs import SAMPLES, Sample, Tied, export
from sizeup.graph import Graph
from sizeup.symbolic import first_difference


def _written(sample: Sample, path: Path) -> torch.export.ExportedProgram:
    program = export(sample)
    torch.export.save(program, path)
    return program


def _accesses(graph: Graph) -> list[list[int]]:
    cost = sizeup.count(graph)
    return [column.tolist() for each in (cost.reads, cost.writes) for column in (each.first, each.bytes_at())]


@pytest.mark.filterwarnings("ignore")  # torch warns during export and load
@pytest.mark.parametrize("name", SAMPLES)
def test_the_graph_is_that_of_torchs_own_loader(name: str, tmp_path: Path) -> None:
    sample, path = SAMPLES[name], tmp_path / f"{name}.pt2"
    _written(sample, path)
    bind = dict(sample.bind)
    ours, theirs = sizeup.load(path, bind=bind), sizeup.load(torch.export.load(path), bind=bind)
    assert first_difference(ours, theirs) is None  # kinds, inputs, outputs, attributes, shapes, storages
    assert [(op.name, op.scope) for op in ours.ops] == [(op.name, op.scope) for op in theirs.ops]
    mine, other = sizeup.analyze(ours), sizeup.analyze(theirs)
    assert mine.totals == other.totals
    assert mine.memory.peak_bytes == other.memory.peak_bytes
    assert _accesses(ours) == _accesses(theirs)


def test_there_are_at_least_sixty_programs() -> None:
    assert len(SAMPLES) >= 60


def test_numbers_of_weights_are_read_from_the_file(tmp_path: Path) -> None:
    path = tmp_path / "tied.pt2"
    program = _written(Sample(Tied, (torch.zeros(1, 3, dtype=torch.int64),)), path)
    graph = sizeup.load(path)
    constants = {each.name: each.data for each in graph.tensors if each.data is not None}
    read = constants["embedding.weight"].read
    assert read is not None
    np.testing.assert_array_equal(read(), program.state_dict["embedding.weight"].detach().numpy())


def test_an_archive_of_an_older_torch_is_read_with_a_caveat(tmp_path: Path) -> None:
    program = export(SAMPLES["residual"])
    artifact = serialize(program)
    path = tmp_path / "older.pt2"
    with zipfile.ZipFile(path, "w") as archive:  # as torch 2.7 wrote it
        archive.writestr("version", "8.8")
        archive.writestr("serialized_exported_program.json", artifact.exported_program)
        archive.writestr("serialized_state_dict.pt", artifact.state_dict)
        archive.writestr("serialized_constants.pt", artifact.constants)
    graph = sizeup.load(path)
    assert first_difference(graph, sizeup.load(program)) is None
    assert any("torch 2.7 or older" in note for note in graph.notes)


def test_a_custom_operator_is_an_unknown_row_with_the_shapes_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "custom.pt2"
    _written(SAMPLES["case_custom_op"], path)
    graph = sizeup.load(path)
    cost = sizeup.count(graph)
    unknown = [op for op, known in zip(graph.ops, cost.known, strict=True) if not known]
    assert len(unknown) == 1
    assert graph.tensors[unknown[0].outputs[0]].shape == (1, 128, 256)


def test_several_programs_in_one_archive_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "two.pt2"
    content = io.BytesIO()
    torch.export.save(export(SAMPLES["residual"]), content)
    with zipfile.ZipFile(content) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
            if name.endswith("models/model.json"):
                new.writestr(name.replace("model.json", "other.json"), old.read(name))
    with pytest.raises(sizeup.LoadError, match="2 programs"):
        sizeup.load(path)
