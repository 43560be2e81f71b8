"""Run a decoded program on fake tensors so that the recorder sees its operators.

Only allowed operators of torch are called. Any other target (a custom operator, a function named in the
file) is never resolved: it becomes an op of unknown cost with the shapes declared in the file.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, TypeAlias

import torch
from torch._subclasses.fake_tensor import UnsupportedOperatorException
from torch.utils._python_dispatch import _get_current_dispatch_mode, _pop_mode_temporarily

from sizeup.errors import CorruptModel, SizeupError
from sizeup.formats.torch.control_flow import CONTROL, WRAPPERS
from sizeup.formats.torch.failures import error_summary
from sizeup.formats.torch.json_values import Opaque, Reference
from sizeup.formats.torch.operators import Operator, operator_of
from sizeup.formats.torch.record import Recorder
from sizeup.formats.torch.serialized import Node, Outputs, ProgramGraph, TensorMeta, tensor_meta
from sizeup.formats.torch.zoo import import_torchvision
from sizeup.ops import cost_rule_of, op_kind_of
from sizeup.ops.cost_rule import names
from sizeup.ops.handlers import Handlers

Values: TypeAlias = dict[str, Any]  # by name

_OPERATOR = re.compile(r"torch\.ops\.(aten|prims|torchvision)\.(\w+)\.(\w+)\Z")
_HIGHER_ORDER = "torch.ops.higher_order."
# Libraries of quantization operators, which are counted with the shapes declared in the file.
_QUANTIZATION = ("torchao.", "quantized_decomposed.")
_NUMBERS = (int, float, bool, torch.SymInt, torch.SymFloat, torch.SymBool)
_MOST_PIECES = 2_000  # operators in the decomposition of one
_MOST_TERMS = 64  # in a size expression
_LARGEST = 1 << 62
_LARGEST_SHIFT = 62
_ENUMERATIONS = {
    "ScalarType": torch.dtype,
    "MemoryFormat": torch.memory_format,
    "Layout": torch.layout,
    "Device": torch.device,
}
_LOOPING_OPERATORS = ("combinations", "cartesian_prod")
_FORBIDDEN_TYPES = ("Generator", "Storage", "Stream", "Dimname")
# Composite operators of torch whose decomposition length does not depend on their arguments.
_COMPOSITES = frozenset(
    names(
        "absolute arccos arccosh arcsin arcsinh arctan arctan2 arctanh broadcast_tensors chain_matmul"
        " corrcoef cosine_embedding_loss cov cross cumulative_trapezoid det diagflat divide fft_fft"
        " fft_fft2 fft_fftn fft_fftshift fft_hfft fft_hfft2 fft_hfftn fft_ifft fft_ifft2 fft_ifftn"
        " fft_ifftshift fft_ihfft fft_ihfft2 fft_ihfftn fft_irfft fft_irfft2 fft_irfftn fft_rfft fft_rfft2"
        " fft_rfftn fix frobenius_norm greater greater_equal hinge_embedding_loss inverse isclose isreal"
        " istft kl_div kron less less_equal linalg_cholesky linalg_cond linalg_det linalg_eigh"
        " linalg_eigvals linalg_eigvalsh linalg_inv linalg_ldl_factor linalg_lu_factor linalg_matmul"
        " linalg_matrix_norm linalg_matrix_power linalg_matrix_rank linalg_multi_dot linalg_norm"
        " linalg_slogdet linalg_solve linalg_solve_ex linalg_svd linalg_svdvals linalg_vecdot logdet"
        " lu_solve margin_ranking_loss matrix_exp matrix_power multilabel_margin_loss multiply negative"
        " not_equal nuclear_norm numel poisson_nll_loss qr row_stack size slogdet special_digamma"
        " special_erf special_erfc special_erfinv special_exp2 special_expit special_expm1"
        " special_gammainc special_gammaincc special_gammaln special_i0 special_log1p special_log_softmax"
        " special_logit special_logsumexp special_ndtr special_psi special_round special_sinc"
        " special_softmax special_xlogy stft stride subtract svd tensordot trapezoid trapz"
        " triplet_margin_loss"
    )
)


class Replay:
    """One run of a program; `symbols` has the sizes of its symbolic dimensions."""

    def __init__(self, recorder: Recorder, symbols: Mapping[str, Any]) -> None:
        self._recorder, self._symbols = recorder, symbols
        self._terms: dict[int, int] = {}  # by id of an object in `_symbolic_results`
        self._symbolic_results: list[Any] = []
        assert recorder.mode is not None
        # Fallback kernels would allocate memory of the sizes declared in the file.
        recorder.mode.allow_fallback_kernels = False

    def run(self, graph: ProgramGraph, arguments: Iterable[Any]) -> list[Any]:
        """Run the program on these arguments and return its outputs."""
        return self._run(graph, arguments, is_root=True)

    def _run(self, graph: ProgramGraph, arguments: Iterable[Any], *, is_root: bool) -> list[Any]:
        values: Values = dict(zip(graph.inputs, arguments, strict=True))
        for node in graph.nodes:
            if is_root:
                self._recorder.enter(node.scope)
            try:
                result = self._call(graph, node, values)
            except SizeupError:
                raise
            except Exception as error:  # torch may raise anything on wrong arguments
                raise CorruptModel(f"{node.target[:80]} cannot run: {error_summary(error)}") from error
            _bind(node.outputs, result, values, node.target)
        return [_resolve(output, values) for output in graph.outputs]

    def _call(self, graph: ProgramGraph, node: Node, values: Values) -> Any:
        named = [(name, _resolve(argument, values, self._function)) for name, argument in node.arguments]
        compute = _ARITHMETIC.get(node.target)
        if compute is not None:
            return self._compute_size(compute, [argument for _, argument in named])
        function = _allowed_operator(node.target)
        if function is None:
            return self._declared_call(graph, node, named)
        if isinstance(function, torch._ops.HigherOrderOperator):
            return function(*(argument for _, argument in named))
        _check_part_count(function, dict(named), node.outputs)
        args, kwargs = _bind_arguments(function, named)
        # Bound the decomposition of one operator.
        self._recorder.most_ops = len(self._recorder.builder.ops) + _MOST_PIECES
        try:
            return function(*args, **kwargs)
        except UnsupportedOperatorException:  # no meta kernel
            return self._declared_call(graph, node, named)

    def _compute_size(self, compute: Callable[..., Any], operands: list[Any]) -> Any:
        """Compute a size from others; it is unknown if its expression gets too long."""
        terms = 1 + sum(self._terms.get(id(operand), 0) for operand in operands)
        if terms > _MOST_TERMS:
            return self._unknown_size()
        result = _compute(compute, operands)
        if not isinstance(result, int | float):
            self._terms[id(result)] = terms
            self._symbolic_results.append(result)
        return result

    def _function(self, graph: ProgramGraph) -> Callable[..., Any]:
        """Return a nested graph as a function for control flow operators."""

        def call(*arguments: Any) -> Any:
            results = self._run(graph, arguments, is_root=False)
            return results[0] if graph.is_single and len(results) == 1 else tuple(results)

        return call

    def _declared_call(self, graph: ProgramGraph, node: Node, named: list[tuple[str, Any]]) -> Any:
        """Record an operator that is not run and return its outputs as declared in the file."""
        recorder = _get_current_dispatch_mode()
        assert isinstance(recorder, Recorder)  # bodies of control flow have separate recorders
        with _pop_mode_temporarily():
            result = self._declared_outputs(graph, node.outputs)
        operator_ = _unknown_operator(node.target, named)
        values = dict(zip(operator_.arguments, (value for _, value in named), strict=True))
        if operator_.kind in ("quantize", "dequantize"):
            _check_same_shape(node.target, named, result)
        recorder.record_declared_call(operator_, values, result)
        return result

    def _declared_outputs(self, graph: ProgramGraph, outputs: Outputs) -> Any:
        if outputs is None:
            return None
        if isinstance(outputs, list):
            return [self._declared_outputs(graph, output) for output in outputs]
        if outputs in graph.tensor_values:
            return self._empty(tensor_meta(graph.tensor_values[outputs]))
        if outputs not in graph.size_values:
            raise CorruptModel(f"the output {outputs[:60]!r} is not declared")
        return self._unknown_size()

    def _empty(self, meta: TensorMeta) -> torch.Tensor:
        sizes = [self._size(size) for size in meta.sizes]
        return torch.empty(sizes, dtype=meta.dtype)

    def _size(self, size: Any) -> Any:
        if isinstance(size, int):
            return size
        if not size.symbols <= self._symbols.keys():
            return self._unknown_size()
        return size.evaluate(self._symbols)

    def _unknown_size(self) -> Any:
        assert self._recorder.mode is not None
        assert self._recorder.mode.shape_env is not None
        return self._recorder.mode.shape_env.create_unbacked_symint()


def _resolve(item: Any, values: Values, function: Callable[[ProgramGraph], Any] | None = None) -> Any:
    if isinstance(item, Reference):
        if item.name not in values:
            raise CorruptModel(f"{item.name[:60]!r} is used before it is computed")
        return values[item.name]
    if isinstance(item, Opaque):
        return None
    if isinstance(item, list):
        return [_resolve(value, values, function) for value in item]
    if isinstance(item, dict):
        return {name: _resolve(value, values, function) for name, value in item.items()}
    if isinstance(item, ProgramGraph):
        return None if function is None else function(item)
    return item


def _bind(outputs: Outputs, result: Any, values: Values, target: str) -> None:
    if isinstance(outputs, str):
        if outputs in values:
            raise CorruptModel(f"{outputs[:60]!r} is computed twice")
        values[outputs] = result
    elif isinstance(outputs, list):
        if not isinstance(result, list | tuple) or len(result) != len(outputs):
            raise CorruptModel(f"{target[:60]} does not return {len(outputs)} values")
        for output, value in zip(outputs, result, strict=True):
            _bind(output, value, values, target)


def _bind_arguments(
    function: torch._ops.OpOverload, named: list[tuple[str, Any]]
) -> tuple[list[Any], dict[str, Any]]:
    """Return arguments by position as far as possible, then by name."""
    remaining = dict(named)
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    in_order = True
    for argument in function._schema.arguments:
        if argument.name not in remaining:
            in_order = False
            continue
        value = remaining.pop(argument.name)
        _check_argument_type(argument, value)
        if in_order and not argument.kwarg_only:
            args.append(value)
        else:
            kwargs[argument.name] = value
    if remaining:
        raise CorruptModel(f"{function} has no argument {next(iter(remaining))[:60]!r}")
    return args, kwargs


def _check_argument_type(argument: Any, value: Any) -> None:
    """Raise CorruptModel for a wrong dtype, layout or memory format: torch crashes on invalid numbers."""
    declared = str(argument.real_type)
    for name, expected_type in _ENUMERATIONS.items():
        if name in declared and not (value is None or isinstance(value, expected_type)):
            raise CorruptModel(f"the argument {argument.name} is {str(value)[:40]!r}, not a {name}")
    if any(name in declared for name in _FORBIDDEN_TYPES) and value is not None:
        raise CorruptModel(f"the argument {argument.name} is not allowed in a file")


@cache
def _allowed_operator(target: str) -> Any:
    """Return the operator of this name if it may be called, else None."""
    if target.startswith(_HIGHER_ORDER):
        name = target.removeprefix(_HIGHER_ORDER)
        source = f"higher_order.{name}"
        return getattr(torch.ops.higher_order, name) if source in CONTROL or source in WRAPPERS else None
    match = _OPERATOR.match(target)
    if match is None:
        return None
    namespace, base, overload = match.groups()
    if namespace == "torchvision" and import_torchvision() is None:
        return None
    packet = getattr(getattr(torch.ops, namespace), base, None)
    if not isinstance(packet, torch._ops.OpOverloadPacket):
        return None
    function = getattr(packet, overload, None)
    return function if isinstance(function, torch._ops.OpOverload) and _is_safe(function) else None


def _is_safe(function: torch._ops.OpOverload) -> bool:
    """Return whether an operator has a cost rule, is pointwise or a view by its tags, or is in _COMPOSITES.

    This excludes operators with effects beyond tensors, such as aten.from_file, and those that loop over
    their arguments.
    """
    described = operator_of(function)
    if described.skipped or described.arguments[:1] == ("data",) or described.name in _LOOPING_OPERATORS:
        return False  # packed sequences run step by step
    is_composite = function._schema.name.removeprefix("aten::").removesuffix("_") in _COMPOSITES
    return described.known or described.kind in ("pointwise", "view") or is_composite


def _unknown_operator(target: str, named: list[tuple[str, Any]]) -> Operator:
    """Describe an operator that is not run by its name, and by a cost rule that the user registered."""
    source = re.sub(r"[^\w.]", "_", target.removeprefix("torch.ops.")[:80])
    base = source.rpartition(".")[0] or source
    registered = next((op_kind for name in (source, base) if (op_kind := _registered_kind(name))), None)
    if registered is None and base.startswith(_QUANTIZATION):
        registered = op_kind_of("torch", base)
    labels = tuple(name or f"argument_{index}" for index, (name, _) in enumerate(named))
    tensors = tuple(
        (index, label)
        for index, (label, (_, value)) in enumerate(zip(labels, named, strict=True))
        if isinstance(value, torch.Tensor)
        or (isinstance(value, list) and any(isinstance(item, torch.Tensor) for item in value))
    )
    return Operator(
        registered or base,
        base,
        base.rpartition(".")[2],
        registered is not None,
        labels,
        tensors,
        False,
        False,
        False,
    )


def _check_same_shape(target: str, named: list[tuple[str, Any]], result: Any) -> None:
    """Raise CorruptModel if a quantized tensor is declared with another shape than its source."""
    source = next((value for _, value in named if isinstance(value, torch.Tensor)), None)
    shapes = [tuple(value.shape) for value in (source, result) if isinstance(value, torch.Tensor)]
    has_numbers = all(type(size) is int for shape in shapes for size in shape)
    if len(shapes) != 2 or (has_numbers and shapes[0] != shapes[1]):
        raise CorruptModel(f"{target[:80]}: the output must have the shape of the input")


def _registered_kind(name: str) -> str | None:
    op_kind = op_kind_of("torch", name)
    rule = None if op_kind is None else cost_rule_of(op_kind)
    return op_kind if rule is not None and rule.family == "own" else None


# Functions that compute sizes, called on numbers only.
_ARITHMETIC: dict[str, Callable[..., Any]] = {
    **{
        f"_operator.{name}": getattr(operator, name)
        for name in (
            "eq", "ne", "le", "ge", "lt", "gt", "neg", "pos", "abs", "mul", "add", "sub", "floordiv", "mod",
            "pow", "truediv", "and_", "or_", "lshift", "rshift", "not_", "index",
        )
    },
    **{f"math.{name}": getattr(math, name) for name in ("trunc", "ceil", "floor")},
    **{
        f"torch.{name}": getattr(torch, name)
        for name in ("sym_not", "sym_int", "sym_float", "sym_ite", "sym_max", "sym_min", "sym_sqrt")
        if hasattr(torch, name)
    },
}  # fmt: skip


def _compute(compute: Callable[..., Any], operands: list[Any]) -> Any:
    if not all(isinstance(operand, _NUMBERS) for operand in operands):
        raise CorruptModel(f"{compute.__name__}: operands must be numbers")
    if compute in (operator.pow, operator.lshift) and not (
        isinstance(operands[-1], int) and abs(operands[-1]) <= _LARGEST_SHIFT
    ):
        raise CorruptModel(f"{compute.__name__} by {operands[-1]} is out of range")
    result = compute(*operands)
    if isinstance(result, int) and abs(result) >= _LARGEST:
        raise CorruptModel(f"{compute.__name__} of sizes does not fit 63 bits")
    return result


def _check_part_count(
    function: torch._ops.OpOverload, arguments: Mapping[str, Any], outputs: Outputs
) -> None:
    """Raise CorruptModel if a split returns more tensors than the file declares."""
    declared = len(outputs) if isinstance(outputs, list) else 1
    name = function._schema.name.removeprefix("aten::").removesuffix("_copy")
    parts, data = _PARTS.get(name.removeprefix("unsafe_")), arguments.get("self")
    if parts is None or not isinstance(data, torch.Tensor):
        return
    axis = arguments.get("dim", 0)
    if data.dim() and isinstance(axis, int) and -data.dim() <= axis < data.dim():
        count = parts(data.shape[axis], arguments)
        if isinstance(count, int) and count > declared:
            raise CorruptModel(f"{function} returns {count:,} tensors, but the file declares {declared:,}")


_PARTS = Handlers[Callable[[Any, Mapping[str, Any]], Any]]()
_PARTS("unbind")(lambda size, _: size)


@_PARTS("split")
def _split_parts(size: Any, arguments: Mapping[str, Any]) -> Any:
    split_size = arguments.get("split_size")
    return -(-size // split_size) if isinstance(split_size, int) and split_size > 0 else 0


@_PARTS("chunk")
def _chunks(size: Any, arguments: Mapping[str, Any]) -> Any:
    chunks = arguments.get("chunks")
    if not isinstance(chunks, int) or chunks < 1 or not isinstance(size, int) or size < 1:
        return 0
    return -(-size // -(-size // chunks))


@_PARTS("tensor_split", "hsplit")
@_PARTS("vsplit", "dsplit")
def _equal_parts(size: Any, arguments: Mapping[str, Any]) -> Any:
    sections = arguments.get("sections")
    return sections if isinstance(sections, int) else 0
