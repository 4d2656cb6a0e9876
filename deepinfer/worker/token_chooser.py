"""Turns a step's hidden states into new tokens: samples row by row and goes on while drafts are right."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import torch

from deepinfer.core.engine_request import EngineRequest
from deepinfer.core.logit_rows import LogitRows
from deepinfer.core.probe import Probe
from deepinfer.core.step_executor import StepExecutor
from deepinfer.core.step_plan import StepPlan
from deepinfer.core.step_result import SampledToken
from deepinfer.sampling.draft_source import DraftSource
from deepinfer.sampling.proposed_draft import ProposedDraft
from deepinfer.sampling.token_sampler import TokenSampler

FAILED: Final = SampledToken(token_id=0)  # stands for the token that a failed fork did not get


@dataclass(slots=True)
class _Sequence:
    """A live sequence: its request and the tokens it has been given so far."""

    request: EngineRequest
    output_ids: list[int] = field(default_factory=list)


class TokenChooser:
    """Judges drafts row by row: row k + 1 is looked at only when the token of row k equals draft k.

    So nothing has to be rolled back, and every rule of the sampler (penalties, bans, the grammar, forced tokens) sees
    the tokens before it, accepted drafts included. Where row k's token comes from is the acceptance rule (decisions
    15). *Coupled*, without a memory: the plain sampler's draw, whatever was drafted, so that tokens and
    log-probabilities are those of decoding without drafts. *Rejection*, with one: the draft or a draw from the residual
    (`sampling/rejection.py`), so that their distribution is that of decoding without drafts. Greedy rows are the same
    under both.

    Args:
        executor: gives the logits of a step's rows.
        sampler: row-wise sampler.
        probe: research hooks.
        memory: distributions of the drafts to be judged; None for coupled acceptance.
    """

    def __init__(
        self, executor: StepExecutor, sampler: TokenSampler, probe: Probe, memory: DraftSource | None = None
    ) -> None:
        self._executor = executor
        self._sampler = sampler
        self._probe = probe
        self._memory = memory
        self._sequences: dict[int, _Sequence] = {}
        self._plain_tokens: dict[int, SampledToken] = {}

    def add(self, request: EngineRequest) -> None:
        """Make a sequence known."""
        self._sequences[request.seq_id] = _Sequence(request)
        self._sampler.add(request)

    def release(self, seq_id: int) -> None:
        """Forget a sequence; unknown ones are ignored."""
        if self._sequences.pop(seq_id, None) is not None:
            self._sampler.remove(seq_id)
        if self._memory is not None:
            self._memory.drop((seq_id,))

    def request_of(self, seq_id: int) -> EngineRequest:
        """The request of a live sequence."""
        return self._sequences[seq_id].request

    def choose(self, plan: StepPlan, errors: dict[int, Exception]) -> list[list[SampledToken]]:
        """New tokens per sequence of the plan; behind them the first token of each fork that begins there.

        Args:
            plan: the step that the executor has just run. Sequences that were released since get no token.
            errors: by seq_id; a sequence that already has one gets no token. New ones are added, but only where a
                sequence has got no token at all: after accepted drafts the next step meets the same error again.
        """
        samples: list[list[SampledToken]] = [[] for _ in plan.seq_ids]
        drafts = self._take_drafts(plan)
        alive = self._known(plan)
        first_rows = first_sample_rows(plan)
        seq_ids, num_drafts, token_ids = plan.seq_ids.tolist(), plan.num_drafts.tolist(), plan.token_ids
        has_forks = len(plan.fork_seq_ids) > 0
        depth = 0
        while len(alive):
            rows = first_rows[alive] + depth
            logits = self._executor.logits(rows)
            if self._probe.active:
                self._probe.record("logits", torch.as_tensor(logits), torch.from_numpy(rows))
            indices = (plan.output_indices[alive] + depth).tolist()
            found = errors if depth == 0 else {}
            places = alive.tolist()
            judged = [drafts[s][depth] if depth < len(drafts[s]) else None for s in places]
            tokens = self._next_tokens(logits, [seq_ids[s] for s in places], indices, found, judged)
            survivors = []
            for place, (s, token) in enumerate(zip(places, tokens, strict=True)):
                if token is None:
                    continue
                samples[s].append(token)
                if has_forks:
                    samples[s] += self._fork_tokens(plan, s, logits[place : place + 1], errors)
                is_right = depth < num_drafts[s] and token.token_id == token_ids[first_rows[s] + depth + 1]
                if is_right and not self._ends(seq_ids[s], token, indices[place]):
                    survivors.append(s)
            alive = np.asarray(survivors, dtype=np.int64)
            depth += 1
        return samples

    def take(self, plan: StepPlan, tokens: list[list[int]]) -> list[list[SampledToken]]:
        """Note tokens that the sequences of a plan were given elsewhere; the same as values, like those of `choose`."""
        for seq_id, index, new in zip(plan.seq_ids.tolist(), plan.output_indices.tolist(), tokens, strict=True):
            if new and seq_id in self._sequences:  # it may have been released while its tokens were on their way
                self._sequences[seq_id].output_ids[index:] = new
        return [[self._plain_token(token_id) for token_id in new] for new in tokens]

    def _plain_token(self, token_id: int) -> SampledToken:
        """One value per id: making them anew would be a good part of the host's work on a step."""
        token = self._plain_tokens.get(token_id)
        if token is None:
            token = self._plain_tokens[token_id] = SampledToken(token_id)
        return token

    def _known(self, plan: StepPlan) -> np.ndarray:
        """Places int64 of the plan's sequences that sample and were not released."""
        places = np.flatnonzero(plan.samples)
        known = [seq_id in self._sequences for seq_id in plan.seq_ids[places].tolist()]
        return places if all(known) else places[known]

    def _take_drafts(self, plan: StepPlan) -> list[list[ProposedDraft | None]]:
        """What is known of each sequence's drafts, per sequence of the plan; empty under coupled acceptance."""
        if self._memory is None:
            return [[] for _ in plan.seq_ids]
        self._memory.drop(plan.preempted_seq_ids.tolist())
        taken = []
        for s, (seq_id, first_row) in enumerate(zip(plan.seq_ids.tolist(), first_sample_rows(plan), strict=True)):
            ids = plan.token_ids[first_row + 1 : first_row + 1 + plan.num_drafts[s]].tolist()
            taken.append(self._memory.take(seq_id, int(plan.output_indices[s]), ids))
        return taken

    def _ends(self, seq_id: int, token: SampledToken, output_index: int) -> bool:
        """Whether the text ends with this token, so that no row behind it may be looked at."""
        request = self._sequences[seq_id].request
        is_stop_id = token.token_id in request.stop_token_ids and output_index >= request.params.min_tokens
        return token.stops or is_stop_id

    def _fork_tokens(
        self, plan: StepPlan, s: int, logits: LogitRows, errors: dict[int, Exception]
    ) -> list[SampledToken]:
        """First tokens of the forks that begin on row `logits` [1, V]; a placeholder for one with an error."""
        fork_ids = plan.fork_seq_ids[plan.cu_forks[s] : plan.cu_forks[s + 1]].tolist()
        if not fork_ids:
            return []
        rows = logits[[0] * len(fork_ids)]
        tokens = self._next_tokens(rows, fork_ids, [0] * len(fork_ids), errors, None)
        return [FAILED if token is None else token for token in tokens]

    def _next_tokens(
        self,
        logits: LogitRows,
        seq_ids: list[int],
        indices: list[int],
        errors: dict[int, Exception],
        drafts: list[ProposedDraft | None] | None,
    ) -> list[SampledToken | None]:
        """The token of each sequence at its output index, noted as part of its output; None with an error."""
        sequences = [self._sequences[seq_id] for seq_id in seq_ids]
        for sequence, index in zip(sequences, indices, strict=True):
            del sequence.output_ids[index:]  # a step that was repeated begins where it began before
        generated = [sequence.output_ids for sequence in sequences]
        outcomes = self._sampler.sample(logits, seq_ids, indices, generated, drafts)
        chosen: list[SampledToken | None] = []
        for seq_id, sequence, outcome in zip(seq_ids, sequences, outcomes, strict=True):
            if isinstance(outcome, Exception):
                errors.setdefault(seq_id, outcome)
            if isinstance(outcome, Exception) or seq_id in errors:
                chosen.append(None)
                continue
            sequence.output_ids.append(outcome.token_id)
            chosen.append(outcome)
        return chosen


def first_sample_rows(plan: StepPlan) -> np.ndarray:
    """Row int64 [S] whose logits give each sequence's first new token; drafts to be judged follow behind it."""
    return (plan.cu_seqlens_q[1:] - 1 - plan.num_drafts).astype(np.int64)
