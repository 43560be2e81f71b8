"""Running a decoded program on tensors without content, so that the recorder sees its operators.

Only operators of torch that are on a list are called. Any other one (a custom operator, a function that a
file names) is never looked up: it becomes an unknown row with the shapes that the file declares.
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
from sizeup.formats.torch.control import CONTROL, WRAPPERS
from sizeup.formats.torch.json_values import Opaque, Reference
from sizeup.formats.torch.record import Recorder
from sizeup.formats.torch.serialized import Node, Outputs, ProgramGraph, TensorMeta, tensor_meta
from sizeup.formats.torch.translate import Operator, operator_of
from sizeup.formats.torch.zoo import import_torchvision
from sizeup.ops import kind_of, rule_of
from sizeup.ops.rule import names

Values: TypeAlias = dict[str, Any]  # of a graph, by name

_OPERATOR = re.compile(r"torch\.ops\.(aten|prims|torchvision)\.(\w+)\.(\w+)\Z")
_HIGHER_ORDER = "torch.ops.higher_order."
_NUMBERS = (int, float, bool, torch.SymInt, torch.SymFloat, torch.SymBool)
_MOST_PIECES = 2_000  # operators that one is taken apart into
_MOST_TERMS = 64  # of the expression of a size
_LARGEST = 1 << 62
_LARGEST_SHIFT = 62
_ENUMERATIONS = {
    "ScalarType": torch.dtype,
    "MemoryFormat": torch.memory_format,
    "Layout": torch.layout,
    "Device": torch.device,
}
_LOOPING = ("combinations", "cartesian_prod")
_NEVER_GIVEN = ("Generator", "Storage", "Stream", "Dimname")
# Made of other operators by torch itself, in a number that does not depend on their arguments.
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
        self._terms: dict[int, int] = {}  # of symbolic numbers, by the id of an object that `_kept` holds
        self._kept: list[Any] = []
        assert recorder.mode is not None
        # Fallback kernels would run on memory of the sizes that a file claims.
        recorder.mode.allow_fallback_kernels = False

    def run(self, graph: ProgramGraph, arguments: Iterable[Any]) -> list[Any]:
        """What the program returns for these arguments; module paths are those of its nodes."""
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
            except Exception as error:  # torch raises anything on arguments that do not suit an operator
                summary = str(error).strip().partition("\n")[0]
                raise CorruptModel(
                    f"{node.target[:80]} cannot run: {type(error).__name__}: {summary}"
                ) from error
            _bind(node.outputs, result, values, node.target)
        return [_resolved(each, values) for each in graph.outputs]

    def _call(self, graph: ProgramGraph, node: Node, values: Values) -> Any:
        named = [(name, _resolved(each, values, self._function)) for name, each in node.arguments]
        compute = _ARITHMETIC.get(node.target)
        if compute is not None:
            return self._weighed(compute, [each for _, each in named])
        function = _allowed(node.target)
        if function is None:
            return self._declared(graph, node, named)
        if isinstance(function, torch._ops.HigherOrderOperator):
            return function(*(each for _, each in named))
        _refuse_many_parts(function, dict(named), node.outputs)
        args, kwargs = _by_schema(function, named)
        # What one operator is taken apart into is bounded, whatever its arguments ask for.
        self._recorder.most_ops = len(self._recorder.builder.ops) + _MOST_PIECES
        try:
            return function(*args, **kwargs)
        except UnsupportedOperatorException:  # it has no implementation without content
            return self._declared(graph, node, named)

    def _weighed(self, compute: Callable[..., Any], operands: list[Any]) -> Any:
        """A size computed from others; one whose expression grows too long is unknown."""
        terms = 1 + sum(self._terms.get(id(each), 0) for each in operands)
        if terms > _MOST_TERMS:
            return self._unknown_size()
        result = _computed(compute, operands)
        if not isinstance(result, int | float):
            self._terms[id(result)] = terms
            self._kept.append(result)
        return result

    def _function(self, graph: ProgramGraph) -> Callable[..., Any]:
        """A graph inside another as what control flow calls."""

        def call(*arguments: Any) -> Any:
            results = self._run(graph, arguments, is_root=False)
            return results[0] if graph.is_single and len(results) == 1 else tuple(results)

        return call

    def _declared(self, graph: ProgramGraph, node: Node, named: list[tuple[str, Any]]) -> Any:
        """The outputs of an operator that is not run, as the file describes them."""
        recorder = _get_current_dispatch_mode()
        assert isinstance(recorder, Recorder)  # control flow gives its bodies recorders of their own
        with _pop_mode_temporarily():
            result = self._declared_outputs(graph, node.outputs)
        operator_ = _foreign(node.target, named)
        values = dict(zip(operator_.arguments, (each for _, each in named), strict=True))
        recorder.record_unseen_call(operator_, values, result)
        return result

    def _declared_outputs(self, graph: ProgramGraph, outputs: Outputs) -> Any:
        if outputs is None:
            return None
        if isinstance(outputs, list):
            return [self._declared_outputs(graph, each) for each in outputs]
        if outputs in graph.tensor_values:
            return self._empty(tensor_meta(graph.tensor_values[outputs]))
        if outputs not in graph.size_values:
            raise CorruptModel(f"nothing is declared of {outputs[:60]!r}")
        return self._unknown_size()

    def _empty(self, meta: TensorMeta) -> torch.Tensor:
        sizes = [self._size(each) for each in meta.sizes]
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


def _resolved(item: Any, values: Values, function: Callable[[ProgramGraph], Any] | None = None) -> Any:
    if isinstance(item, Reference):
        if item.name not in values:
            raise CorruptModel(f"{item.name[:60]!r} is used before it is computed")
        return values[item.name]
    if isinstance(item, Opaque):
        return None
    if isinstance(item, list):
        return [_resolved(each, values, function) for each in item]
    if isinstance(item, dict):
        return {name: _resolved(each, values, function) for name, each in item.items()}
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
        for each, value in zip(outputs, result, strict=True):
            _bind(each, value, values, target)


def _by_schema(
    function: torch._ops.OpOverload, named: list[tuple[str, Any]]
) -> tuple[list[Any], dict[str, Any]]:
    """Arguments by position as far as they go, then by name."""
    given = dict(named)
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    in_order = True
    for argument in function._schema.arguments:
        if argument.name not in given:
            in_order = False
            continue
        value = given.pop(argument.name)
        _check_kind(argument, value)
        if in_order and not argument.kwarg_only:
            args.append(value)
        else:
            kwargs[argument.name] = value
    if given:
        raise CorruptModel(f"{function} has no argument {next(iter(given))[:60]!r}")
    return args, kwargs


def _check_kind(argument: Any, value: Any) -> None:
    """Torch takes any number for an element type, a layout or a memory format, and crashes on wrong ones."""
    declared = str(argument.real_type)
    for name, kind in _ENUMERATIONS.items():
        if name in declared and not (value is None or isinstance(value, kind)):
            raise CorruptModel(f"the argument {argument.name} is {str(value)[:40]!r}, not a {name}")
    if any(name in declared for name in _NEVER_GIVEN) and value is not None:
        raise CorruptModel(f"the argument {argument.name} cannot be given in a file")


@cache
def _allowed(target: str) -> Any:
    """The operator of that name if it may be called, else None."""
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
    return function if isinstance(function, torch._ops.OpOverload) and _is_harmless(function) else None


def _is_harmless(function: torch._ops.OpOverload) -> bool:
    """Whether its effect is known: by our table of operators, by torch's tags, or by the list of composites.

    This leaves out what reaches beyond tensors, such as aten.from_file, and what loops over its arguments.
    """
    described = operator_of(function)
    if described.skipped or described.arguments[:1] == ("data",) or described.name in _LOOPING:
        return False  # packed sequences run step by step
    is_composite = function._schema.name.removeprefix("aten::").removesuffix("_") in _COMPOSITES
    return described.known or described.kind in ("pointwise", "view") or is_composite


def _foreign(target: str, named: list[tuple[str, Any]]) -> Operator:
    """What is known of an operator that is not run: its name, and a rule that the user has registered."""
    source = re.sub(r"[^\w.]", "_", target.removeprefix("torch.ops.")[:80])
    base = source.rpartition(".")[0] or source
    own = next((kind for name in (source, base) if (kind := _own_kind(name))), None)
    labels = tuple(name or f"argument_{place}" for place, (name, _) in enumerate(named))
    tensors = tuple(
        (place, label)
        for place, (label, (_, value)) in enumerate(zip(labels, named, strict=True))
        if isinstance(value, torch.Tensor)
        or (isinstance(value, list) and any(isinstance(each, torch.Tensor) for each in value))
    )
    return Operator(
        own or base, base, base.rpartition(".")[2], own is not None, labels, tensors, False, False, False
    )


def _own_kind(name: str) -> str | None:
    kind = kind_of("torch", name)
    rule = None if kind is None else rule_of(kind)
    return kind if rule is not None and rule.family == "own" else None


# What computes sizes: Python's own functions, called on numbers alone.
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


def _computed(compute: Callable[..., Any], operands: list[Any]) -> Any:
    if not all(isinstance(each, _NUMBERS) for each in operands):
        raise CorruptModel(f"{compute.__name__} takes numbers only")
    if compute in (operator.pow, operator.lshift) and not (
        isinstance(operands[-1], int) and abs(operands[-1]) <= _LARGEST_SHIFT
    ):
        raise CorruptModel(f"{compute.__name__} by {operands[-1]} is out of range")
    result = compute(*operands)
    if isinstance(result, int) and abs(result) >= _LARGEST:
        raise CorruptModel(f"{compute.__name__} of sizes does not fit 63 bits")
    return result


def _refuse_many_parts(function: torch._ops.OpOverload, given: Mapping[str, Any], outputs: Outputs) -> None:
    """An operator that returns a list makes one tensor per part; a file has to name each of them."""
    named = len(outputs) if isinstance(outputs, list) else 1
    name = function._schema.name.removeprefix("aten::").removesuffix("_copy")
    parts, data = _PARTS.get(name.removeprefix("unsafe_")), given.get("self")
    if parts is None or not isinstance(data, torch.Tensor):
        return
    axis = given.get("dim", 0)
    if data.dim() and isinstance(axis, int) and -data.dim() <= axis < data.dim():
        count = parts(data.shape[axis], given)
        if isinstance(count, int) and count > named:
            raise CorruptModel(f"{function} returns {count:,} tensors, and the file names {named:,}")


def _split_parts(size: Any, given: Mapping[str, Any]) -> Any:
    each = given.get("split_size")
    return -(-size // each) if isinstance(each, int) and each > 0 else 0


def _chunks(size: Any, given: Mapping[str, Any]) -> Any:
    chunks = given.get("chunks")
    if not isinstance(chunks, int) or chunks < 1 or not isinstance(size, int) or size < 1:
        return 0
    return -(-size // -(-size // chunks))


def _equal_parts(size: Any, given: Mapping[str, Any]) -> Any:
    sections = given.get("sections")
    return sections if isinstance(sections, int) else 0


_PARTS: dict[str, Callable[[Any, Mapping[str, Any]], Any]] = {
    "unbind": lambda size, _: size,
    "split": _split_parts,
    "chunk": _chunks,
    "tensor_split": _equal_parts,
    "hsplit": _equal_parts,
    "vsplit": _equal_parts,
    "dsplit": _equal_parts,
}
