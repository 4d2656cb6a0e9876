"""Trains the draft model over a target that stays as it is."""

from __future__ import annotations

import numpy as np
import torch

from examples.train_mini.curve import Curve
from examples.train_mini.draft_net import DraftNet
from examples.train_mini.mini_net import MiniNet
from examples.train_mini.optimizer import Optimizer, learning_rate_factor
from examples.train_mini.pieces.token_pieces import norm_rows
from examples.train_mini.rows import Rows
from examples.train_mini.run_clock import RunClock
from examples.train_mini.run_options import RunOptions
from examples.train_mini.step_graph import StepGraph, Tensors
from examples.train_mini.target_run import balance_routers, is_target

_ROUTER_RATES = (0.002, 0.0004)
_PROMPT_WEIGHT = 0.1  # of tokens that carry no loss


class DraftRun:
    """Blocks of drafts behind random positions learn the target's distributions; earlier drafts count more."""

    def __init__(self, net: MiniNet, options: RunOptions) -> None:
        self._net, self._options = net, options
        self._draft = DraftNet(net)
        own = {}
        for name, tensor in net.parameters.items():
            tensor.requires_grad_(not is_target(name) and not name.endswith("gate.bias"))
            if tensor.requires_grad:
                own[name] = tensor
        self._optimizer = Optimizer(own, options.draft_rate, net.config.o_groups)
        self._router_rate = torch.zeros((), device=net.device)
        self._generator = torch.Generator(device=net.device).manual_seed(options.seed + 2)
        self._step_graph = StepGraph(self._step, options.captured)

    def run(self) -> dict[str, float]:
        """Train to the end; the last loss, the mean number of tokens a block would give, and the number of steps."""
        options, size = self._options, self._net.config.dspark_block_size
        rows = Rows(np.load(options.data / "train.npy"), self._net.device, options.seed + 77)
        clock = RunClock(options.draft_seconds, options.draft_steps)
        curve = Curve(options.out / "draft.jsonl")
        loss, expected = torch.zeros(()), 0.0
        while (share := clock.share()) < 1.0:
            batch = rows.batch(options.batch)
            anchors = self._anchors(batch[2])
            self._optimizer.prepare(learning_rate_factor(max(share, 1e-4)))
            self._router_rate.fill_(_ROUTER_RATES[share >= 0.8])
            loss, keep, sure, hit, norm = self._step_graph(*batch, anchors)
            clock.advance()
            chances = keep.reshape(-1, size)
            expected = float(1 + chances.cumprod(-1).sum(-1).mean())
            if clock.step % options.every == 0:
                values = {"loss": float(loss), "norm": float(norm), "keep": chances.mean(0).tolist()}
                values |= {"hit": hit.reshape(-1, size).mean(0).tolist(), "expect": expected}
                bias = float((torch.sigmoid(sure) - keep).mean())
                curve.add(step=clock.step, share=share, **values, bias=bias, t=clock.elapsed())
        curve.close()
        return {"draft_steps": clock.step, "draft_loss": float(loss), "tokens_per_block": expected}

    def _anchors(self, weights: torch.Tensor) -> torch.Tensor:
        """int64 [B, A], ascending: positions whose block has labels, at random, loss-bearing ones preferred."""
        size = self._net.config.dspark_block_size
        ranks = torch.rand(weights.shape, device=weights.device, generator=self._generator) + (weights > 0).float()
        ranks[:, :1] = -1
        ranks[:, weights.shape[1] - size :] = -1
        return ranks.topk(self._options.anchors, -1).indices.sort(-1).values

    def _step(self, ids: torch.Tensor, labels: torch.Tensor, weights: torch.Tensor, anchors: torch.Tensor) -> Tensors:
        net, own = self._net, self._net.parameters
        size, last = net.config.dspark_block_size, f"mtp.{net.config.num_nextn_predict_layers - 1}."
        with torch.no_grad():
            hidden, _, features = net.forward(ids, sparse=True, features=True)
            teacher = norm_rows(hidden, own["norm.weight"])
        guessed = self._draft.forward(ids, self._draft.context(features, ids.shape[0]), anchors)
        offsets = torch.arange(size, device=ids.device)
        places = (anchors[:, :, None] + offsets).flatten(1)
        starts = torch.arange(ids.shape[0], device=ids.device)[:, None] * ids.shape[1]
        counts = weights.gather(1, places).unflatten(1, (-1, size)) * (1 - _PROMPT_WEIGHT) + _PROMPT_WEIGHT
        loss, keep, sure, hit = net.pieces.draft_loss(
            guessed,
            own[f"{last}norm.weight"],
            own["head.weight"],
            (own[f"{last}markov_head.embed.weight"], own[f"{last}markov_head.head.weight"]),
            own[f"{last}confidence_head.proj.weight"],
            ids.gather(1, places).flatten(),
            labels.gather(1, places).flatten(),
            teacher.index_select(0, (places + starts).flatten()),
            (counts * torch.exp(-offsets / 4.0)).flatten(),
        )
        loss.backward()
        norm = self._optimizer.step()
        balance_routers(net, self._router_rate, "mtp.")
        return loss.detach(), keep.detach(), sure, hit.detach(), norm.detach()
