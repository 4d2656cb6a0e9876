"""Times decode-like steps and draft passes on scratch cache space, before the first request."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from deepinfer.core.cache_tensors import CacheTensors
from deepinfer.core.probe import Probe
from deepinfer.core.step_batch import StepBatch
from deepinfer.models.deepseek_v41.draft_model import DraftModel
from deepinfer.models.deepseek_v41.model import DeepSeekV41Model
from deepinfer.worker.step_clock import StepClock

_STRIDE = 7919  # a prime: spreads token ids, and with them experts and Engram rows


@dataclass(frozen=True, slots=True)
class ScratchSpace:
    """What steps may use while no request runs.

    Attributes:
        num_blocks, num_slots: cache units.
        max_model_len: positions.
        context_len: tokens that every sequence pretends to have, as far as blocks and positions allow; what the caches
            hold there does not matter.
        num_ngrams: width of the n-gram context, 0 without Engram.
    """

    num_blocks: int
    num_slots: int
    max_model_len: int
    context_len: int
    num_ngrams: int


class StepProfiler:
    """Runs the model as a decode step would: sequences with a newest token and drafts behind it.

    All sequences read and write the same blocks, each has a state slot of its own. Nothing of it stays: caches are
    addressed by position, and whatever is written here is written again before a request reads it.

    Args:
        model, draft: the target and its draft model.
        caches: all cache tensors.
        space: what may be used.
        num_drafts: drafts of a sequence.
        device: where it runs.
    """

    def __init__(
        self,
        model: DeepSeekV41Model,
        draft: DraftModel,
        caches: CacheTensors,
        space: ScratchSpace,
        num_drafts: int,
        device: torch.device,
    ) -> None:
        self._model = model
        self._draft = draft
        self._caches = caches
        self._space = space
        self._num_drafts = num_drafts
        self._device = device
        self._clock = StepClock(device)
        self._probe = Probe()
        room = min(space.max_model_len, space.num_blocks * caches.block_size) - num_drafts - 1
        self._context_len = max(0, min(space.context_len, room))

    @property
    def max_seqs(self) -> int:
        """Sequences that a step can have."""
        return self._space.num_slots

    @property
    def max_rows(self) -> int:
        """Rows that a target step can have."""
        return self.max_seqs * (1 + self._num_drafts)

    def step_ms(self, num_rows: int) -> float:
        """Milliseconds of the target's forward pass over num_rows (1 .. max_rows) rows, 1 + drafts a sequence."""
        batch = self._batch(num_rows)
        self._clock.start()
        self._model.forward(batch, self._caches, self._probe)
        return self._clock.lap_ms()

    def draft_ms(self, num_seqs: int) -> float:
        """Milliseconds of a draft pass for num_seqs (1 .. max_seqs) sequences, with the sequential head."""
        anchors = self._token_ids(num_seqs)
        last_positions = torch.full((num_seqs,), max(self._context_len - 1, 0), device=self._device)
        slots = torch.arange(num_seqs, device=self._device)
        self._clock.start()
        block = self._draft.forward(anchors, last_positions, slots, self._caches, self._num_drafts)
        previous = anchors
        for k in range(self._num_drafts):
            logits, _ = self._draft.adjust(block, k, previous)
            previous = logits.argmax(dim=1)
        return self._clock.lap_ms()

    def _token_ids(self, count: int) -> torch.Tensor:
        return torch.arange(count, device=self._device) * _STRIDE % self._model.vocab_size

    def _batch(self, num_rows: int) -> StepBatch:
        per_seq = 1 + self._num_drafts
        num_seqs = -(-num_rows // per_seq)
        lengths = [num_rows // num_seqs + (s < num_rows % num_seqs) for s in range(num_seqs)]
        counts = torch.tensor(lengths, device=self._device)
        ends = torch.cumsum(counts, dim=0)
        row_seq = torch.repeat_interleave(torch.arange(num_seqs, device=self._device), counts)
        offsets = torch.arange(num_rows, device=self._device) - (ends - counts)[row_seq]
        num_blocks = -(-(self._context_len + per_seq) // self._caches.block_size)
        token_ids = self._token_ids(num_rows)
        return StepBatch(
            token_ids=token_ids,
            positions=self._context_len + offsets,
            row_seq=row_seq,
            cu_seqlens_q=torch.cat((ends.new_zeros(1), ends)),
            context_lens=torch.full((num_seqs,), self._context_len, device=self._device),
            state_slots=torch.arange(num_seqs, device=self._device),
            block_ids=torch.arange(num_blocks, device=self._device),
            first_blocks=torch.zeros(num_seqs, dtype=torch.int64, device=self._device),
            ngram_ids=token_ids[:, None].expand(-1, self._space.num_ngrams),
            logit_rows=torch.arange(num_rows, device=self._device),
            seq_lens_q=tuple(lengths),
            starts=(self._context_len,) * num_seqs,
            window_starts=(0,) * num_seqs,
            entry_starts=(0,) * num_seqs,
            consumer_starts=(0,) * num_seqs,
        )
