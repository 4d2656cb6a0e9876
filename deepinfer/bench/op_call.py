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
        rows = self.args[0] if self.result is None else self.result  # an op that writes into a cache gives nothing
        return all(tensor.numel() == 0 for tensor in _tensors(rows))

    @property
    def shapes(self) -> str:
        """Shapes of the large operands, as "2x256 192x256"."""
        return " ".join(_shape(operand) for operand in self.args if _is_large(operand))

    @property
    def num_bytes(self) -> int:
        """Bytes of operands read and results written, each once; of experts, tables and caches what the rows name, of
        logits as often as the sampler reads them.
        """
        operands = (*self.args, *self.kwargs.values())
        count = _BYTES_READ.get(self.name)
        return _num_bytes(self.result) + (_num_bytes(operands) if count is None else count(self))

    @property
    def multiply_adds(self) -> int | None:
        """Of products; None for an op that is none."""
        count = _MULTIPLY_ADDS.get(self.name)
        return None if count is None else count(self)


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


def _moe_bytes(call: OpCall) -> int:
    x, ids, weights, w1, w3, w2, shared = call.args
    share = ids.unique().numel() / w1.codes.shape[0]
    return _num_bytes((x, ids, weights, shared)) + round(share * _num_bytes((w1, w3, w2)))


def _table_bytes(call: OpCall) -> int:
    rows, *tables = call.args[: 3 if call.name == "engram_lookup" else 2]
    return _num_bytes(rows) + rows.numel() * _num_bytes(tuple(table[:1] for table in tables))


def _pair_bytes(call: OpCall) -> int:
    new, _, second, carried, _ = call.args
    return _num_bytes((second, carried)) + second.numel() * 2 * _num_bytes(new[:1])


def _store_bytes(call: OpCall) -> int:
    """Written, too: the vectors lie in a cache."""
    *vectors, cache, units, places = call.args
    return _num_bytes((*vectors, units, places)) + units.numel() * cache.format.num_bytes


def _select_bytes(call: OpCall) -> int:
    q, head_weights, entries, num_visible, candidates = call.args
    tables, row_seq = entries.first_block.unique(return_inverse=True)
    read = num_visible.new_zeros(tables.shape).scatter_reduce(0, row_seq, num_visible, "amax")
    if candidates is not None:  # at most what the candidate blocks of a table's rows hold
        rows = row_seq.bincount(minlength=tables.shape[0])
        read = torch.minimum(read, rows * candidates.shape[1] * call.kwargs["block_size"])
    return _num_bytes((q, head_weights, num_visible, candidates)) + int(read.sum()) * entries.cache.format.num_bytes


def _attention_bytes(call: OpCall) -> int:
    *operands, entries, picks, sink = call.args
    num_bytes = _num_bytes((*operands, picks, sink))
    return num_bytes if entries is None else num_bytes + int((picks >= 0).sum()) * entries.cache.format.num_bytes


def _sample_bytes(call: OpCall) -> int:
    """Passes over the logits: for the maximum; for the mass by distance from it, if any row draws; for the tokens near
    the cut, if any row has a filter. Those tokens, few where a text makes some likely, are then looked at alone.
    """
    logits, rules, _ = call.args
    return (1 + rules.kinds.draws + rules.kinds.filters) * _num_bytes(logits) + _num_bytes(rules)


def _linear(call: OpCall) -> int:
    x, weight = call.args[:2]
    num_out = weight.out_features if isinstance(weight, QuantizedWeight) else weight.shape[0]
    return math.prod(x.shape[:-1]) * x.shape[-1] * num_out


def _rotate_grouped_linear(call: OpCall) -> int:
    heads, weight = call.args[0], call.args[3]
    return heads.numel() // call.kwargs["num_groups"] * weight.out_features


def _moe(call: OpCall) -> int:
    x, ids, _, w1 = call.args[:4]
    return 3 * x.shape[0] * x.shape[1] * w1.out_features * (ids.shape[1] + 1)


def _step_bytes(call: OpCall) -> int:
    """Without an update the streams in the result are those given: nobody writes them."""
    streams, _, update = call.args[:3]
    return _num_bytes(call.args) - (_num_bytes(streams) if update is None else 0)


def _hc_step(call: OpCall) -> int:
    streams, *_, (fn, _, _) = call.args
    return streams.shape[0] * fn.numel()


def _route(call: OpCall) -> int:
    return call.args[0].shape[0] * call.args[1].numel()


def _select_entries(call: OpCall) -> int:
    q, num_visible, candidates = call.args[0], *call.args[3:]
    scored = num_visible[num_visible > call.kwargs["topk"]]
    if candidates is not None:
        scored = scored.clamp(max=candidates.shape[1] * call.kwargs["block_size"])
    return q[0].numel() * int(scored.sum()) if q.shape[0] else 0


def _sparse_attention(call: OpCall) -> int:
    q, _, window_index, _, picks = call.args[:5]
    return 2 * q.numel() * (window_index.shape[1] + (0 if picks is None else picks.shape[1]))


_BYTES_READ: Final[dict[str, Callable[[OpCall], int]]] = {
    "moe": _moe_bytes,
    "engram_lookup": _table_bytes,
    "expand_embedding": _table_bytes,
    "compress_pairs": _pair_bytes,
    "hc_step": _step_bytes,
    "store_vectors": _store_bytes,
    "select_entries": _select_bytes,
    "sparse_attention": _attention_bytes,
    "sample_rows": _sample_bytes,
}
_MULTIPLY_ADDS: Final[dict[str, Callable[[OpCall], int]]] = {
    "linear": _linear,
    "quantized_linear": _linear,
    "rotate_grouped_linear": _rotate_grouped_linear,
    "moe": _moe,
    "route": _route,
    "select_entries": _select_entries,
    "sparse_attention": _sparse_attention,
    "hc_mix": _route,
    "hc_step": _hc_step,
}
