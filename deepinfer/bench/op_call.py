"""One call of an op with its operands, and how much work it is."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Final

import torch

from deepinfer.core.quantized_weight import QuantizedWeight


@dataclass(slots=True)
class OpCall:
    """Recorded while a model ran.

    Attributes:
        name: of the op contract.
        args, kwargs: operands.
        result: what came out.
        count: calls with operands of these shapes in the step.
    """

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: Any
    count: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether there was nothing to do: no row of the step took part."""
        return all(tensor.numel() == 0 for tensor in _tensors(self.result))

    @property
    def shapes(self) -> str:
        """Shapes of the large operands, as "2x256 192x256"."""
        return " ".join(_shape(operand) for operand in self.args if _is_large(operand))

    @property
    def num_bytes(self) -> int:
        """Bytes of operands read and results written, each once; of experts and tables only what the rows name."""
        num_written = _num_bytes(self.result)
        if self.name == "moe":
            return num_written + _moe_bytes(self.args)
        if self.name == "engram_lookup":
            rows, codes, scales = self.args
            return num_written + _num_bytes(rows) + rows.numel() * (_num_bytes((codes[:1], scales[:1])))
        return num_written + _num_bytes(self.args) + _num_bytes(tuple(self.kwargs.values()))

    @property
    def multiply_adds(self) -> int | None:
        """Of products; None for an op that is none."""
        count = _MULTIPLY_ADDS.get(self.name)
        return None if count is None else count(self.args)


def _is_large(operand: Any) -> bool:
    return isinstance(operand, QuantizedWeight) or (isinstance(operand, torch.Tensor) and operand.ndim > 1)


def _shape(operand: Any) -> str:
    if isinstance(operand, QuantizedWeight):
        return "x".join(map(str, (*operand.codes.shape[:-1], operand.in_features)))
    return "x".join(map(str, operand.shape))


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif is_dataclass(value):
        for item in fields(value):
            yield from _tensors(getattr(value, item.name))
    elif isinstance(value, tuple):
        for part in value:
            yield from _tensors(part)


def _num_bytes(value: Any) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in _tensors(value))


def _moe_bytes(args: tuple[Any, ...]) -> int:
    x, ids, weights, w1, w3, w2, shared = args
    share = ids.unique().numel() / w1.codes.shape[0]
    return _num_bytes((x, ids, weights, shared)) + round(share * _num_bytes((w1, w3, w2)))


def _linear(args: tuple[Any, ...]) -> int:
    x, weight = args[:2]
    num_out = weight.out_features if isinstance(weight, QuantizedWeight) else weight.shape[0]
    return math.prod(x.shape[:-1]) * x.shape[-1] * num_out


def _grouped_linear(args: tuple[Any, ...]) -> int:
    x, weight = args[:2]
    return x.shape[0] * x.shape[-1] * weight.out_features


def _moe(args: tuple[Any, ...]) -> int:
    x, ids, _, w1 = args[:4]
    return 3 * x.shape[0] * x.shape[1] * w1.out_features * (ids.shape[1] + 1)


def _route(args: tuple[Any, ...]) -> int:
    return args[0].shape[0] * args[1].numel()


def _index_scores(args: tuple[Any, ...]) -> int:
    q, _, keys = args[:3]
    return q.numel() * keys.shape[1]


def _sparse_attention(args: tuple[Any, ...]) -> int:
    q, _, window_index, entries = args[:4]
    return 2 * q.numel() * (window_index.shape[1] + (0 if entries is None else entries.shape[1]))


_MULTIPLY_ADDS: Final[dict[str, Callable[[tuple[Any, ...]], int]]] = {
    "linear": _linear,
    "quantized_linear": _linear,
    "grouped_linear": _grouped_linear,
    "moe": _moe,
    "route": _route,
    "index_scores": _index_scores,
    "sparse_attention": _sparse_attention,
    "hc_mix": _route,
}
