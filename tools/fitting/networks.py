"""Networks that tables of measurements name, built from their published code, and their recorded work.

    PYTHONPATH=src:tests:tools python -m fitting.networks    # write networks.csv, in about two minutes

`networks.csv` holds one row per distinct kernel, recorded by sizeup as for an estimate.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sizeup.latency import Work, execution_of, from_columns
from sizeup.latency.work import Floats
from sizeup.targets import BUILT_IN, Catalog

PATH = Path(__file__).with_name("networks.csv")
COLUMNS = ("network", "class", "macs", "activations", "weights", "count")
_WIDTH = 4  # bytes of an element as recorded
_IMAGE = (1, 3, 224, 224)
_TOKENS = 384


class Network(NamedTuple):
    """A network by its source, its input, and its family: networks of a family are held out together."""

    source: str
    family: str
    shape: tuple[int, ...] = _IMAGE
    options: Mapping[str, Any] = {}


def _bert(kind: str, family: str = "bert", **options: Any) -> Network:
    return Network(f"transformers:{kind}", family, (1, _TOKENS), options)


_BASE: dict[str, Any] = {"hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072}

# Names as in the tables of Qualcomm AI Hub; sizes as in the code that its measurements are made with.
NETWORKS = {
    "albert_base_v2_hf": _bert("Albert ForMaskedLM", **_BASE),
    "beit": Network("timm:beit_base_patch16_224", "vit"),
    "bert_base_uncased_hf": _bert("Bert ForMaskedLM"),
    "convnext_base": Network("torchvision:convnext_base", "convnext"),
    "convnext_tiny": Network("torchvision:convnext_tiny", "convnext"),
    "densenet121": Network("torchvision:densenet121", "densenet"),
    "dla102x": Network("timm:dla102x", "dla"),
    "efficientformer": Network("timm:efficientformer_l1", "efficientformer"),
    "efficientnet_b0": Network("torchvision:efficientnet_b0", "mobilenet"),
    "efficientnet_b4": Network("torchvision:efficientnet_b4", "mobilenet"),
    "efficientnet_v2_s": Network("torchvision:efficientnet_v2_s", "mobilenet"),
    "efficientvit_b2_cls": Network("timm:efficientvit_b2", "efficientvit"),
    "efficientvit_l2_cls": Network("timm:efficientvit_l2", "efficientvit"),
    "electra_bert_base_discrim_google": _bert("Electra ForPreTraining", embedding_size=768, **_BASE),
    "fcn_resnet50": Network("torchvision:fcn_resnet50", "resnet", (1, 3, 520, 520)),
    "googlenet": Network("torchvision:googlenet", "inception"),
    "inception_v3": Network("torchvision:inception_v3", "inception"),
    "levit": Network("timm:levit_128s", "levit"),
    "mnasnet05": Network("torchvision:mnasnet0_5", "mobilenet"),
    "mobile_bert_uncased_google": _bert("MobileBert ForMaskedLM"),
    "mobile_vit": Network("timm:mobilevit_s", "mobilevit", (1, 3, 256, 256)),
    "mobilenet_v2": Network("torchvision:mobilenet_v2", "mobilenet"),
    "mobilenet_v3_large": Network("torchvision:mobilenet_v3_large", "mobilenet"),
    "mobilenet_v3_small": Network("torchvision:mobilenet_v3_small", "mobilenet"),
    "nasnet": Network("timm:nasnetalarge", "nasnet"),
    "regnet": Network("torchvision:regnet_x_3_2gf", "regnet"),
    "regnet_y_800mf": Network("torchvision:regnet_y_800mf", "regnet"),
    "resnet101": Network("torchvision:resnet101", "resnet"),
    "resnet18": Network("torchvision:resnet18", "resnet"),
    "resnet50": Network("torchvision:resnet50", "resnet"),
    "resnext101": Network("torchvision:resnext101_32x8d", "resnet"),
    "resnext50": Network("torchvision:resnext50_32x4d", "resnet"),
    "segformer_base": Network(
        "transformers:Segformer ForSemanticSegmentation",
        "segformer",
        (1, 3, 512, 512),
        {"num_labels": 150, "image_size": 512},
    ),
    "shufflenet_v2": Network("torchvision:shufflenet_v2_x0_5", "shufflenet"),
    "squeezenet1_1": Network("torchvision:squeezenet1_1", "squeezenet"),
    "vit": Network("torchvision:vit_b_16", "vit"),
    "wideresnet50": Network("torchvision:wide_resnet50_2", "resnet"),
}


def cost_of(network: Network) -> Any:
    """The counted graph of a network."""
    import json
    import tempfile

    import sizeup

    library, _, name = network.source.partition(":")
    if library != "transformers":
        return sizeup.count(network.source, inputs=[network.shape])
    kind, _, task = name.partition(" ")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "config.json"
        config = {"model_type": kind.lower(), "architectures": [kind + task], **network.options}
        path.write_text(json.dumps(config), "utf-8")
        if len(network.shape) == 2:
            return sizeup.count(f"hf:{path}", bind={"seq": network.shape[1]})
        return sizeup.count(f"hf:{path}")


def rows_of(name: str, cost: Any, fuses: Iterable[str]) -> list[tuple[str, str, int, int, int, int]]:
    """One row of the table per distinct kernel of a network."""
    work = execution_of(cost, None, tuple(fuses)).work
    columns = (work.macs, (work.read + work.written) / _WIDTH, work.weights / _WIDTH)
    numbers = np.stack(columns, axis=1).round().astype(np.int64).tolist()
    counts: Counter[tuple[str, int, int, int]] = Counter()
    for index, (macs, activations, weights), count in zip(
        work.class_index.tolist(), numbers, work.count.tolist(), strict=True
    ):
        counts[work.names[index], macs, activations, weights] += round(count)
    return [(name, *kernel, count) for kernel, count in sorted(counts.items()) if count]


class Recorded(NamedTuple):
    """The distinct kernels of a network: class, MACs, elements, and how often each runs."""

    classes: tuple[str, ...]
    macs: Floats
    activations: Floats  # elements read and written
    weights: Floats  # elements
    runs: Floats


@cache
def recorded(path: Path = PATH) -> dict[str, Recorded]:
    """The networks of the table."""
    by_network: dict[str, list[dict[str, str]]] = {}
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            by_network.setdefault(row["network"], []).append(row)
    networks = {}
    for name, rows in by_network.items():
        columns = [np.array([float(row[key]) for row in rows]) for key in COLUMNS[2:]]
        networks[name] = Recorded(tuple(row["class"] for row in rows), *columns)
    return networks


def work_of_networks(names: Sequence[str], precisions: Sequence[str]) -> Work:
    """Recorded networks, each at a precision; all kernels of a precision are one class."""
    kernels = [recorded()[name] for name in names]
    lengths = [len(each.classes) for each in kernels]
    width = np.repeat([WIDTHS[each] for each in precisions], lengths)
    classes = ["*" if each == "fp32" else f"*.{each}" for each in precisions]
    return from_columns(
        np.repeat(classes, lengths).tolist(),
        len(names),
        np.repeat(np.arange(len(names)), lengths),
        macs=np.concatenate([each.macs for each in kernels]),
        read=width * np.concatenate([each.activations for each in kernels]),
        weights=width * np.concatenate([each.weights for each in kernels]),
        count=np.concatenate([each.runs for each in kernels]),
    )


WIDTHS = {"fp32": 4.0, "fp16": 2.0, "bf16": 2.0, "int16": 2.0, "int8": 1.0}


def _order(row: Sequence[Any]) -> tuple[Any, ...]:
    return (*row[:2], *map(int, row[2:]))


def _write(rows: Sequence[Sequence[Any]]) -> None:
    with PATH.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        kept: list[Sequence[Any]] = [row for row in rows if row[0] in NETWORKS]
        kept.sort(key=_order)
        writer.writerows(kept)


def main() -> None:
    """Records all networks that the table lacks."""
    fuses = Catalog((BUILT_IN,)).runtime("qnn").fusions or ()
    rows: list[Sequence[Any]] = []
    if PATH.exists():
        with PATH.open(newline="", encoding="utf-8") as file:
            rows = [*csv.reader(file)][1:]
    known = {row[0] for row in rows}
    for name, network in NETWORKS.items():
        if name not in known:
            rows += rows_of(name, cost_of(network), fuses)
            _write(rows)
            print(name, flush=True)


if __name__ == "__main__":
    main()
