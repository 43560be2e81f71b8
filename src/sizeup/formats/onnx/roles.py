"""Roles of constants: trained parameters, buffers (statistics, tables), or settings of operators."""

from __future__ import annotations

from sizeup.formats.onnx.blocks import Block, Node
from sizeup.formats.onnx.constants import StoredTensor
from sizeup.formats.onnx.operators import operator_of
from sizeup.formats.onnx.quantization import quantization_inputs
from sizeup.formats.onnx.value_types import dtype_of
from sizeup.graph import Role
from sizeup.ops import cost_rule_of, op_kind_of

_WEIGHTED_FAMILIES = frozenset({"conv", "matmul", "recurrent", "attention", "lookup"})
# Operators that multiply their operands.
_MULTIPLYING_FAMILIES = frozenset({"conv", "matmul", "recurrent"})
_LAST_FACTOR = 2  # the last input that can be a factor: recurrent operators have weights at 1 and 2
_DECLARED: dict[str, Role] = {"PARAMETER": "parameter", "BUFFER": "buffer", "CONSTANT_TENSOR": "constant"}


# The uses of a constant, combined over all nodes; plain integers, because enumerations are slow to combine.
_SETTING = 1
_TABLE = 2
_DATA = 4
_WEIGHT = 8  # data of an operator with trained operands: products, norms, lookups
_QUANTIZED = 16  # data of a quantized operator
_FACTOR = 32  # operand of a product, possibly converted first: a weight regardless of its declared role


class Roles:
    """The roles of a model's constants, derived from all their uses."""

    def __init__(self, block: Block) -> None:
        self._uses: dict[int, int] = {}
        self._of_inputs: dict[tuple[str, int], int] = {}
        self._multiplying: dict[str, bool] = {}  # by operator name
        self._converting: dict[str, bool] = {}
        # The newer exporter of torch declares the role of weights, unless it rewrote them.
        self._has_declared_roles = any(node.annotated for node in block.nodes)
        self._collect(block, {})

    def of(self, constant: StoredTensor) -> Role:
        """The role of a constant."""
        uses = self._uses.get(id(constant), _DATA)
        declared = _DECLARED.get(constant.declared_role)
        if declared is not None and not (uses & _FACTOR and self._is_trained(constant, uses)):
            return declared
        if not uses & (_DATA | _FACTOR):
            return "buffer" if uses & _TABLE else "constant"
        return "parameter" if self._is_trained(constant, uses) else "constant"

    def _is_trained(self, constant: StoredTensor, uses: int) -> bool:
        dtype = dtype_of(constant.element)
        is_integer_weight = dtype.family == "int" and (
            dtype.bits <= 8 or uses & _FACTOR or (uses & _QUANTIZED and dtype.bits <= 32)
        )
        if not constant.dims or not (dtype.family in ("float", "complex") or is_integer_weight):
            return False
        if uses & (_WEIGHT | _FACTOR):
            return True
        # Literals in the network's code are exported as Constant nodes. An exporter that declares roles
        # leaves only folded scalars undeclared.
        return not constant.written_as_node and not (self._has_declared_roles and constant.elements == 1)

    def _collect(self, block: Block, outer: dict[str, StoredTensor]) -> None:
        known = {**outer, **block.constants} if outer else block.constants
        converted: dict[str, StoredTensor] = {}
        for node in block.nodes:
            sources = [known.get(name) for name in node.inputs]
            for index, constant in enumerate(sources):
                if constant is not None:
                    self._note(constant, self._use(node, index))
            self._collect_factors(node, sources, converted)
            for inner in node.blocks.values():
                captured = {
                    name: constant for name in inner.free if (constant := known.get(name)) is not None
                }
                self._collect(inner, captured)
        for name in block.outputs:
            self._note(known.get(name), _DATA)

    def _collect_factors(
        self, node: Node, sources: list[StoredTensor | None], converted: dict[str, StoredTensor]
    ) -> None:
        """Note constants that a product reads. A product of constants only is folded and has no weights."""
        if converted:
            pairs = zip(sources, node.inputs, strict=True)
            sources = [source or converted.get(name) for source, name in pairs]
        if sources and sources[0] is not None and self._converts(node):
            converted.update(dict.fromkeys(node.outputs, sources[0]))
        elif None in sources and self._multiplies(node):
            for index, source in enumerate(sources[: _LAST_FACTOR + 1]):
                if not self._use(node, index) & _SETTING:
                    self._note(source, _FACTOR)

    def _note(self, constant: StoredTensor | None, use: int) -> None:
        if constant is not None:
            self._uses[id(constant)] = self._uses.get(id(constant), 0) | use

    def _multiplies(self, node: Node) -> bool:
        known = self._multiplying.get(node.op)
        if known is None:
            rule = cost_rule_of(op_kind_of("onnx", node.op) or "")
            known = self._multiplying[node.op] = rule is not None and rule.family in _MULTIPLYING_FAMILIES
        return known

    def _converts(self, node: Node) -> bool:
        """Whether an operator only converts or rearranges the operand of another."""
        known = self._converting.get(node.op)
        if known is None:
            rule = cost_rule_of(op_kind_of("onnx", node.op) or "")
            is_conversion = rule is not None and rule.kind in ("cast", "dequantize", "transpose")
            known = self._converting[node.op] = rule is not None and (rule.views or is_conversion)
        return known

    def _use(self, node: Node, index: int) -> int:
        known = self._of_inputs.get((node.op, index))
        if known is None:
            known = self._of_inputs[node.op, index] = _use_of(node, index)
        return known


def _use_of(node: Node, index: int) -> int:
    scales = set(quantization_inputs(node))
    if node.blocks or index in scales or index in operator_of(node.op).settings:
        return _SETTING
    if index in operator_of(node.op).tables:
        return _TABLE
    rule = cost_rule_of(op_kind_of("onnx", node.op) or "")
    if rule is None:
        return _DATA
    if index in rule.buffers:
        return _TABLE
    use = _DATA
    if rule.family in _WEIGHTED_FAMILIES or "trained" in rule.traits:
        use |= _WEIGHT
    return use | _QUANTIZED if scales else use
