"""Losses of the target and of the draft."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from examples.train_mini.pieces.number_formats import BF16
from examples.train_mini.pieces.token_pieces import norm_rows


def head_loss(
    hidden: torch.Tensor, gain: torch.Tensor, head: torch.Tensor, labels: torch.Tensor, weights: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """hidden [N, D], labels and weights [N] -> weighted mean of the negative log-probabilities, and all of them [N]."""
    logits = (norm_rows(hidden, gain) @ head.to(BF16).T).float()
    nll = torch.logsumexp(logits, -1) - logits.gather(-1, labels[:, None])[:, 0]
    return (nll * weights).sum() / (weights.sum() + 1e-6), nll.detach()


def draft_loss(
    hidden: torch.Tensor,
    gain: torch.Tensor,
    head: torch.Tensor,
    markov: tuple[torch.Tensor, torch.Tensor],
    confidence: torch.Tensor,
    previous: torch.Tensor,
    labels: torch.Tensor,
    teacher: torch.Tensor,
    weights: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Drafts should equal the target's distribution, and the confidence head know the chance of that.

    Args:
        hidden: [N, D] of drafts, before the norm.
        gain, head: of norm and output matrix.
        markov: embedding [V, r] of the previous token, and its matrix [V, r].
        confidence: [1, D + r].
        previous, labels: [N], the token before, and the one to guess.
        teacher: [N, D], the target's last hidden state, normed.
        weights: [N].

    Returns:
        The loss; chance of acceptance [N], confidence logits [N], whether greedy drafts are right [N].
    """
    matrix = head.to(BF16).detach()
    embedded = F.embedding(previous, markov[0]).to(BF16)
    logits = (norm_rows(hidden, gain) @ matrix.T).float() + (embedded @ markov[1].to(BF16).T).float()
    logprobs = torch.log_softmax(logits, -1)
    target_logits = teacher @ matrix.T
    distance = (logprobs.exp() - torch.softmax(target_logits.float(), -1)).abs().sum(-1)
    cross_entropy = -logprobs.gather(-1, labels[:, None])[:, 0]
    keep = (1 - 0.5 * distance).detach().clamp(0, 1)
    sure = (torch.cat((hidden, embedded), -1) @ confidence.to(BF16).T).float()[:, 0]
    sure_loss = F.binary_cross_entropy_with_logits(sure, keep, reduction="none")
    total = ((0.1 * cross_entropy + 0.9 * distance + sure_loss) * weights).sum() / (weights.sum() + 1e-6)
    return total, keep, sure.detach(), (logits.argmax(-1) == target_logits.argmax(-1)).float()
