"""Files of accuracy, good, wrong and hostile."""

from __future__ import annotations

from pathlib import Path

import pytest

import sizeup
from precision.test_assign import block
from sizeup.errors import SizeupError
from sizeup.mixed_precision.accuracy import read_accuracy


def test_a_file_gives_accuracy_by_precision_and_size(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(
        "\ufeffsize, precision ,accuracy,note\r\n,fp32,0.9,\r\n8,int8,0.7,x\r\n,int8,,\r\n\r\n", "utf-8"
    )
    accuracy = read_accuracy(path)
    assert accuracy.shares == {("fp32", None): 0.9, ("int8", 8): 0.7}
    points = sizeup.precision.tradeoff(block(), precisions=("fp32", "int8"), accuracy=path)
    assert [each.accuracy for each in points.points] == [0.9, None]
    assert ("caveat", "accuracy is unknown for int8") in list(points.provenance())


def test_the_table_that_was_written_is_such_a_file(tmp_path: Path) -> None:
    first = sizeup.precision.tradeoff(
        block(), precisions=("fp32", "int8"), accuracy={"fp32": 0.5, "int8": 0.25}
    )
    first.save(tmp_path / "table.csv")
    assert read_accuracy(tmp_path / "table.csv").shares == {("fp32", None): 0.5, ("int8", None): 0.25}


OLDER_TABLE = b"""precision,accuracy_mean,latency_ms_mean,memory_mb_mean,energy_proxy_j_mean,accepted_ratio
int8,0.5,1.5,2.0,0.1,1.0
fp32,0.75,4.0,8.0,0.4,0.5
"""
OLDER_SWEEP = b"""precision,accuracy,latency_ms,memory_mb,energy_proxy_j,accepted
fp32,0.5,4,8,0.4,True
fp32,1.0,4,8,0.4,False
int8,0.5,1,2,0.1,True
"""


@pytest.mark.parametrize("content", [OLDER_TABLE, OLDER_SWEEP], ids=["means", "sweep"])
def test_tables_of_the_older_hardware_module_give_accuracy(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "precision_tradeoffs.csv"
    path.write_bytes(content)
    assert read_accuracy(path).shares == {("fp32", None): 0.75, ("int8", None): 0.5}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no column 'precision'"),
        (b"precision,acc\nfp32,1\n", "no column 'accuracy'"),
        (b"precision,precision,accuracy\na,b,1\n", "more than one column 'precision'"),
        (b"precision,accuracy\n", "no accuracy in any row"),
        (b"precision,accuracy\nfp32,\n", "no accuracy in any row"),
        (b"precision,accuracy\nfp32,98.5\n", "line 2: accuracy '98.5' is not a number from 0 to 1"),
        (b"precision,accuracy\nfp32,nan\n", "is not a number from 0 to 1"),
        (b"precision,accuracy\nfp32,-0.1\n", "is not a number from 0 to 1"),
        (b"precision,accuracy\nfp33,0.5\n", "line 2: unknown precision 'fp33'"),
        (b"precision,accuracy\nfp32,0.5\nfp32,0.6\n", "line 3: fp32 already has the accuracy 0.5"),
        (b"precision,accuracy\nfp32\n", "line 2: 1 cells, but 2 columns"),
        (b"precision,accuracy,size\nfp32,0.5,big\n", "size 'big' is not an input size"),
        (b"precision,accuracy,size\nfp32,0.5," + b"9" * 5000 + b"\n", "size '9999"),
        (b'precision,accuracy\n"fp32,0.5\n', "not a CSV file"),
        (b"precision,accuracy\n" + b"x" * 200_000 + b",1\n", "not a CSV file: field larger"),
        (b"\xff\xfe\x00", "not UTF-8"),
        (b"precision,accuracy\n" + b"fp32,0.5\n" * 200_000, "larger than 1 MiB"),
    ],
    ids=range(17),
)
def test_a_wrong_file_is_refused_in_one_line(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(content)
    with pytest.raises(SizeupError, match=message) as caught:
        read_accuracy(path)
    assert len(str(caught.value).splitlines()) == 1
    assert len(str(caught.value)) < 400


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SizeupError, match="cannot be read"):
        read_accuracy(tmp_path)
    with pytest.raises(SizeupError, match=r"missing.csv: no such file"):
        read_accuracy(tmp_path / "missing.csv")


def test_accuracy_is_measured_or_given() -> None:
    with pytest.raises(SizeupError, match="give either data or accuracy, not both"):
        sizeup.precision.tradeoff(block(), data=[1], accuracy={"fp32": 1.0})
    with pytest.raises(SizeupError, match="needs a target"):
        sizeup.precision.tradeoff(block(), latency="1 ms")
