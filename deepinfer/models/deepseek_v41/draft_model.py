"""The whole draft model (DSpark), top-down: context from the target's features, a block, the sequential head."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from deepinfer.core.cache_tensors import CacheTensors
from deepinfer.core.draft_anchors import DraftAnchors
from deepinfer.distributed.take_turns import take_turns
from deepinfer.models.deepseek_v41.draft_context import DraftContext
from deepinfer.models.deepseek_v41.draft_stage import DraftStage
from deepinfer.models.deepseek_v41.head import Head
from deepinfer.models.deepseek_v41.rope import RopeTable
from deepinfer.models.deepseek_v41.runtime import ModelRuntime
from deepinfer.models.deepseek_v41.step_context import StepContext
from deepinfer.models.deepseek_v41.weight_reader import WeightReader


@dataclass(frozen=True, slots=True)
class DraftBlock:
    """One draft pass over R requests.

    Attributes:
        hidden: [R, G, D] collapsed streams before the last norm, in the activation dtype.
        base_logits: float32 [R, G, vocab], before the Markov head.
    """

    hidden: torch.Tensor
    base_logits: torch.Tensor


class DraftModel:
    """Stages, Markov head and confidence head (spec/decode.md 1 and 2). Embedding and output matrix are the target's.

    Args:
        runtime: config, ops, numerics.
        weights: reader at the checkpoint's root.
        rope: the plain rotary table of window-only layers.
        embedding: [vocab, D] the target's.
        head: the target's output head.
    """

    def __init__(
        self,
        runtime: ModelRuntime,
        weights: WeightReader,
        rope: RopeTable,
        embedding: torch.Tensor,
        head: Head,
    ) -> None:
        num_stages = runtime.config.num_nextn_predict_layers
        last = weights.under(f"mtp.{num_stages - 1}")
        self._runtime = runtime
        self._embedding = embedding
        self._head = head
        self.main_proj = weights.under("mtp.0").fp8("main_proj")
        self.main_norm_weight = weights.plain("mtp.0.main_norm.weight")
        self.stages = [DraftStage(runtime, weights.under(f"mtp.{s}"), s, rope) for s in range(num_stages)]
        self.norm_weight = last.plain("norm.weight")
        self.markov_embedding = last.plain("markov_head.embed.weight")
        self.markov_head = last.plain("markov_head.head.weight")
        self.confidence_weight = last.plain("confidence_head.proj.weight")

    @torch.inference_mode()
    def store_context(self, ctx: StepContext) -> None:
        """Write the context keys of every row of a target forward pass, made from its `ctx.features`."""
        runtime = self._runtime
        features = torch.cat([ctx.features[layer] for layer in runtime.config.dspark_target_layer_ids], dim=1)
        act = runtime.act_dtype
        projected = runtime.ops.quantized_linear(features, self.main_proj, quantize=runtime.quantize, out_dtype=act)
        x = runtime.ops.rms_norm(projected, self.main_norm_weight, runtime.config.rms_norm_eps, act)
        for stage in self.stages:
            stage.store_context(x, ctx)

    @torch.inference_mode()
    def forward(self, anchors: DraftAnchors, caches: CacheTensors, num_drafts: int) -> DraftBlock:
        """Run all stages over one block per request.

        Args:
            anchors: the requests.
            caches: with the target's context.
            num_drafts: G rows of a block; row j speaks about the token at P + 2 + j.
        """
        runtime = self._runtime
        sizes = (runtime.config.sliding_window, num_drafts)
        ctx, tokens = DraftContext.build(anchors, caches, sizes), anchors.tokens
        ids = torch.full((tokens.shape[0], num_drafts), runtime.config.dspark_noise_token_id, device=tokens.device)
        ids[:, 0] = tokens
        streams, pre = runtime.initial_streams(ids.view(-1), self._embedding)
        for stage in self.stages:
            streams, pre = stage(streams, pre, ctx)
        act = runtime.act_dtype
        hidden = runtime.ops.hc_read(streams, pre, act)
        normed = runtime.ops.rms_norm(hidden, self.norm_weight, runtime.config.rms_norm_eps, act)
        logits = self._head.logits(normed)
        shape = (tokens.shape[0], num_drafts, -1)
        return DraftBlock(hidden.view(shape), logits.view(shape))

    @torch.inference_mode()
    def take_part(self) -> None:
        """The collectives of a draft pass that only other ranks have rows of."""
        for stage in self.stages:
            take_turns([stage.moe.take_part()])

    @torch.inference_mode()
    def adjust(self, block: DraftBlock, row: int, previous_ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits of block row `row` given the token before it, and the score of its confidence.

        Args:
            previous_ids: int64 [R] the anchor for row 0, else the draft of row - 1.

        Returns:
            adjusted logits float32 [R, vocab] (first-order Markov head added), and confidence scores float32 [R] before
            temperature and sigmoid; the score depends on the previous token, never on the one about to be drawn.
        """
        ops = self._runtime.ops
        markov = self.markov_embedding[previous_ids]
        adjusted = block.base_logits[:, row] + ops.linear(markov, self.markov_head, torch.float32)
        joined = torch.cat((block.hidden[:, row], markov.to(block.hidden.dtype)), dim=1)  # exact: stored as bf16
        score = ops.linear(joined, self.confidence_weight, torch.float32)[:, 0]
        return adjusted, score
