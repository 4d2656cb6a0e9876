"""Muon for matrices inside the blocks, Adam for everything else; gradients are clipped together."""

from __future__ import annotations

import math

import torch

from examples.train_mini.parameters import Parameters

_ADAM_RATES = (
    ("embed.weight", 0.008),
    ("markov_head", 0.004),
    ("head.weight", 0.002),
    ("_fn", 0.0003),
    ("_scale", 0.001),
    ("_base", 0.003),
    ("attn_sink", 0.01),
    ("confidence", 0.004),
    ("gate.weight", 0.001),
    ("weights_proj", 0.002),
)
_ADAM_RATE = 0.002  # of all others
_NOT_MUON = (
    "embed.weight",
    "head.weight",
    "markov",
    "confidence",
    "hc_",
    "ffn.gate.weight",
    "weights_proj",
    "q_weight",
    "k_weight",
)
_BETAS = (0.9, 0.98)


def learning_rate_factor(share: float) -> float:
    """At a share of the run: a short warm-up, a plateau, and a linear fall."""
    return max(0.0, min(1.0, share / 0.015 + 0.02, (1.0 - share) / 0.40))


class Optimizer:
    """Steps all parameters that require gradients.

    `prepare` is the host's part of a step, so that `step` can be captured in a CUDA graph.
    """

    def __init__(self, parameters: Parameters, muon_rate: float, num_groups: int, weight_decay: float = 0.1) -> None:
        """Args:
        parameters: trained in place.
        muon_rate: learning rate of Muon; Adam's are in the table above.
        num_groups: groups that the first output matrix of the attention consists of.
        weight_decay: of Muon's matrices.
        """
        self._muon_rate, self._decay, self._num_steps = muon_rate, weight_decay, 0
        self._matrices: dict[tuple, list[tuple[torch.Tensor, tuple]]] = {}
        self._adam: list[tuple[torch.Tensor, float, torch.Tensor, torch.Tensor]] = []
        for name, tensor in parameters.items():
            if tensor.dim() >= 2 and not any(part in name for part in _NOT_MUON):
                rows, columns = tensor.shape[-2:]
                is_grouped = name.endswith("wo_a.weight")
                shape = (num_groups, rows // num_groups, columns) if is_grouped else tuple(tensor.shape)
                self._matrices.setdefault(shape[-2:], []).append((tensor, shape))
            else:
                rate = next((rate for part, rate in _ADAM_RATES if part in name), _ADAM_RATE)
                self._adam.append((tensor, rate, torch.zeros_like(tensor), torch.zeros_like(tensor)))
        self._momenta = {
            size: torch.zeros(sum(math.prod(shape[:-2]) for _, shape in items), *size, device=items[0][0].device)
            for size, items in self._matrices.items()
        }
        self._all = [tensor for items in self._matrices.values() for tensor, _ in items]
        self._all += [entry[0] for entry in self._adam]
        self._knobs = torch.zeros(4, device=self._all[0].device)

    def prepare(self, factor: float) -> None:
        """Move a step's learning-rate factor and Adam's corrections to the device."""
        self._num_steps += 1
        first, second = (1 / (1 - beta**self._num_steps) for beta in _BETAS)
        values = torch.tensor([factor, first, second, 1 - self._muon_rate * factor * self._decay])
        self._knobs.copy_(values.pin_memory() if self._knobs.is_cuda else values, non_blocking=True)

    def step(self) -> torch.Tensor:
        """Apply the gradients and drop them; the norm of all of them before clipping."""
        gradients = [tensor.grad for tensor in self._all if tensor.grad is not None]
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
        clip = (1.0 / (norm + 1e-6)).clamp(max=1.0)
        self._muon_step(clip)
        self._adam_step(clip)
        for tensor in self._all:
            tensor.grad = None
        return norm

    def _muon_step(self, clip: torch.Tensor) -> None:
        factor, keep = self._knobs[0], self._knobs[3]
        for size, items in self._matrices.items():
            found = [(tensor.grad if tensor.grad is not None else torch.zeros_like(tensor)) for tensor, _ in items]
            gradient = torch.cat([item.reshape(-1, *size) for item in found]) * clip
            momentum = self._momenta[size]
            momentum.lerp_(gradient, 0.05)
            update = _orthogonal(gradient.lerp(momentum, 0.95)) * (0.2 * max(size) ** 0.5 * self._muon_rate * factor)
            tensors = [tensor.data for tensor, _ in items]
            parts = update.split([math.prod(shape[:-2]) for _, shape in items])
            torch._foreach_mul_(tensors, keep)
            torch._foreach_sub_(tensors, [part.reshape(t.shape) for part, t in zip(parts, tensors, strict=True)])

    def _adam_step(self, clip: torch.Tensor) -> None:
        factor, first, second, _ = self._knobs.unbind()
        entries = [entry for entry in self._adam if entry[0].grad is not None]
        gradients = torch._foreach_mul([entry[0].grad for entry in entries], clip)
        means, squares = [entry[2] for entry in entries], [entry[3] for entry in entries]
        torch._foreach_lerp_(means, gradients, 1 - _BETAS[0])
        torch._foreach_mul_(squares, _BETAS[1])
        torch._foreach_addcmul_(squares, gradients, gradients, 1 - _BETAS[1])
        roots = torch._foreach_sqrt(torch._foreach_mul(squares, second))
        torch._foreach_add_(roots, 1e-10)
        updates = torch._foreach_div(torch._foreach_mul(means, first), roots)
        torch._foreach_mul_(updates, factor)
        torch._foreach_mul_(updates, [-entry[1] for entry in entries])
        torch._foreach_add_([entry[0].data for entry in entries], updates)


def _orthogonal(matrices: torch.Tensor) -> torch.Tensor:
    """Five Newton-Schulz steps towards the nearest (semi-)orthogonal matrices [n, rows, columns]."""
    x = matrices.to(torch.bfloat16)
    is_tall = x.shape[-2] > x.shape[-1]
    if is_tall:
        x = x.mT
    x = x / (x.float().norm(dim=(-2, -1), keepdim=True).to(x.dtype) + 1e-7)
    for _ in range(5):
        gram = x @ x.mT
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * (gram @ gram)) @ x
    return (x.mT if is_tall else x).float()
