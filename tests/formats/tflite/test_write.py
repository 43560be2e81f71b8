"""Changed files against LiteRT's own object API and interpreter: only the requested changes."""

from __future__ import annotations

import io
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter
from hypothesis import given, settings
from hypothesis import strategies as st

from formats.tflite.factory import File, options
from sizeup.errors import CorruptModel, WriteError
from sizeup.formats import tflite
from sizeup.formats.tflite.schema import PLAN
from sizeup.formats.tflite.write import external_files, rewrite, tensor_buffers

FILES = (
    *("mlperf_ad01_int8", "mlperf_kws_int8", "mlperf_resnet_large_int8", "mlperf_vww96_int8"),
    *("mp_face_detection_full_range_sparse", "mp_hand_recrop", "mp_selfie_segmentation", "pmw_alexa"),
    *("swiftnet_vww_uint8", "te_persondet", "tflm_audio_preproc_int8", "tflm_dtln", "tflm_hello_int8"),
)


def plain(table: Any) -> Any:
    """All fields of a file as plain data."""
    if hasattr(table, "__dict__"):
        return {name: plain(value) for name, value in vars(table).items()}
    if isinstance(table, np.ndarray):
        return table.tolist()
    return [plain(each) for each in table] if isinstance(table, list) else table


def fields_of(content: bytes) -> dict[str, Any]:
    fields: dict[str, Any] = plain(schema.ModelT.InitFromPackedBuf(content, 0))
    return fields


def plan_of(content: bytes) -> list[int] | None:
    model = schema.Model.GetRootAs(content)
    for index in range(model.MetadataLength()):
        if model.Metadata(index).Name() == PLAN.encode():
            numbers = model.Buffers(model.Metadata(index).Buffer()).DataAsNumpy().tobytes()
            return list(struct.unpack(f"<{len(numbers) // 4}i", numbers))
    return None


def buffer_positions(content: bytes) -> list[int]:
    """The file position of the data of each buffer."""
    model = schema.Model.GetRootAs(content)
    positions = []
    for index in range(model.BuffersLength()):
        buffer = model.Buffers(index)
        if buffer.DataLength():
            field = schema.flatbuffers.number_types.UOffsetTFlags.py_type(buffer._tab.Offset(4))
            positions.append(buffer._tab.Vector(field))
        else:
            positions.append(0)
    return positions


def read(shared: Path, name: str) -> bytes:
    return (shared / "models" / f"{name}.tflite").read_bytes()


@pytest.mark.parametrize("name", FILES)
def test_a_plan_is_added_and_nothing_else_changes(shared: Path, name: str) -> None:
    old = read(shared, name)
    before = fields_of(old)
    counts = [len(graph["tensors"]) for graph in before["subgraphs"]]
    offsets = [16 * index for index in range(counts[0])]
    new = rewrite(old, offline_offsets=offsets)
    after = fields_of(new)
    assert plan_of(new) == [0, len(counts), sum(counts), *offsets, *[-1] * (sum(counts) - counts[0])]
    assert after["metadata"].pop() == {"name": PLAN.encode(), "buffer": len(before["buffers"])}
    after["buffers"].pop()
    assert after == {**before, "metadata": before["metadata"] or []}


@pytest.mark.parametrize("name", FILES)
def test_the_old_file_follows_byte_for_byte_on_its_old_alignment(shared: Path, name: str) -> None:
    old = read(shared, name)
    new = rewrite(old, offline_offsets=[-1] * len(tflite.load(old).tensors))
    archive = [place for mark in (b"PK\x03\x04", b"PK\x05\x06") if (place := old.find(mark)) >= 0]
    end = min(archive, default=len(old))
    shift = len(new) - len(old)
    assert new[shift + 8 : shift + end] == old[8:end]
    assert shift % 16 == 0
    assert [place % 16 for place in buffer_positions(new)[:-1]] == [
        place % 16 for place in buffer_positions(old)
    ]
    assert buffer_positions(new)[-1] % 16 == 0


def test_an_archive_behind_the_file_is_moved_along(shared: Path) -> None:
    old = read(shared, "mp_selfie_segmentation")
    new = rewrite(old, offline_offsets=[-1] * len(tflite.load(old).tensors))
    for content in (old, new):
        end = content.rfind(b"PK\x05\x06")
        entries, _, directory = struct.unpack_from("<HII", content, end + 10)
        assert entries == 1
        assert content[directory : directory + 4] == b"PK\x01\x02"
        (first,) = struct.unpack_from("<I", content, directory + 42)
        assert content[first : first + 4] == b"PK\x03\x04"
    names = [zipfile.ZipFile(io.BytesIO(content)).namelist() for content in (old, new)]
    assert names[0] == names[1]
    contents = [zipfile.ZipFile(io.BytesIO(content)).read(names[0][0]) for content in (old, new)]
    assert contents[0] == contents[1]


