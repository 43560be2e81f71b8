"""Why other tools may show another number, by family of operators.

The shares are those that thirteen configurations of well-known counters gave for small networks whose
right answer was worked out by hand.
"""

from __future__ import annotations

_MAC_OR_FLOP = "a tool that counts FLOPs shows twice the MACs; several print MACs under the name FLOPs"

_BY_KIND: dict[str, tuple[str, ...]] = {
    "einsum": ("five of thirteen counters give 0 for an einsum",),
    "grouped_matmul": ("torch's FlopCounterMode gives 0 for the grouped products of experts",),
    "embedding": ("where the table is tied to the output layer, tools that add up modules count it twice",),
    "batch_norm": ("tools that count two MACs for each number here show more for the whole network",),
}
_BY_FAMILY: dict[str, tuple[str, ...]] = {
    "conv": (
        "tools that count the bias add one for each output number",
        "tools that hook modules give 0 for a functional convolution: five of thirteen counters did",
    ),
    "matmul": (
        "tools that hook modules see nn.Linear but no @, matmul or bmm",
        "tools that count the bias add one for each output number",
    ),
    "attention": (
        "tools that only hook modules miss the two products: 80 % of a block without them, 0 % in some",
        "torch's FlopCounterMode gives 0 for fused attention on the CPU; others count 106 % of a block",
    ),
    "recurrent": (
        "five of thirteen counters give 0 for an LSTM, others 102 % and 135 %",
        "torch's FlopCounterMode gives 0 for an LSTM on the CPU",
    ),
    "elementwise": ("this kind has no MACs; tools that count activations as FLOPs show more",),
    "reduction": ("this kind has no MACs; tools that count norms, pooling or softmax as FLOPs show more",),
    "resample": ("this kind has no MACs; tools that count interpolation as FLOPs show more",),
}
_NO_RULE = ("most counters give 0 for an operator that they do not know, and do not say so",)


def differences(kind: str, family: str | None, has_macs: bool) -> tuple[str, ...]:
    """The usual reasons, each a line; `family` is None for an operator without a rule."""
    if family is None:
        return _NO_RULE
    reasons = (*_BY_KIND.get(kind, ()), *_BY_FAMILY.get(family, ()))
    return (_MAC_OR_FLOP, *reasons) if has_macs else reasons
