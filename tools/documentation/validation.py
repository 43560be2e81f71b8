"""Results of validations, read from the generated pages: for the README and an overview."""

from __future__ import annotations

import re
import statistics
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from documentation.links import ROOT
from documentation.tables import table, table_with

DOCS = ROOT / "docs"
_HYPHEN = "\N{NON-BREAKING HYPHEN}"
_HEAD = """\
# How right is it

Every table that compares sizeup with something that shares no code with it: a real runtime, an emulated
board, published measurements, a second tool, or a count by hand. The figures are read from the tables when
this page is built, and the date is that of the last change of the page that contains the table.
"""


@dataclass(frozen=True, slots=True)
class Validation:
    """A claim, its result as text, the page and section of its table, and the command that writes it."""

    claim: str
    result: Callable[[], str]
    page: str
    command: str
    section: str = ""

    @property
    def link(self) -> str:
        """The page and section, from docs/."""
        return f"{self.page}#{self.section}" if self.section else self.page

    @property
    def date(self) -> str:
        """The date of the last commit that changed the page; empty outside of a git checkout."""
        command = ["git", "log", "-1", "--format=%cs", "--", f"docs/{self.page}"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        return done.stdout.strip().replace("-", _HYPHEN)


def _page(name: str) -> str:
    return (DOCS / name).read_text("utf-8")


def _number(text: str) -> float:
    return float(re.sub(r"[,%\s*]", "", text))


def _sum(rows: list[dict[str, str]], column: str) -> int:
    return int(sum(_number(row[column]) for row in rows))


def arenas() -> str:
    """Arenas that equal those of TFLite Micro, over all cores and kernels."""
    rows = table_with(_page("boards.md"), "core", "arena equal", "too low", "too high")
    equal = _sum(rows, "arena equal")
    compared = equal + _sum(rows, "too low") + _sum(rows, "too high")
    models = max(int(_number(row["models"])) for row in rows)
    cores = len({row["core"] for row in rows})
    return (
        f"**{equal:,} of {compared:,}** arenas equal to the byte ({models:,} models, {cores} emulated cores)"
    )


def known_networks() -> str:
    """Networks with a count by hand that sizeup and the next best tool count right."""
    rows = table_with(_page("other-tools.md"), "network", "MACs", "sizeup")
    names = {row["network"].partition(" with")[0] for row in rows}
    right = {
        tool: {row["network"].partition(" with")[0] for row in rows if row[tool] == "exact"}
        for tool in rows[0].keys() - {"network", "MACs"}
    }
    others = sorted((len(exact) for tool, exact in right.items() if tool != "sizeup"), reverse=True)
    return (
        f"**{len(right['sizeup'])} of {len(names)}** networks exact, the custom operator with a cost rule "
        f"({len(others)} other counters: {others[-1]} to {others[0]})"
    )


def held_out_latency() -> str:
    """MAPE of latencies on held-out networks, devices and shapes."""
    rows = table_with(_page("latency.md"), "set", "measurements", "MAPE")
    errors = [_number(row["MAPE"]) for row in rows]
    return (
        f"median MAPE **{statistics.median(errors):.1f} %** over {len(rows)} held-out sets "
        f"({min(errors):.1f} % to {max(errors):.1f} %; {_sum(rows, 'measurements'):,} measurements)"
    )


def zoo() -> str:
    """Models whose MACs differ from those of torch's counter: an operator counted as zero would do that."""
    rows = table_with(_page("zoo.md"), "model", "MACs", "MACs by torch's counter")
    different = sum(row["MACs"] != row["MACs by torch's counter"] for row in rows)
    equal = len(rows) - different
    return f"**{different}** in {len(rows)} models: {equal} equal torch's own counter in all digits"


def answers() -> str:
    """Answers on the user's path and the share of measurements in their intervals."""
    rows = table_with(_page("latency-user-path.md"), "n", "error factor", "interval covers")
    count = _sum(rows, "n")
    return f"{count:,} answers in {len(rows)} groups"


def splits() -> str:
    """Files whose arena shrinks with the best rewrite."""
    rows = table_with(_page("splits.md"), "model", "before", "both")
    smaller = [row for row in rows if row["both"] != row["before"]]
    return f"{len(smaller)} of {len(rows)} files need a smaller arena"


def served_times() -> str:
    """Mean errors of time per output token and time to the first token, on rows kept back from all fits."""
    rows = table_with(_page("llm-times.md"), "frozen, models held out", "rows", "TPOT mean", "TTFT mean")
    total = next(row for row in rows if row["frozen, models held out"] == "all")
    return f"{total['rows']} rows: mean error of TPOT {total['TPOT mean']}, of TTFT {total['TTFT mean']}"


def instructions() -> str:
    """MAPE of counted instructions on networks left out."""
    rows = table_with(_page("instructions.md"), "core", "kernels", "networks", "MAPE")
    errors = [_number(row["MAPE"]) for row in rows]
    return f"MAPE {min(errors):.1f} % to {max(errors):.1f} % on public models, {len(rows)} cores and kernels"


def st_reports() -> str:
    """Networks whose RAM reported by ST is within the bounds."""
    rows = table_with(_page("vendor-runtimes.md"), "target", "family", "within bounds")
    pairs = [
        tuple(map(int, row["within bounds"].split(" of "))) for row in rows if " of " in row["within bounds"]
    ]
    return f"{sum(pair[0] for pair in pairs)} of {sum(pair[1] for pair in pairs)} networks within the bounds"


def board_cases() -> str:
    """Documented cases with the right verdict."""
    rows = table_with(_page("choosing-a-board.md"), "board", "network", "documented", "verdict")
    return f"{len(rows)} documented cases"


def fuzzing() -> str:
    """Mutants of files that were read."""
    rows = table_with(_page("fuzzing.md"), "target", "mode", "inputs", "findings")
    return f"{_sum(rows, 'inputs'):,} mutated files"


# The first four are the proof strip of the README and the landing page.
VALIDATIONS = (
    Validation("Arena equal to TFLite Micro", arenas, "boards.md", "make boards"),
    Validation(
        "Known networks counted right", known_networks, "other-tools.md", "python tools/other_tools.py"
    ),
    Validation(
        "Latency on held-out data",
        held_out_latency,
        "latency.md",
        "python benchmarks/latency_truth.py --write",
        "held-out-errors",
    ),
    Validation("Operators silently counted as zero", zoo, "zoo.md", "make zoo"),
    Validation(
        "Latency answers compared with public measurements",
        answers,
        "latency-user-path.md",
        "python benchmarks/latency_user_path.py --write",
    ),
    Validation(
        "Times of language models",
        served_times,
        "llm-times.md",
        "python benchmarks/serving_fit.py --frozen --write",
        "how-right-is-it",
    ),
    Validation(
        "Instructions of TFLite Micro", instructions, "instructions.md", "python -m fitting.instructions"
    ),
    Validation("Arenas of rewritten files", splits, "splits.md", "make splits"),
    Validation(
        "RAM that ST's compiler reports",
        st_reports,
        "vendor-runtimes.md",
        "python tools/st_memory.py CLONE",
        "compared-with-sts-own-reports",
    ),
    Validation(
        "Verdicts on documented boards",
        board_cases,
        "choosing-a-board.md",
        "pytest tests/checks/test_board_cases.py",
        "documented-cases",
    ),
    Validation(
        "Hostile files",
        fuzzing,
        "fuzzing.md",
        "python tools/fuzz.py TARGET --inputs N",
        "last-measured-rounds",
    ),
)
PROOFS = VALIDATIONS[:4]


def proof_strip(folder: str) -> str:
    """The four proofs as a table, with links to pages in a folder such as docs/."""
    rows = ((proof.claim, proof.result(), f"[table]({folder}{proof.link})") for proof in PROOFS)
    return "".join(table(("claim", "result", "proof"), rows)).lstrip("\n")


def page() -> Iterator[str]:
    """The overview of all validations."""
    yield _HEAD
    rows = (
        (
            f"[{each.claim}](../{each.link})",
            each.result(),
            f"`{each.command}`",
            each.date.replace("-", _HYPHEN),
        )
        for each in VALIDATIONS
    )
    yield from table(("claim", "result", "command", "date"), rows)