@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_any_order_is_written_and_can_be_taken_back(shared: Path, data: st.DataObject) -> None:
    old = read(shared, "mlperf_kws_int8")
    before = fields_of(old)
    order = data.draw(st.permutations(range(len(before["subgraphs"][0]["operators"]))))
    new = rewrite(old, schedule=order)
    after = fields_of(new)
    assert after["subgraphs"][0]["operators"] == [before["subgraphs"][0]["operators"][i] for i in order]
    after["subgraphs"][0]["operators"] = before["subgraphs"][0]["operators"]
    assert after == before
    assert len(new) == len(old)
    inverse = [order.index(index) for index in range(len(order))]
    assert rewrite(new, schedule=inverse) == old


def test_a_plan_replaces_the_one_that_was_there(shared: Path) -> None:
    old = read(shared, "tflm_person_detect_vela")
    before = plan_of(old)
    assert before is not None
    new = rewrite(old, offline_offsets=[-1, -1, -1, 32, 64, 96])
    assert len(new) == len(old)
    assert plan_of(new) == [0, 1, 6, -1, -1, -1, 32, 64, 96]
    assert rewrite(new, offline_offsets=before[3:]) == old


def test_a_new_order_takes_the_offsets_of_an_old_plan_away(shared: Path) -> None:
    old = rewrite(read(shared, "mlperf_kws_int8"), offline_offsets=[0] * 35)
    new = rewrite(old, schedule=range(13))
    assert plan_of(new) == [0, 1, 35, *[-1] * 35]


