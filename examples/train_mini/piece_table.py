"""The pieces of the network, plain or compiled. A compiled piece is compared with its plain form before it is used."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch

from examples.train_mini.pieces import attention_pieces, losses, token_pieces

LARGEST_ERROR = 0.12  # relative; a piece in bf16 is some hundredths from itself in another order
PIECES = (
    token_pieces.norm_rows,
    token_pieces.mix,
    token_pieces.collapse,
    token_pieces.write,
    token_pieces.attention_inputs,
    token_pieces.context_keys,
    token_pieces.attention_output,
    token_pieces.experts,
    token_pieces.engram,
    token_pieces.compress,
    attention_pieces.attend_window,
    attention_pieces.attend_both,
    attention_pieces.attend_block,
    attention_pieces.index_scores,
    attention_pieces.index_loss,
    losses.head_loss,
    losses.draft_loss,
)


def piece_table(compiled: bool = False) -> SimpleNamespace:
    """Every piece under its name."""
    if compiled:
        torch._dynamo.config.cache_size_limit = 64
    return SimpleNamespace(**{piece.__name__: CompiledPiece(piece) if compiled else piece for piece in PIECES})


class CompiledPiece:
    """Compares values and gradients at its first call in training and stays plain where they disagree.

    Inductor of torch 2.11 got a sum over the streams followed by an RMS norm wrong by 14 %; the two are separate pieces
    since then.
    """

    def __init__(self, plain: Callable[..., Any]) -> None:
        self._plain = plain
        self._compiled = torch.compile(plain, dynamic=False)
        self._is_judged = False

    def __call__(self, *args: Any) -> Any:
        is_capturing = args[0].is_cuda and torch.cuda.is_current_stream_capturing()
        if not self._is_judged and torch.is_grad_enabled() and not is_capturing:
            self._is_judged = True
            self._judge(args)
        return self._compiled(*args)

    def _judge(self, args: tuple[Any, ...]) -> None:
        wanted, found = _run(self._plain, args), _run(self._compiled, args)
        errors = [_relative(a, b) for a, b in zip(wanted, found, strict=False)]
        is_wrong = len(wanted) != len(found) or max(errors, default=0.0) > LARGEST_ERROR
        verdict = "stays plain" if is_wrong else "is compiled"
        print(f"piece {self._plain.__name__} {verdict}: errors {[round(error, 4) for error in errors]}", flush=True)
        if is_wrong:
            self._compiled = self._plain


def _run(function: Callable[..., Any], args: tuple[Any, ...]) -> list[torch.Tensor]:
    """Results of a call and gradients of its arguments."""
    leaves: list[torch.Tensor] = []
    own = [_leaf(arg, leaves) for arg in args]
    results = function(*own)
    results = [item for item in (results if isinstance(results, tuple) else (results,)) if item is not None]
    generator = torch.Generator(device=results[0].device).manual_seed(1)
    total: Any = 0.0
    for item in results:
        if item.requires_grad:
            noise = torch.randn(item.shape, generator=generator, device=item.device)
            total = total + (item.float() * noise).sum()
    if isinstance(total, torch.Tensor):
        total.backward()
    gradients = [leaf.grad.float() for leaf in leaves if leaf.grad is not None]
    return [item.detach().float() for item in results] + gradients


def _leaf(arg: Any, leaves: list[torch.Tensor]) -> Any:
    if isinstance(arg, tuple):
        return tuple(_leaf(item, leaves) for item in arg)
    if not isinstance(arg, torch.Tensor):
        return arg
    leaves.append(arg.detach().clone().requires_grad_(arg.requires_grad))
    return leaves[-1]


def _relative(wanted: torch.Tensor, found: torch.Tensor) -> float:
    return float((wanted - found).norm() / (wanted.norm() + 1e-9))
