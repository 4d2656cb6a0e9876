"""Runs the draft model behind a step: the next drafts of every sequence that got a token, and their confidences."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deepinfer.core.draft_executor import DraftExecutor
from deepinfer.core.draft_requests import DraftRequests
from deepinfer.core.step_plan import StepPlan
from deepinfer.core.step_result import SampledToken
from deepinfer.sampling.draft_memory import DraftMemory
from deepinfer.sampling.proposed_draft import ProposedDraft
from deepinfer.sampling.token_sampler import TokenSampler
from deepinfer.worker.token_chooser import first_sample_rows

SCORE_LIMIT = 60.0
_NO_DRAFT = -1


@dataclass(frozen=True, slots=True)
class Proposals:
    """Drafts in the order the scheduler takes them: a row for each plan sequence that samples and its forks behind it.

    Attributes:
        draft_ids: int32 [D, G], -1 for a row without drafts.
        confidences: float32 [D, G], probability that a draft is accepted given that those before it are.
    """

    draft_ids: np.ndarray
    confidences: np.ndarray


@dataclass(frozen=True, slots=True)
class _Owner:
    """Who gets drafts: a sequence, its newest token, where that stands, and whose slot holds the context."""

    seq_id: int
    anchor: int
    last_position: int
    state_slot: int
    output_index: int


class DraftProposer:
    """One draft pass and the sequential head loop (spec/decode.md 1.4 and 2).

    Drafted ids come from the raw adjusted logits with the request's own temperature and filters. Under coupled
    acceptance they are drawn with the key of the output index they speak about, the noise that the target will use
    there; under rejection with a key of their own, and the memory gets the distributions.

    Args:
        executor: runs the draft model.
        sampler: knows every sequence's parameters and keys.
        temperatures: [G] confidence temperature per draft position.
        max_positions: no draft row may stand at or behind this position.
        memory: takes what rejection sampling needs of the drafts; None for coupled acceptance.
    """

    def __init__(
        self,
        executor: DraftExecutor,
        sampler: TokenSampler,
        temperatures: tuple[float, ...],
        max_positions: int,
        memory: DraftMemory | None = None,
    ) -> None:
        self._executor = executor
        self._sampler = sampler
        self._temperatures = temperatures
        self._max_positions = max_positions
        self._memory = memory

    @property
    def num_drafts(self) -> int:
        """Drafts of a sequence."""
        return len(self._temperatures)

    def propose(self, plan: StepPlan, samples: list[list[SampledToken]], errors: dict[int, Exception]) -> Proposals:
        """Drafts behind a step whose new tokens are `samples`."""
        owners = self._owners(plan, samples, errors)
        num_drafts = len(self._temperatures)
        ids = np.full((len(owners), num_drafts), _NO_DRAFT, dtype=np.int32)
        confidences = np.zeros((len(owners), num_drafts), dtype=np.float32)
        drafting = [row for row, owner in enumerate(owners) if owner is not None]
        if drafting:
            drafted = self._run([owner for owner in owners if owner is not None])
            ids[drafting], confidences[drafting] = drafted.draft_ids, drafted.confidences
        return Proposals(ids, confidences)

    def take(self, draft_ids: np.ndarray, scores: np.ndarray) -> Proposals:
        """Drafts made elsewhere, int32 [D, G] with -1 for none, as proposals; see `propose`."""
        return Proposals(draft_ids, np.where(draft_ids >= 0, self._confidences(scores), np.float32(0.0)))

    def _owners(
        self, plan: StepPlan, samples: list[list[SampledToken]], errors: dict[int, Exception]
    ) -> list[_Owner | None]:
        """One entry per row of the proposals; None where no block fits or nothing was sampled."""
        first_rows = first_sample_rows(plan)
        owners: list[_Owner | None] = []
        for s in np.flatnonzero(plan.samples).tolist():
            fork_ids = plan.fork_seq_ids[plan.cu_forks[s] : plan.cu_forks[s + 1]].tolist()
            own = samples[s][: len(samples[s]) - len(fork_ids)] if samples[s] else []
            last = int(plan.positions[first_rows[s]]) + max(len(own), 1) - 1
            slot, index = int(plan.state_slots[s]), int(plan.output_indices[s])
            newest = [(int(plan.seq_ids[s]), own[-1].token_id if own else None, index + len(own))]
            for place, fork_id in enumerate(fork_ids):
                newest.append((fork_id, samples[s][len(own) + place].token_id if own else None, 1))
            for seq_id, anchor, next_index in newest:
                fits = last + len(self._temperatures) < self._max_positions
                usable = anchor is not None and fits and seq_id not in errors
                owners.append(_Owner(seq_id, anchor, last, slot, next_index) if usable and anchor is not None else None)
        return owners

    def _run(self, owners: list[_Owner]) -> Proposals:
        requests = DraftRequests(
            seq_ids=[owner.seq_id for owner in owners],
            anchors=[owner.anchor for owner in owners],
            last_positions=[owner.last_position for owner in owners],
            state_slots=[owner.state_slot for owner in owners],
            output_indices=[owner.output_index for owner in owners],
        )
        self._executor.run(requests, len(self._temperatures))
        ids, scores = self._executor.draw(requests) if self._memory is None else self._propose(requests, self._memory)
        return Proposals(ids.astype(np.int32), self._confidences(scores))

    def _confidences(self, scores: np.ndarray) -> np.ndarray:
        """Probabilities float32 [R, G] that drafts are accepted, of their scores [R, G]."""
        scaled = np.clip(scores / np.asarray(self._temperatures), -SCORE_LIMIT, SCORE_LIMIT)
        return (1.0 / (1.0 + np.exp(-np.nan_to_num(scaled)))).astype(np.float32)

    def _propose(self, requests: DraftRequests, memory: DraftMemory) -> tuple[np.ndarray, np.ndarray]:
        """Ids and scores [R, G] of drafts with keys of their own, whose distributions go into the memory."""
        ids = np.empty((len(requests), len(self._temperatures)), dtype=np.int64)
        scores = np.empty(ids.shape, dtype=np.float64)
        proposed: list[list[ProposedDraft]] = [[] for _ in requests.seq_ids]
        previous = np.asarray(requests.anchors, dtype=np.int64)
        for k in range(ids.shape[1]):
            logits, scores[:, k] = self._executor.adjust(k, previous)
            indices = [index + k for index in requests.output_indices]
            for row, draft in enumerate(self._sampler.propose(logits, requests.seq_ids, indices, k)):
                proposed[row].append(draft)
                ids[row, k] = draft.token_id
            previous = ids[:, k].copy()
        for seq_id, index, drafts in zip(requests.seq_ids, requests.output_indices, proposed, strict=True):
            memory.put(seq_id, index, drafts)
        return ids, scores
