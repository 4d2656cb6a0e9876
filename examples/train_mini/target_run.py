"""Trains the target model."""

from __future__ import annotations

import numpy as np
import torch

from examples.train_mini.curve import Curve
from examples.train_mini.mini_net import MiniNet
from examples.train_mini.optimizer import Optimizer, learning_rate_factor
from examples.train_mini.rows import Rows
from examples.train_mini.run_clock import RunClock
from examples.train_mini.run_options import RunOptions
from examples.train_mini.step_graph import StepGraph, Tensors

_ROUTER_RATES = (0.002, 0.0004)  # change of a router's bias per step: at first, and in the last fifth


class TargetRun:
    """Cross-entropy for the model, and a loss of their own for the indexers.

    For the first part of the run every visible entry is attended to, while the indexers learn the shares of attention;
    then their choice decides. Experts are balanced by their router's biases alone.
    """

    def __init__(self, net: MiniNet, options: RunOptions) -> None:
        self._net, self._options = net, options
        own = {name: tensor for name, tensor in net.parameters.items() if is_target(name)}
        for name, tensor in own.items():
            tensor.requires_grad_(not name.endswith("gate.bias"))
        trained = {name: tensor for name, tensor in own.items() if tensor.requires_grad}
        self._optimizer = Optimizer(trained, options.rate, net.config.o_groups)
        self._router_rate = torch.zeros((), device=net.device)
        self._steps = {
            sparse: StepGraph(lambda *batch, sparse=sparse: self._step(*batch, sparse), options.captured)
            for sparse in (False, True)
        }

    def run(self) -> dict[str, float]:
        """Train to the end; the last losses and the number of steps."""
        options = self._options
        rows = Rows(np.load(options.data / "train.npy"), self._net.device, options.seed)
        clock, curve = RunClock(options.seconds, options.steps), Curve(options.out / "target.jsonl")
        loss = index_loss = torch.zeros(())
        while (share := clock.share()) < 1.0:
            sparse = share >= options.sparse_from
            batch = rows.batch(options.batch)
            self._optimizer.prepare(learning_rate_factor(max(share, 1e-4)))
            self._router_rate.fill_(_ROUTER_RATES[share >= 0.8])
            loss, index_loss, norm = self._steps[sparse](*batch)
            clock.advance()
            if clock.step % options.every == 0:
                values = {"ce": float(loss), "kl": float(index_loss), "norm": float(norm)}
                curve.add(step=clock.step, share=share, **values, t=clock.elapsed(), sparse=sparse)
        curve.close()
        return {"steps": clock.step, "ce": float(loss), "kl": float(index_loss)}

    def _step(self, ids: torch.Tensor, labels: torch.Tensor, weights: torch.Tensor, sparse: bool) -> Tensors:
        loss, index_loss, _ = self._net.loss(ids, labels, weights, sparse)
        (loss + index_loss).backward()
        norm = self._optimizer.step()
        balance_routers(self._net, self._router_rate, "layers.")
        return loss.detach(), index_loss.detach(), norm.detach()


def is_target(name: str) -> bool:
    """Whether a parameter belongs to the target, not to the draft model."""
    return not name.startswith("mtp.")


@torch.no_grad()
def balance_routers(net: MiniNet, rate: torch.Tensor, prefix: str) -> None:
    """Raise the biases of experts with too few tokens in the last pass, lower those of experts with too many."""
    for name, load in net.loads.items():
        if name.startswith(prefix):
            net.parameters[name].add_(torch.sign(load.mean() - load) * rate)
