"""The recipes of CONTRIBUTING.md as edits of a copy of the tree, with what notices a mistake in each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_OPERATOR = "LSH_PROJECTION"  # in the schema of TFLite, without a rule; the recipe calls it elementwise


@dataclass(frozen=True)
class Edit:
    """A text that is added to a file of the tree, which may be new, after another text or at the end."""

    path: str
    text: str
    after: str = ""

    def apply(self, root: Path) -> None:
        """Edit the copy of the tree in a folder."""
        path = root / self.path
        path.parent.mkdir(parents=True, exist_ok=True)
        before = path.read_text("utf-8") if path.exists() else ""
        assert before.count(self.after) == 1 or not self.after, (self.path, self.after)
        start, anchor, end = before.partition(self.after) if self.after else (before, "", "")
        path.write_text(start + anchor + self.text + end, "utf-8")


@dataclass(frozen=True)
class Recipe:
    """A task, the edits that do it, and a program that uses the result and prints what was expected.

    With `mistake` in place of the edit of the same file, the command `notice` fails and prints `noticed`.
    """

    section: str  # of CONTRIBUTING.md
    files: int
    edits: Sequence[Edit]
    use: str
    expected: str
    mistake: Edit
    notice: Sequence[str]
    noticed: str


_USE = ("-c", "@use")  # the program of the recipe itself
_BOARD = """
[[board]]
name = "our-board"
title = "Our board"
device = "nrf52840"
source = "derived: an example"
reserve = { ram = "32 KiB", source = "derived: an example", note = "the application" }
"""
_GPU = """
[[device]]
name = "our-gpu"
title = "Our GPU"
like = "v100-pcie"
memories = [{ name = "HBM2", role = "ram", size = "24 GiB", bandwidth = "900 GB/s" }]
"""
_FIT = """
[[fit]]
name = "rpi5/ort"
precisions = ["fp32"]
measurements = 40
error = 0.1
held_out = "architecture families"
source = "measured: an example"
recorded = "2026-11-19"
band = { low = -0.2, high = 0.2, typical = 0.01, low_longer = 0.1, low_shorter = 0.1 }

[fit.rates]
schema = 1
run = 0.0001
power = 4
pooled = { mac = 2e-11, byte = 3e-10, launch = 2e-06 }

[fit.rates.classes]
"*" = { mac = 2e-11, byte = 3e-10, launch = 2e-06 }
"""
RUNTIME = """
[[runtime]]
name = "tiny"
title = "Tiny"
units = ["cpu"]
dtypes = ["fp32"]
backend = "tiny"
code = { least = "4 KiB", most = "8 KiB", source = "derived: an example" }
source = "derived: an example"
recorded = "2026-11-19"

[[device]]
name = "tinychip"
title = "Tinychip"
kind = "microcontroller"
maker = "example"
runtimes = ["tiny"]
units = [{ kind = "cpu", name = "core", cores = 1, clock = "100 MHz" }]
memories = [
  { name = "SRAM", role = "ram", size = "64 KiB" }, { name = "flash", role = "flash", size = "1 MiB" },
]
source = "derived: an example"
recorded = "2026-11-19"
"""
_BACKEND = '''"""A made-up runtime."""

from sizeup.backends.memory_need import MemoryPart
from sizeup.backends.microcontroller import Microcontroller


class Tiny(Microcontroller):
    """Takes 1 to 2 kB for any model."""

    def arena_parts(self, needs):
        """The arena."""
        return [MemoryPart("arena", 1_000, 2_000, "by its planner")]

    def stored(self, needs):
        """The weights."""
        return MemoryPart("model", needs.weight_bytes, needs.weight_bytes, "weights")


BACKEND = Tiny
'''
_CONFIG = """{"model_type": "ours", "architectures": ["OursForCausalLM"], "hidden_size": 64,
 "vocab_size": 100, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
 "num_key_value_heads": 2,
 "max_position_embeddings": 8192, "torch_dtype": "bfloat16"}"""
# Embeddings and head, two layers with grouped heads of 16 and a gated MLP, and the norms.
_PARAMETERS = 2 * 100 * 64 + 2 * (64 * 64 * 2 + 2 * 64 * 32 + 3 * 64 * 128 + 2 * 64) + 64

RECIPES = [
    Recipe(
        "Adding an operator",
        3,
        [
            Edit("src/sizeup/ops/elementwise.py", f'\nelementwise("thrice", "-", "-", "{_OPERATOR}")\n'),
            Edit(
                "src/sizeup/backends/tflm/kernels/arithmetic.py",
                f'    Kernel("{_OPERATOR}", "1", _NO_STRUCTURES, _REAL_OF_SHAPE),\n',
                after="KERNELS = (\n",
            ),
            Edit(
                "tests/ops/rows.py",
                '    *one_for_each("thrice"),\n',
                after='    *one_for_each("squared_difference quantize dequantize", operations=2),\n',
            ),
        ],
        f"""
