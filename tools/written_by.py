"""Keeps the files that this version writes for the sample model, for the tests of later versions.

    python tools/written_by.py          # once per release; writes tests/written_by/VERSION

`tests/test_compatibility.py` reads the files of all versions with today's code. Files of a version that was
released are not written again.
"""

from __future__ import annotations

import os
import shutil
from importlib.resources import files
from pathlib import Path

import sizeup

FOLDER = Path(__file__).resolve().parent.parent / "tests" / "written_by"
# Schemas by their packages.
SCHEMAS = {"schema.json": "sizeup.render.data", "llm_schema.json": "sizeup.serving.render"}
ANALYZED = "stm32l4r5zi"  # its latency of the sample has all parts
CHECKED = "stm32f746"
BUDGETS = f"""\
[[budget]]
models = ["*.tflite"]
target = "{CHECKED}/tflm"
growth = {{ macs = "5%", arena = "0%" }}
"""
SWEEP = {
    "targets": ["rpi5/litert", f"{CHECKED}/tflm-cmsis-nn"],
    "precisions": ["stored", "int8"],
    "models": ["sample.tflite"],
}


def write(folder: Path) -> None:
    """Writes JSON, baselines, a precision map, a store of a sweep, and the JSON Schemas."""
    folder.mkdir(parents=True)
    for name, package in SCHEMAS.items():
        shutil.copy(str(files(package) / name), folder)
    before = Path.cwd()
    os.chdir(folder)  # the files name the model by its path
    try:
        shutil.copy(str(files("sizeup.cli") / "sample.tflite"), ".")
        sizeup.analyze("sample.tflite", target=ANALYZED).save("analyze.json")
        sizeup.plan("sample.tflite").save("plan.json")
        sizeup.check("sample.tflite", target=CHECKED, run=False, remedies=False).save("check.json")
        sizeup.precision.choose("sample.tflite").save("map.json")
        sizeup.sweep(SWEEP, "store", in_process=True)
        Path("budgets.toml").write_text(BUDGETS, "utf-8")
        sizeup.check_budgets("budgets.toml", update_baselines=True)
        for name in ("budgets.toml", "sample.tflite", "store/.lock"):
            Path(name).unlink()
        shutil.rmtree("store/log")
    finally:
        os.chdir(before)


if __name__ == "__main__":
    out = FOLDER / sizeup.__version__
    if out.exists():
        raise SystemExit(f"{out} exists: remove it to write it again before the release")
    write(out)
    print(out)
