"""The differentiable draft model, over a target whose parameters stay."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from examples.train_mini.mini_net import Angles, MiniNet
from examples.train_mini.pieces.number_formats import round_fp8, round_weight
from examples.train_mini.pieces.token_pieces import BF16, norm_rows


class DraftNet:
    """Guesses blocks of tokens behind chosen positions of a batch.

    Args:
        target: holds the parameters of both, and the blocks that they share.
    """

    def __init__(self, target: MiniNet) -> None:
        self._target = target
        self._config = target.config

    def context(self, features: torch.Tensor, batch: int) -> list[torch.Tensor]:
        """features [B*T, D * layers] of the target -> window keys [B*T, d] of every stage."""
        own, target = self._target.parameters, self._target
        projected = round_fp8(features) @ round_weight(own["mtp.0.main_proj.weight"]).T
        x = norm_rows(projected, own["mtp.0.main_norm.weight"])
        angles = target.angles(batch, features.shape[0] // batch)
        weights = [(own[f"mtp.{s}.attn.wkv.weight"], own[f"mtp.{s}.attn.kv_norm.weight"]) for s in self._stages()]
        return [target.pieces.context_keys(x, *pair, *angles) for pair in weights]

    def forward(self, ids: torch.Tensor, context: list[torch.Tensor], anchors: torch.Tensor) -> torch.Tensor:
        """Hidden states [B*A*G, D], before the norm, of blocks whose first token stands at anchors [B, A].

        Rows are padded to as many as the target has: compiled pieces of the target then serve the draft, too.
        """
        target = self._target
        size, window = self._config.dspark_block_size, self._config.sliding_window
        used = anchors.numel() * size
        spare = max(ids.numel() - used, 0)
        streams, pre = target.first_streams(self._embedded(ids, anchors, spare))
        streams = streams.detach().requires_grad_()
        angles = self._angles(anchors, spare)
        places, is_there = self._windows(ids, anchors, window)
        for stage in self._stages():
            prefix = f"mtp.{stage}."
            x, mixing = target.begin(prefix, streams, pre)
            _, q, keys = target.queries(prefix, x, angles)
            sink = target.parameters[f"{prefix}attn.attn_sink"]
            heads = target.pieces.attend_block(q[:used], keys[:used], context[stage], places, is_there, sink)
            heads = F.pad(heads, (0, 0, 0, 0, 0, spare))
            streams, pre = target.finish(prefix, streams, heads, angles, mixing)
        return target.pieces.collapse(streams, pre)[:used]

    def _stages(self) -> range:
        return range(self._config.num_nextn_predict_layers)

    def _embedded(self, ids: torch.Tensor, anchors: torch.Tensor, spare: int) -> torch.Tensor:
        """bf16 [B*A*G + spare, D]: the newest token, then placeholders."""
        shape = (*anchors.shape, self._config.dspark_block_size)
        tokens = torch.full(shape, self._config.dspark_noise_token_id, device=ids.device)
        tokens[:, :, 0] = ids.gather(1, anchors)
        table = self._target.parameters["embed.weight"].detach()
        return table.index_select(0, F.pad(tokens.flatten(), (0, spare))).to(BF16)

    def _angles(self, anchors: torch.Tensor, spare: int) -> Angles:
        offsets = torch.arange(self._config.dspark_block_size, device=anchors.device)
        positions = F.pad((anchors[:, :, None] + offsets).flatten(), (0, spare))
        cos, sin = self._target.plain_rope
        return cos[positions], sin[positions]

    def _windows(self, ids: torch.Tensor, anchors: torch.Tensor, window: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Rows [B*A, W] of the context in front of each anchor, and whether they are there."""
        batch, length = ids.shape
        back = anchors[:, :, None] - window + torch.arange(window, device=ids.device)
        starts = torch.arange(batch, device=ids.device)[:, None, None] * length
        return (back.clamp_min(0) + starts).reshape(-1, window), (back >= 0).reshape(-1, window)
