"""The whole DeepSeek-V4.1 target model, top-down."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from deepinfer.core.cache_tensors import CacheTensors
from deepinfer.core.decode_batch import DecodeBatch
from deepinfer.core.probe import Probe
from deepinfer.core.step_batch import StepBatch
from deepinfer.core.tensor_source import TensorSource
from deepinfer.distributed.exchange_log import ExchangeLog
from deepinfer.distributed.in_flight import Turns
from deepinfer.distributed.take_turns import take_turns
from deepinfer.models.deepseek_v41.draft_model import DraftModel
from deepinfer.models.deepseek_v41.draft_stage import DraftStage
from deepinfer.models.deepseek_v41.head import Head
from deepinfer.models.deepseek_v41.layer import Layer
from deepinfer.models.deepseek_v41.moe import MoE
from deepinfer.models.deepseek_v41.rope import RopeTables
from deepinfer.models.deepseek_v41.row_share import RowShare
from deepinfer.models.deepseek_v41.runtime import ModelRuntime
from deepinfer.models.deepseek_v41.step_context import StepContext
from deepinfer.models.deepseek_v41.weight_reader import WeightReader


class DeepSeekV41Model:
    """Embedding, layers and head. Holds weights, never request state: caches and step geometry come in by argument.

    Args:
        runtime: config, ops, numerics.
        source: checkpoint tensors by name, already validated.
        device: where weights go and the forward pass runs.
        compressed_vocab: int64 [vocab_size] Engram token map; None without Engram layers.
        with_drafts: also load the draft model and keep its context in every forward pass.
    """

    def __init__(
        self,
        runtime: ModelRuntime,
        source: TensorSource,
        device: torch.device,
        compressed_vocab: torch.Tensor | None,
        with_drafts: bool = False,
    ) -> None:
        weights = WeightReader(source, device)
        vocab = None if compressed_vocab is None else compressed_vocab.to(device)
        self.runtime = runtime
        self.ropes = RopeTables.build(runtime, device)
        self.compressed_vocab = vocab
        self.embedding = weights.plain("embed.weight")
        self.layers = [
            Layer(runtime, weights.under(f"layers.{plan.layer_id}"), plan, self.ropes, vocab, with_drafts)
            for plan in runtime.config.layer_plans
        ]
        self.head = Head(runtime, weights, self.embedding)
        self.draft: DraftModel | None = None
        if with_drafts:
            self.draft = DraftModel(runtime, weights, self.ropes.window, self.embedding, self.head)

    @property
    def vocab_size(self) -> int:
        """Rows of the output matrix."""
        return self.runtime.config.vocab_size

    @torch.inference_mode()
    def forward(
        self, batches: Sequence[StepBatch | None], caches: CacheTensors, probe: Probe, *, shares_rows: bool = False
    ) -> torch.Tensor:
        """Run all layers over the step's rows, updating the caches; hidden [L, D] of the batches' `logit_rows`, one
        batch behind the other.

        Args:
            batches: the step, or two parts of it that have no sequence in common: each is computed while rows of the
                other are on their way to experts. None: a part that only other ranks have rows of.
            shares_rows: the ranks of this replica run the same batches, each a share of their rows.
        """
        parts = [
            self._take_part() if batch is None else self._run(self._context(batch, caches, probe, shares_rows))
            for batch in batches
        ]
        hidden = [part for part in take_turns(parts, self._log) if part is not None]
        return hidden[0] if len(hidden) == 1 else torch.cat(hidden)

    @torch.inference_mode()
    def decode(self, batch: DecodeBatch, caches: CacheTensors) -> torch.Tensor:
        """The same for a decode step whose rows were made on the device; hidden [T, D] of all rows.

        No shape depends on what the tensors hold and nothing waits for the device, with ops that do not: a captured
        CUDA graph of this call serves every step with as many rows. The hidden state of a padding row means nothing.
        """
        ctx = StepContext.of_decode(self.runtime, batch, caches, self.ropes, self.compressed_vocab)
        return take_turns([self._run(ctx)])[0]

    def moes(self) -> dict[str, MoE]:
        """Every mixture of experts, by name of its layer or draft stage."""
        stages = [] if self.draft is None else self.draft.stages
        named: list[Layer | DraftStage] = [*self.layers, *stages]
        return {block.name: block.moe for block in named}

    @torch.inference_mode()
    def take_part(self, num_batches: int) -> None:
        """The collectives of a forward pass that only other ranks have rows of: no cache is read or written.

        Args:
            num_batches: as the others have.
        """
        take_turns([self._take_part() for _ in range(num_batches)], self._log)

    @property
    def _log(self) -> ExchangeLog | None:
        return None if self.runtime.groups is None else self.runtime.groups.log

    def _context(self, batch: StepBatch, caches: CacheTensors, probe: Probe, shares_rows: bool) -> StepContext:
        groups, share = self.runtime.groups, None
        if shares_rows and groups is not None and groups.context is not None:
            share = RowShare.zigzag(groups.context, batch.lengths, batch.token_ids.device)
        return StepContext.build(self.runtime, batch, caches, probe, share)

    def _take_part(self) -> Turns[None]:
        for layer in self.layers:
            yield from layer.take_part()

    def _run(self, whole: StepContext) -> Turns[torch.Tensor]:
        ctx = whole
        streams, pre = self.runtime.initial_streams(ctx.batch.token_ids, self.embedding)
        for layer in self.layers:
            streams, pre, ctx = yield from layer(streams, pre, ctx)
        featured = ctx if ctx.features else whole
        if self.draft is not None and featured.features:
            self.draft.store_context(featured)
        if ctx.logit_rows is None:
            return self.head.hidden(streams, pre)
        rows = ctx.logit_rows
        if ctx.share is not None:
            own = ctx.share.own_places(rows)
            return ctx.share.narrowed(rows).gather(self.head.hidden(streams[own], pre[own]))
        hidden = self.head.hidden(*(self.runtime.ops.gather_rows(values, rows) for values in (streams, pre)))
        ctx.probe.record("final.hidden", hidden, rows)
        return hidden

    @torch.inference_mode()
    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """float32 [L, vocab] from hidden [L, D]."""
        return self.head.logits(hidden)
