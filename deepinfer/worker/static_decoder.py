"""Runs decode steps from static tensors: one transfer in, and everything that follows on the device."""

from __future__ import annotations

import torch

from deepinfer.core.cache_tensors import CacheTensors
from deepinfer.core.decode_batch import DecodeBatch
from deepinfer.core.decode_demand import DecodeDemand
from deepinfer.core.decode_fields import DecodeFields
from deepinfer.core.decode_rows import DecodeRows
from deepinfer.core.decode_sizes import DecodeSizes
from deepinfer.core.device_outcome import DeviceOutcome
from deepinfer.core.step_plan import ForwardPlan
from deepinfer.core.sync_guard import forbid_device_sync
from deepinfer.distributed.agreed_step import AgreedStep
from deepinfer.models.deepseek_v41.model import DeepSeekV41Model
from deepinfer.worker.decode_buckets import DecodeBuckets
from deepinfer.worker.decode_step import DecodeStep
from deepinfer.worker.decode_upload import DecodeUpload
from deepinfer.worker.static_calls import StaticCalls


class StaticDecoder:
    """Resolves a decode plan on the device and runs the layers.

    A plan is padded to a number of rows and a bound of lengths, for each of which the same operations run on the same
    addresses: `calls` may replay them. The plan may be linked: what it does not know yet is read from `outcome`, where
    sampling has left, or will have left by the time the device gets there, what came of the step before.

    Args:
        model: loaded target model.
        caches: allocated with a spare state slot (`allocate_caches`).
        sizes: of all steps.
        calls: runs the steps.
        agreed: what the ranks whose steps meet this one's have agreed on; None for a rank by itself.

    Attributes:
        outcome: of the newest step; sampling fills its part in.
        sizes: of all steps.
        calls: for whatever else runs from static tensors behind a step.
    """

    def __init__(
        self,
        model: DeepSeekV41Model,
        caches: CacheTensors,
        sizes: DecodeSizes,
        calls: StaticCalls,
        agreed: AgreedStep | None = None,
    ) -> None:
        device, runtime = model.embedding.device, model.runtime
        self.outcome = DeviceOutcome.allocate(sizes.max_num_seqs, sizes.num_drafts, sizes.num_lookback, device)
        self.sizes = sizes
        self.calls = calls
        self._model = model
        self._caches = caches
        self._agreed = agreed
        self._buckets = DecodeBuckets.build(sizes, runtime.config.index_topk)
        self._fields = DecodeFields.allocate(sizes, device)
        self._upload = DecodeUpload(sizes, self._fields)
        self._rows = DecodeRows.allocate(sizes.max_rows, sizes.max_num_seqs, device)
        self._hidden = torch.zeros(sizes.max_rows, runtime.config.hidden_size, dtype=runtime.act_dtype, device=device)

    @forbid_device_sync()
    @torch.inference_mode()
    def forward(self, plan: ForwardPlan) -> DecodeStep:
        """Launch a decode plan, exact or linked; nobody waits for the device.

        A linked plan goes on from the step that `forward` ran last. Its cache copies have been made.
        """
        self._upload.send(plan)
        splits = bool(plan.previous_step_id >= 0 and plan.draft_caps.sum() > plan.num_draft_rows)
        return self._launch(self.agreed or DecodeDemand.of(plan), splits)

    @forbid_device_sync()
    @torch.inference_mode()
    def take_part(self) -> None:
        """Launch the step that the ranks have agreed on, with padding alone: nothing is stored."""
        assert self.agreed is not None, "a rank by itself has no part in steps of others"
        self._upload.send_nothing()
        self._launch(self.agreed, splits=False)

    @property
    def agreed(self) -> DecodeDemand | None:
        """What ranks have agreed that the decode step at hand takes; None for a rank by itself, and for other steps."""
        return None if self._agreed is None else self._agreed.decode

    def seqs_for(self, num_seqs: int) -> int:
        """What so many sequences are padded to where only they matter."""
        return self._buckets.seqs_for(num_seqs)

    @property
    def row_sizes(self) -> tuple[int, ...]:
        """What the rows of a step are padded to, ascending."""
        return self._buckets.rows

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """float32 [n, vocab] of final hidden states [n, D]."""
        return self._model.logits(hidden)

    def _launch(self, demand: DecodeDemand, splits: bool) -> DecodeStep:
        keeps_context = bool(demand.keeps_context) and self._model.draft is not None
        num_rows = self._buckets.rows_for(demand.num_rows)
        max_len = self._buckets.length_for(demand.max_len + self.sizes.num_drafts)
        rows = self._rows.narrowed(num_rows, min(num_rows, self.sizes.max_num_seqs))
        key = ("decode", num_rows, max_len, splits, keeps_context)
        self.calls.run(key, lambda: self._run(rows, max_len, splits, keeps_context))
        return DecodeStep(rows, self._hidden[:num_rows], self.seqs_for(demand.num_seqs))

    def _run(self, rows: DecodeRows, max_len: int, splits: bool, keeps_context: bool) -> None:
        fields = self._fields.narrowed(rows.num_rows.shape[0])
        offsets, ngrams = self._model.runtime.ops.resolve_rows(fields, self.outcome, rows, splits=splits)
        batch = DecodeBatch(rows, offsets, ngrams, fields.block_ids, max_len, keeps_context)
        self._hidden[: batch.num_rows].copy_(self._model.decode(batch, self._caches))