import sizeup
from formats.tflite.factory import File
def fits(kind):
    file = File()
    ends = [file.main.tensor(name, (1, 4), kind) for name in ("in", "out")]
    file.main.op("{_OPERATOR}", ends[:1], ends[1:])
    file.main.table.inputs, file.main.table.outputs = ends[:1], ends[1:]
    return sizeup.check(file.load(), "stm32f746/tflm", run=False)
print(fits("FLOAT32").fits, fits("INT32").fits, fits("INT32").unsupported_reason)
import pytest
raise SystemExit(pytest.main(["-q", "-p", "no:cacheprovider", "tests/ops/test_rules.py"]))
""",
        "True False TFLite Micro cannot run this file: its LSH_PROJECTION kernel",
        Edit(
            "src/sizeup/backends/tflm/kernels/arithmetic.py",
            f'    Kernel("{_OPERATOR}", "1"),\n',
            after="KERNELS = (\n",
        ),
        _USE,
        "missing 2 required positional arguments: 'memory' and 'rules'",
    ),
    Recipe(
        "Adding a runtime",
        2,
        [
            Edit("src/sizeup/backends/tiny/__init__.py", _BACKEND),
            Edit("src/sizeup/targets/data/devices/tiny.toml", RUNTIME),
        ],
        """
import sizeup
from networks import three_convolutions
check = sizeup.check(three_convolutions(), "tinychip", run=False)
print(check.fits, check.limits[0].need_low, check.limits[0].need_high)
""",
        "True 1000 2000",
        Edit(
            "src/sizeup/targets/data/devices/tiny.toml",
            RUNTIME.replace('backend = "tiny"', 'backend = "tyni"'),
        ),
        _USE,
        "backend 'tyni' is not installed; those of sizeup: ai8x,",
    ),
    Recipe(
        "Adding a device, a board or a GPU",
        1,
        [Edit("src/sizeup/targets/data/boards/nordic.toml", _BOARD)],
        """
import sizeup
board = sizeup.target("our-board/tflm")
print(board.title, board.device.largest_ram_bytes, board.board.ram_reserve)
""",
        "Our board 262144 32768",
        Edit("src/sizeup/targets/data/boards/nordic.toml", _BOARD.replace("device =", "devise =")),
        _USE,
        "'devise'",
    ),
    Recipe(
        "Adding a device, a board or a GPU",
        1,
        [Edit("src/sizeup/targets/data/devices/nvidia_datacentre.toml", _GPU)],
        """
import sizeup
gpu = sizeup.target("our-gpu")
print(gpu.device.ram_bytes >> 30, gpu.peak("fp16") == sizeup.target("v100-pcie").peak("fp16"))
""",
        "24 True",
        Edit(
            "src/sizeup/targets/data/devices/nvidia_datacentre.toml", _GPU.replace("v100-pcie", "v1000-pcie")
        ),
        _USE,
        "v1000-pcie",
    ),
    Recipe(
        "Adding the calibration of a device",
        1,
        [Edit("src/sizeup/targets/data/fits/example.toml", _FIT)],
        """
import sizeup
from networks import three_convolutions
estimate = sizeup.estimate(three_convolutions(), "rpi5/ort")
print(estimate.basis, estimate.low < estimate.seconds < estimate.high)
""",
        "calibrated True",
        Edit("src/sizeup/targets/data/fits/example.toml", _FIT.replace("run = 0.0001", "run = -0.0001")),
        _USE,
        "example.toml",
    ),
    Recipe(
        "Adding a language model family",
        1,
        [
            Edit(
                "src/sizeup/serving/models/reader.py",
                '    "ours": _ModelType(families.dense),\n',
                after='    "llama": _ModelType(families.dense),\n',
            )
        ],
        f"""
import pathlib, sizeup
path = pathlib.Path("config.json")
path.write_text({_CONFIG!r})
print(sizeup.llm(path, target="8xh100/vllm").architecture.parameters)
""",
        str(_PARAMETERS),
        Edit(
            "src/sizeup/serving/models/reader.py",
            '    "ours": _ModelType(families.qwen3_next),\n',
            after='    "llama": _ModelType(families.dense),\n',
        ),
        _USE,
        "qwen3_next",
    ),
    Recipe(
        "Adding an output format of a result",
        2,
        [
            Edit(
                "src/sizeup/render/__init__.py",
                '        ".words": Writer("console.check_words:lines"),\n',
                after='    "Checks": {\n',
            ),
            Edit(
                "src/sizeup/render/console/check_words.py",
                '"""The verdicts in words."""\n\n\ndef lines(checks):\n'
                '    """One line per model."""\n'
                '    return [f"{check.name}: {check.fits}\\n" for check in checks.checks]\n',
            ),
        ],
        """
import sizeup
from networks import three_convolutions
from sizeup.results.check import Checks
Checks((sizeup.check(three_convolutions(), "rpi5/ort"),)).save("verdicts.words")
print(open("verdicts.words").read())
""",
        ": True",
        Edit(
            "src/sizeup/render/__init__.py",
            '        ".words": Writer("console.check_words:line"),\n',
            after='    "Checks": {\n',
        ),
        ("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/render/test_table.py"),
        "console.check_words",
    ),
]
