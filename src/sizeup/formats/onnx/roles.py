"""What a constant is for: trained numbers, statistics and tables, or settings of operators."""

from __future__ import annotations

from enum import IntFlag

from sizeup.formats.onnx.blocks import Block, Node
from sizeup.formats.onnx.constants import Stored
from sizeup.formats.onnx.quantisation import settings
from sizeup.formats.onnx.value_types import dtype_of
from sizeup.graph import Role
from sizeup.ops import kind_of, rule_of

# Inputs that steer an operator rather than feed it; those of quantisation are told by `quantisation`.
_SETTINGS: dict[str, tuple[int, ...]] = {
    "Attention": (3, 6),
    "Clip": (1, 2),
    "Dropout": (1, 2),
    "GRU": (4, 5),
    "If": (0,),
    "LSTM": (4, 5, 6),
    "MelWeightMatrix": (0, 1, 2, 3, 4),
    "NonMaxSuppression": (2, 3, 4),
    "OneHot": (1, 2),
    "Pad": (1, 2, 3),
    "RNN": (4, 5),
    "Range": (0, 1, 2),
    "Resize": (1, 2, 3),
    "Upsample": (1,),
    "com.microsoft::Attention": (3, 5, 6),
    "com.microsoft::DynamicQuantizeLSTM": (4, 5, 6),
    "com.microsoft::GroupQueryAttention": (5, 6, 9, 10, 12, 13),
    "com.microsoft::MultiHeadAttention": (4, 5, 8, 9),
    "com.microsoft::Pad": (1, 2, 3),
    "com.microsoft::QAttention": (5,),
    "com.microsoft::QLinearWhere": (0,),
}
# Tables of sines and cosines.
_TABLES: dict[str, tuple[int, ...]] = {
    "RotaryEmbedding": (1, 2),
    "com.microsoft::RotaryEmbedding": (2, 3),
    "com.microsoft::GroupQueryAttention": (7, 8),
}
_WEIGHTED_FAMILIES = frozenset({"conv", "matmul", "recurrent", "attention", "lookup"})
_WEIGHTED_KINDS = frozenset(
    {"batch_norm", "layer_norm", "skip_layer_norm", "skip_rms_norm", "rms_norm", "embed_layer_norm", "prelu"}
)
# Operators that multiply by their operands, and those that only convert or arrange numbers before that.
_MULTIPLYING_FAMILIES = frozenset({"conv", "matmul", "recurrent"})
_LAST_FACTOR = 2  # the last input that can be a factor: recurrent operators have weights at 1 and 2
_CONVERTING = frozenset(
    {"Cast", "DequantizeLinear", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"}
)
_DECLARED: dict[str, Role] = {"PARAMETER": "parameter", "BUFFER": "buffer", "CONSTANT_TENSOR": "constant"}


class Use(IntFlag):
    """How operators use a constant, all uses together."""

    NONE = 0
    SETTING = 1
    TABLE = 2
    DATA = 4
    WEIGHT = 8  # data of an operator whose numbers are trained: products, norms, lookups
    FACTOR = 32  # a product's operand, directly or converted first: a weight, whatever the file says
    QUANTISED = 16  # data of an operator that works on integers in place of real numbers


class Roles:
    """The roles of a model's constants, told from all their uses."""

    def __init__(self, block: Block) -> None:
        self._uses: dict[int, Use] = {}
        self._of_inputs: dict[tuple[str, int], Use] = {}
        self._multiplying: dict[str, bool] = {}  # by the name of the operator
        # torch's newer exporter says of weights that they are trained, unless it had to rewrite them.
        self._exporter_tells = any(node.annotated for node in block.nodes)
        self._collect(block, {})

    def of(self, constant: Stored) -> Role:
        """What a constant is for."""
        uses = self._uses.get(id(constant), Use.DATA)
        declared = _DECLARED.get(constant.declared_role)
        if declared is not None and not (uses & Use.FACTOR and self._is_trained(constant, uses)):
            return declared
        if not uses & (Use.DATA | Use.FACTOR):
            return "buffer" if uses & Use.TABLE else "constant"
        return "parameter" if self._is_trained(constant, uses) else "constant"

    def _is_trained(self, constant: Stored, uses: Use) -> bool:
        kind = dtype_of(constant.element)
        integer = kind.family == "int" and (
            kind.bits <= 8 or uses & Use.FACTOR or (uses & Use.QUANTISED and kind.bits <= 32)
        )
        if not constant.dims or not (kind.family in ("float", "complex") or integer):
            return False
        if uses & (Use.WEIGHT | Use.FACTOR):
            return True
        # Numbers that the network's code holds are written as operators, and an exporter that marks what
        # is trained leaves only folded numbers unmarked.
        return not constant.written_as_node and not (self._exporter_tells and constant.elements == 1)

    def _collect(self, block: Block, outer: dict[str, Stored]) -> None:
        known = {**outer, **block.constants} if outer else block.constants
        converted: dict[str, Stored] = {}
        for node in block.nodes:
            sources = [known.get(name) for name in node.inputs]
            for index, constant in enumerate(sources):
                if constant is not None:
                    self._note(constant, self._use(node, index))
            self._collect_factors(node, sources, converted)
            for inner in node.blocks.values():
                hidden = {name: each for name in inner.free if (each := known.get(name)) is not None}
                self._collect(inner, hidden)
        for name in block.outputs:
            self._note(known.get(name), Use.DATA)

    def _collect_factors(
        self, node: Node, sources: list[Stored | None], converted: dict[str, Stored]
    ) -> None:
        """Note constants that a product reads; one of constants alone is folded, and holds no weights."""
        if converted:
            pairs = zip(sources, node.inputs, strict=True)
            sources = [source or converted.get(name) for source, name in pairs]
        if node.op in _CONVERTING and sources and sources[0] is not None:
            converted.update(dict.fromkeys(node.outputs, sources[0]))
        elif None in sources and self._multiplies(node):
            for index, source in enumerate(sources[: _LAST_FACTOR + 1]):
                if not self._use(node, index) & Use.SETTING:
                    self._note(source, Use.FACTOR)

    def _note(self, constant: Stored | None, use: Use) -> None:
        if constant is not None:
            self._uses[id(constant)] = self._uses.get(id(constant), Use.NONE) | use

    def _multiplies(self, node: Node) -> bool:
        known = self._multiplying.get(node.op)
        if known is None:
            rule = rule_of(kind_of("onnx", node.op) or "")
            known = self._multiplying[node.op] = rule is not None and rule.family in _MULTIPLYING_FAMILIES
        return known

    def _use(self, node: Node, index: int) -> Use:
        known = self._of_inputs.get((node.op, index))
        if known is None:
            known = self._of_inputs[node.op, index] = _use_of(node, index)
        return known


def _use_of(node: Node, index: int) -> Use:
    scales = set(settings(node))
    if node.blocks or index in scales or index in _SETTINGS.get(node.op, ()):
        return Use.SETTING
    if index in _TABLES.get(node.op, ()):
        return Use.TABLE
    rule = rule_of(kind_of("onnx", node.op) or "")
    if rule is None:
        return Use.DATA
    if index in rule.buffers:
        return Use.TABLE
    use = Use.DATA
    if rule.family in _WEIGHTED_FAMILIES or rule.kind in _WEIGHTED_KINDS:
        use |= Use.WEIGHT
    return use | Use.QUANTISED if scales else use