def test_a_buffer_is_replaced_in_place(shared: Path) -> None:
    old = read(shared, "mlperf_resnet8_int8")
    before = fields_of(old)
    index = max(range(len(before["buffers"])), key=lambda each: len(before["buffers"][each]["data"] or []))
    data = bytes(range(256)) * (len(before["buffers"][index]["data"]) // 256)
    new = rewrite(old, buffers={index: data})
    before["buffers"][index]["data"] = list(data)
    assert fields_of(new) == before
    assert len(new) == len(old)


def test_a_longer_buffer_goes_to_the_front(shared: Path) -> None:
    old = read(shared, "mlperf_resnet8_int8")
    new = rewrite(old, buffers={3: b"x" * 1001})
    after = fields_of(new)
    assert bytes(after["buffers"][3]["data"]) == b"x" * 1001
    after["buffers"][3] = fields_of(old)["buffers"][3]
    assert after == fields_of(old)
    assert buffer_positions(new)[3] % 16 == 0


def multiplication() -> File:
    """Two products, each with its own stored weights."""
    file = File()
    data = file.main.tensor("data", (1, 4))
    generator = np.random.default_rng(0)
    for number in range(2):
        weights = generator.normal(size=(4, 4)).astype(np.float32)
        output = file.main.tensor(f"made{number}", (1, 4))
        file.main.op(
            "FULLY_CONNECTED",
            [data, file.main.tensor(f"weights{number}", (4, 4), data=weights), -1],
            [output],
            options("FullyConnectedOptions"),
        )
        data = output
    file.main.ends([0], [data])
    return file


def stored_outside(file: File) -> bytes:
    """The file with the data of its buffers behind its tables, as files beyond 2 GiB have it."""
    contents = {
        index: bytes(each.data) for index, each in enumerate(file.model.buffers) if each.data is not None
    }
    for index in contents:
        each = file.model.buffers[index]
        each.data, each.offset, each.size = None, 1 << 20, len(contents[index])
    length = -(-len(file.pack()) // 64) * 64
    end = length
    for index, data in contents.items():
        file.model.buffers[index].offset = end
        end += -(-len(data) // 64) * 64
    packed = file.pack().ljust(length, b"\0")
    for data in contents.values():
        packed += data.ljust(-(-len(data) // 64) * 64, b"\0")
    return packed


def computed(content: bytes) -> Any:
    interpreter = Interpreter(model_content=content)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], np.ones((1, 4), np.float32))
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"]).tolist()


def test_data_stored_by_its_place_in_the_file_is_moved_along() -> None:
    inside = multiplication().pack()
    outside = stored_outside(multiplication())
    assert len(outside) > len(inside)
    assert computed(outside) == computed(inside)
    new = rewrite(outside, offline_offsets=[-1] * 5)
    assert plan_of(new) is not None
    assert computed(new) == computed(inside)
    model = schema.Model.GetRootAs(new)
    offsets = [model.Buffers(index).Offset() for index in range(model.BuffersLength())]
    assert [offset % 64 for offset in offsets if offset > 1] == [0, 0]
    assert [bytes(data) for _, data in tensor_buffers(new)] == [
        bytes(data) for _, data in tensor_buffers(inside)
    ]


def test_data_stored_by_its_place_is_replaced_there() -> None:
    outside = stored_outside(multiplication())
    index, data = tensor_buffers(outside)[2]
    doubled = (2 * np.frombuffer(data, np.float32)).tobytes()
    new = rewrite(outside, buffers={index: doubled})
    assert len(new) == len(outside)
    assert computed(new) == [pytest.approx([2 * each for each in computed(outside)[0]])]


def test_large_custom_options_are_moved_along() -> None:
    file = File()
    data, output = file.main.tensor("data", (4,)), file.main.tensor("made", (4,))
    file.main.op("MyOwn", [data], [output], largeCustomOptionsOffset=1 << 20, largeCustomOptionsSize=5)
    file.main.ends([data], [output])
    place = len(file.pack())
    file.main.table.operators[0].largeCustomOptionsOffset = place
    old = file.pack() + b"HELLO"
    new = rewrite(old, offline_offsets=[-1, -1])
    operator = schema.Model.GetRootAs(new).Subgraphs(0).Operators(0)
    begin = operator.LargeCustomOptionsOffset()
    assert begin > place
    assert new[begin : begin + operator.LargeCustomOptionsSize()] == b"HELLO"


def test_bytes_that_two_buffers_share_change_for_one_of_them_only() -> None:
    file = multiplication()
    content = bytearray(file.pack())
    model = schema.Model.GetRootAs(content)
    # Let the entry of the second weight refer to the table of the first.
    vector = model._tab.Vector(model._tab.Offset(4 + 2 * 4))
    first = vector + 4 + struct.unpack_from("<I", content, vector + 4)[0]
    struct.pack_into("<I", content, vector + 8, first - (vector + 8))
    shared = bytes(content)
    first_weight, second_weight = (bytes(tensor_buffers(shared)[tensor][1]) for tensor in (2, 4))
    assert first_weight == second_weight != b""
    new = rewrite(shared, buffers={1: bytes(64)})
    assert bytes(tensor_buffers(new)[2][1]) == bytes(64)
    assert bytes(tensor_buffers(new)[4][1]) == second_weight


def test_files_with_weights_elsewhere_are_named() -> None:
    file = multiplication()
    assert external_files(file.pack()) == []
    group = schema.ExternalBufferGroupT()
    group.name = "weights.bin"
    file.model.externalBufferGroups = [group]
    assert external_files(file.pack()) == ["weights.bin"]


@pytest.mark.parametrize("order", [[0], [0, 0], [1, 2], [0, 1, 2]])
def test_an_order_that_is_none_is_refused(order: list[int]) -> None:
    with pytest.raises(WriteError, match="must contain each of them once"):
        rewrite(multiplication().pack(), schedule=order)


def test_offsets_for_other_tensors_are_refused() -> None:
    with pytest.raises(WriteError, match="3 offsets for 5 tensors"):
        rewrite(multiplication().pack(), offline_offsets=[0, 0, 0])


@pytest.mark.parametrize("index", [0, 3, -1])
def test_a_buffer_that_is_not_there_is_refused(index: int) -> None:
    with pytest.raises(WriteError, match="no buffer"):
        rewrite(multiplication().pack(), buffers={index: b""})


def test_compiled_code_at_a_fixed_place_is_not_moved() -> None:
    file = File()
    data, output = file.main.tensor("data", (4,)), file.main.tensor("made", (4,))
    file.main.op("DISPATCH_OP", [data], [output])
    file.main.ends([data], [output])
    assert rewrite(file.pack(), schedule=[0]) == file.pack()
    with pytest.raises(WriteError, match="fixed offset"):
        rewrite(file.pack(), offline_offsets=[-1, -1])


def test_what_is_no_tflite_file_is_refused() -> None:
    with pytest.raises(WriteError, match="not a TFLite file"):
        rewrite(b"\x08\0\0\0NOPE" + bytes(100), schedule=[0])
    with pytest.raises(CorruptModel, match="damaged"):
        rewrite(multiplication().pack()[:40], schedule=[0, 1])
