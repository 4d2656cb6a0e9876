"""The native part, built from csrc/: here the scheduler core, which decides what tokens of which sequences are computed
in each step, and the estimator of what steps cost; the CPU kernels are in `cpu`.

Arrays that come out are read-only and stay valid as long as they are referenced. A wrong value raises ValueError (or
TypeError for a wrong type) that names it; a call out of order, or a bug, raises RuntimeError.
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from deepinfer._C import cpu as cpu

_Int32s: TypeAlias = NDArray[np.integer] | Sequence[int]

class SchedulerConfig:
    """Sizes and limits of a scheduler.

    Attributes:
        num_blocks: usable cache blocks.
        block_size: tokens per block.
        num_state_slots: sequences that can hold window rings and compressor state.
        max_num_seqs: sequences admitted at a time.
        max_num_batched_tokens: tokens in a step, at least 1 + num_drafts.
        max_prefill_chunk: tokens of one sequence in a prefill step; unused without chunking.
        max_model_len: tokens of a sequence, prompt included.
        num_lookback: token ids wanted before each sequence's first row.
        enable_chunked_prefill: False: a prompt is never cut (a recompute longer than any step still is).
        num_drafts: most draft tokens of a sequence in a decode step.
        varlen: how many of them are verified follows from cost curves, once Scheduler.set_cost_curves gave some.
        keep_tokens: prompt tokens, the last ones, that have rows in the consumer layers; 0: all of them.
        replay_tokens, replay_multiple: a sequence on a saved prefix computes at least so many of the tokens that it
            shares with the prefix again, from a multiple of replay_multiple on.
        draft_window: newest tokens of a sequence that a draft pass looks at; so many steps leave context before drafts
            that had stopped are made again.
    """

    def __init__(
        self,
        num_blocks: int,
        block_size: int,
        num_state_slots: int,
        max_num_seqs: int,
        max_num_batched_tokens: int,
        max_prefill_chunk: int,
        max_model_len: int,
        num_lookback: int = 0,
        enable_chunked_prefill: bool = True,
        num_drafts: int = 0,
        varlen: bool = False,
        keep_tokens: int = 0,
        replay_tokens: int = 0,
        replay_multiple: int = 1,
        draft_window: int = 0,
    ) -> None: ...
    @property
    def num_blocks(self) -> int: ...
    @property
    def block_size(self) -> int: ...
    @property
    def num_state_slots(self) -> int: ...
    @property
    def max_num_seqs(self) -> int: ...
    @property
    def max_num_batched_tokens(self) -> int: ...
    @property
    def max_prefill_chunk(self) -> int: ...
    @property
    def max_model_len(self) -> int: ...
    @property
    def num_lookback(self) -> int: ...
    @property
    def enable_chunked_prefill(self) -> bool: ...
    @property
    def num_drafts(self) -> int: ...
    @property
    def draft_window(self) -> int: ...
    @property
    def varlen(self) -> bool: ...
    @property
    def keep_tokens(self) -> int: ...
    @property
    def replay_tokens(self) -> int: ...
    @property
    def replay_multiple(self) -> int: ...
    @property
    def runtime_max_model_len(self) -> int:
        """Most tokens that context and rows of a plan come to: max_model_len, and max(num_drafts - 1, 0) more.

        Only bounds of a linked plan reach behind max_model_len: it takes all drafts in flight for accepted and all of
        its own for usable. No row of an exact plan does, and block tables do not reach so far.
        """

class SequenceSpec:
    """A new sequence.

    Attributes:
        seq_id: unique among unfinished sequences, >= 0.
        prompt_token_ids: int32 [prompt_len], at least one.
        max_tokens: most new tokens; 0: the prompt is only computed.
        stop_token_ids: int32 [n] ids that end the sequence, EOS included unless it is to be ignored.
        min_tokens: a stop id counts only as new token number min_tokens + 1 or later.
        fork_seq_ids: int64 [n], more sequences on the same prompt with the same limits. They begin with the token
            behind the prompt, on blocks shared with this one; until then they are neither waiting nor running.
        prefix_id: saved prefix to begin on, as far as the prompt agrees with it; -1: none.
    """

    def __init__(
        self,
        seq_id: int,
        prompt_token_ids: _Int32s,
        max_tokens: int,
        stop_token_ids: _Int32s,
        min_tokens: int = 0,
        fork_seq_ids: Sequence[int] = (),
        prefix_id: int = -1,
    ) -> None: ...
    @property
    def seq_id(self) -> int: ...
    @property
    def prompt_token_ids(self) -> NDArray[np.int32]: ...
    @property
    def max_tokens(self) -> int: ...
    @property
    def stop_token_ids(self) -> NDArray[np.int32]: ...
    @property
    def min_tokens(self) -> int: ...
    @property
    def fork_seq_ids(self) -> NDArray[np.int64]: ...
    @property
    def prefix_id(self) -> int: ...

class StepPlan:
    """What the worker is to compute: S sequences with T tokens in all.

    An exact plan says it all. A linked one, always of a decode step, was made while the step before it was in flight:
    of its matched sequences (remap >= 0) it knows only bounds. `resolve` makes it exact.

    Attributes:
        step_id: running number of the step.
        previous_step_id: the step in flight that a linked plan goes on from; -1 in an exact plan.
        kind: "prefill", "decode", or "empty" (nothing is unfinished, or a step in flight is to be booked first).
        num_seqs, num_tokens: S and T.
        seq_ids: int64 [S], oldest admission first.
        cu_seqlens_q: int32 [S+1] prefix sums of the tokens per sequence.
        context_lens: int32 [S] tokens in the caches before this step.
        prompt_lens: int32 [S] original prompt length, also when generated tokens are recomputed.
        window_starts: int32 [S] first position that windows may look at: on a saved prefix, where computing it again
            began; else 0.
        entry_starts: int32 [S] first position whose entries are to be written; those before are in the blocks already.
        consumer_starts: int32 [S] first position that has a row in the consumer layers, max(0, prompt length -
            keep_tokens), also in a recompute; 0 without keep_tokens.
        state_slots: int32 [S].
        block_ids, cu_blocks: int32 block tables, one behind the other, and their prefix sums [S+1]. A table may be
            longer than this step needs: in prefill it covers the whole text.
        token_ids, positions: int32 [T].
        lookback_ids: int32 [S, num_lookback] tokens before the sequence's first row, nearest first; -1: none.
        samples: bool [S], whether the sequence's last row yields a token.
        output_indices: int32 [S] index among the generated ones of the first token to come.
        num_drafts: int32 [S] drafts to verify. A decoding sequence's rows are its newest token and then these; row k
            judges draft k, the last row judges none.
        draft_caps: int32 [S] most drafts of the sequence that this step could verify, limits and memory considered.
        max_lens: int32 [S] most tokens of the text in all, prompt included.
        remap: int32 [S] place of the sequence in the previous plan, or -1: not there; all -1 in an exact plan. Where it
            is >= 0, context_lens, positions and output_indices are as if every draft in flight were accepted, token_ids
            are 0, lookback_ids -1, and num_drafts is provisional.
        num_draft_rows: rows for drafts in all. T = S + num_draft_rows in a decode plan; a linked plan's T is the most
            that the exact one can have.
        rate_factors: float32 [G] what a predicted rate (product of confidences) is worth, by position.
        make_drafts: whether the draft model is to run behind the step, for all sequences that get tokens.
        keeps_draft_context: whether the rows leave the draft model the context that later drafts are made from.
        fork_seq_ids, cu_forks: int64 forks that begin with this step, flat, and their prefix sums int32 [S+1]. Each
            gets a token from the row of the sequence it is listed for.
        slot_copies, block_copies: int32 [n, 2] source and destination of state slots and blocks to copy before anything
            is written. A discarded step's copies come again in the next.
        preempted_seq_ids: int64, sequences that lost their cache for this step; they come back by themselves.
    """

    def resolve(
        self,
        previous: StepPlan,
        tokens: _Int32s,
        cu_tokens: _Int32s,
        draft_ids: NDArray[np.integer] | None = None,
        confidences: NDArray[np.floating] | None = None,
    ) -> StepPlan:
        """The exact plan, from what came of the previous step; changes nothing here.

        A matched sequence that got n tokens there goes on behind them, with the drafts that came along: those before
        the first id below 0, as far as draft_caps and max_lens allow. If not all of them fit into num_draft_rows (less
        the drafts of sequences that are not matched, which stay as planned), those with the highest rates are verified:
        the product of the draft's confidence and those before it, in float32 from the left, times its rate_factor; at
        most 1 and at most the rate of the draft before it; ties to the earlier sequence, then the earlier draft. With
        n = 0 it repeats the previous row's first token at its position, without drafts.

        Args:
            previous: exact plan of step previous_step_id.
            tokens, cu_tokens: int32 flat new tokens of the previous plan's sequences, as given to Scheduler.update.
            draft_ids: int32 [previous S, G], -1 behind the last of a row; None: nobody has any.
            confidences: float32 [previous S, G]; None: 1.

        Raises:
            ValueError: the plans do not belong together, or an array has another shape than `previous` asks for.
        """
    @property
    def step_id(self) -> int: ...
    @property
    def previous_step_id(self) -> int: ...
    @property
    def kind(self) -> Literal["prefill", "decode", "empty"]: ...
    @property
    def num_seqs(self) -> int: ...
    @property
    def num_tokens(self) -> int: ...
    @property
    def seq_ids(self) -> NDArray[np.int64]: ...
    @property
    def cu_seqlens_q(self) -> NDArray[np.int32]: ...
    @property
    def context_lens(self) -> NDArray[np.int32]: ...
    @property
    def prompt_lens(self) -> NDArray[np.int32]: ...
    @property
    def window_starts(self) -> NDArray[np.int32]: ...
    @property
    def entry_starts(self) -> NDArray[np.int32]: ...
    @property
    def consumer_starts(self) -> NDArray[np.int32]: ...
    @property
    def state_slots(self) -> NDArray[np.int32]: ...
    @property
    def block_ids(self) -> NDArray[np.int32]: ...
    @property
    def cu_blocks(self) -> NDArray[np.int32]: ...
    @property
    def token_ids(self) -> NDArray[np.int32]: ...
    @property
    def positions(self) -> NDArray[np.int32]: ...
    @property
    def lookback_ids(self) -> NDArray[np.int32]: ...
    @property
    def samples(self) -> NDArray[np.bool_]: ...
    @property
    def output_indices(self) -> NDArray[np.int32]: ...
    @property
    def num_drafts(self) -> NDArray[np.int32]: ...
    @property
    def draft_caps(self) -> NDArray[np.int32]: ...
    @property
    def max_lens(self) -> NDArray[np.int32]: ...
    @property
    def remap(self) -> NDArray[np.int32]: ...
    @property
    def num_draft_rows(self) -> int: ...
    @property
    def rate_factors(self) -> NDArray[np.float32]: ...
    @property
    def make_drafts(self) -> bool: ...
    @property
    def keeps_draft_context(self) -> bool: ...
    @property
    def fork_seq_ids(self) -> NDArray[np.int64]: ...
    @property
    def cu_forks(self) -> NDArray[np.int32]: ...
    @property
    def slot_copies(self) -> NDArray[np.int32]: ...
    @property
    def block_copies(self) -> NDArray[np.int32]: ...
    @property
    def preempted_seq_ids(self) -> NDArray[np.int64]: ...

class StepUpdate:
    """What one finished step changed: only the S' sequences that got tokens or ended, in plan order, each followed by
    its forks.

    Attributes:
        seq_ids: int64 [S'].
        cu_tokens: int32 [S'+1] prefix sums of the tokens per sequence.
        tokens: int32, accepted tokens, a stop token included.
        finish_reasons: uint8 [S'] 0 running, 1 stop, 2 length.
        stop_token_ids: int32 [S'] the id that ended the sequence, -1 when none did.
    """

    @property
    def seq_ids(self) -> NDArray[np.int64]: ...
    @property
    def cu_tokens(self) -> NDArray[np.int32]: ...
    @property
    def tokens(self) -> NDArray[np.int32]: ...
    @property
    def finish_reasons(self) -> NDArray[np.uint8]: ...
    @property
    def stop_token_ids(self) -> NDArray[np.int32]: ...

class LayerShape:
    """Roles of one target layer, by the names of deepinfer.config.layer_plan; `ratio` 0: window only."""

    def __init__(
        self,
        *,
        ratio: int,
        owns_kv: bool,
        owns_index: bool,
        uses_candidates: bool,
        has_engram: bool,
        is_draft_target: bool,
    ) -> None: ...

class ModelShape:
    """Sizes that decide what a step costs. All 0 until set; deepinfer.worker.model_shape sets them from a config.

    Attributes:
        layers: target layers; a copy is given out.
        first_consumer: first layer that YOCO prefill cuts short; the number of layers where there is none.
        engram_lookups, engram_width: table rows of a token in one Engram layer, and their values.
        num_drafts: rows of a draft block; 0: drafts off.
        activation_bytes: of one value of an activation.
        main_bytes, index_bytes, window_bytes, compressor_bytes: of one stored vector of each cache.
        window_ring: vectors of a window ring.
        rollback: num_drafts + 1 with drafts, else 0; compressor rings hold ratio + max(0, rollback - 1) vectors.
        The others are the config's fields under a shorter name.
    """

    layers: list[LayerShape]
    first_consumer: int
    vocab_size: int
    hidden_size: int
    num_streams: int
    num_heads: int
    head_dim: int
    q_lora_rank: int
    o_lora_rank: int
    o_groups: int
    sliding_window: int
    index_heads: int
    index_dim: int
    index_topk: int
    candidate_blocks: int
    candidate_block_size: int
    num_experts: int
    experts_per_token: int
    expert_width: int
    engram_lookups: int
    engram_width: int
    num_drafts: int
    draft_stages: int
    draft_experts: int
    draft_experts_per_token: int
    markov_rank: int
    activation_bytes: int
    main_bytes: int
    index_bytes: int
    window_bytes: int
    compressor_bytes: int
    window_ring: int
    rollback: int

class StepCost:
    """Multiply-adds by operand type and bytes by class, whole numbers; csrc/core/step_cost.hpp says what each counts.

    Attributes:
        fp8, experts, index, bf16, fp32, attention: multiply-adds.
        weight_bytes, cache_read_bytes, cache_written_bytes, activation_bytes: bytes.
        macs: sum of the multiply-adds; flops: twice that; bytes: sum of the bytes.
        fp8_equivalent_flops: FLOPs with FP4 at 1/2, FP8 (and experts) at 1, bf16 at 2 and fp32 at 4.
    """

    @property
    def fp8(self) -> float: ...
    @property
    def experts(self) -> float: ...
    @property
    def index(self) -> float: ...
    @property
    def bf16(self) -> float: ...
    @property
    def fp32(self) -> float: ...
    @property
    def attention(self) -> float: ...
    @property
    def weight_bytes(self) -> float: ...
    @property
    def cache_read_bytes(self) -> float: ...
    @property
    def cache_written_bytes(self) -> float: ...
    @property
    def activation_bytes(self) -> float: ...
    @property
    def macs(self) -> float: ...
    @property
    def flops(self) -> float: ...
    @property
    def bytes(self) -> float: ...
    @property
    def fp8_equivalent_flops(self) -> float: ...

class SequenceRows:
    """Rows of one sequence in a step.

    Args:
        context_len: tokens in the caches before it.
        num_rows: rows.
        consumer_start: first position that consumer layers keep; unused with yoco "off".
        num_logit_rows: rows whose logits are wanted.
        window_start: first position that windows may look at.
        entry_start: first position whose entries are written, a multiple of every ratio; those before are there.
    """

    def __init__(
        self,
        *,
        context_len: int,
        num_rows: int,
        consumer_start: int = 0,
        num_logit_rows: int = 0,
        window_start: int = 0,
        entry_start: int = 0,
    ) -> None: ...

class StepEstimator:
    """Counts what a pass costs, from the model's sizes and the rows alone. `yoco`: "off", "mask" or "compact"."""

    def __init__(self, shape: ModelShape, yoco: str = "off") -> None: ...
    def target_pass(self, sequences: Sequence[SequenceRows]) -> StepCost:
        """One pass of the target model; with drafts on, the draft context behind it too."""

    def draft_pass(self, last_positions: Sequence[int]) -> StepCost:
        """One block a request; positions of the newest token that the target model has run."""

    def plan_cost(self, plan: StepPlan) -> StepCost:
        """Both passes of a plan: logits of the rows that sample, drafts as if all verified ones were accepted."""

class SchedulerStats:
    """Running totals.

    Attributes:
        num_added: sequences queued, forks included.
        num_forked: forks that began on shared blocks instead of computing the prompt again.
        num_finished_stop, num_finished_length: ended by a stop id, by a length limit.
        num_finished_external, num_aborted: ended by finish, by abort.
        num_preemptions: times a sequence lost its cache.
        num_steps, num_prefill_steps, num_decode_steps: steps planned, empty ones not counted.
        num_prefill_tokens, num_decode_tokens: rows of these steps.
        num_recomputed_tokens: prefill rows that had been computed before a preemption.
        num_generated_tokens: tokens handed out, less those that finish dropped.
        num_verify_steps: decode steps with at least one draft, counted for each sequence.
        num_verify_tokens: tokens that these gave, less what a stop or finish cut off their ends.
        num_drafts_verified, num_drafts_accepted: drafts in these, and those of them that became tokens (less the same).
        verified_at, accepted_at: int64 [num_drafts], these two by the draft's position.
        num_undrafted_steps: decode steps without a draft pass behind them, since drafts did not pay.
        num_draft_probes: times that drafts were tried although they did not pay.
        cost: of all steps planned since Scheduler.set_estimator; drafts as if all verified ones were accepted.
    """

    @property
    def num_added(self) -> int: ...
    @property
    def num_forked(self) -> int: ...
    @property
    def num_finished_stop(self) -> int: ...
    @property
    def num_finished_length(self) -> int: ...
    @property
    def num_finished_external(self) -> int: ...
    @property
    def num_aborted(self) -> int: ...
    @property
    def num_preemptions(self) -> int: ...
    @property
    def num_steps(self) -> int: ...
    @property
    def num_prefill_steps(self) -> int: ...
    @property
    def num_decode_steps(self) -> int: ...
    @property
    def num_prefill_tokens(self) -> int: ...
    @property
    def num_recomputed_tokens(self) -> int: ...
    @property
    def num_decode_tokens(self) -> int: ...
    @property
    def num_generated_tokens(self) -> int: ...
    @property
    def num_verify_steps(self) -> int: ...
    @property
    def num_verify_tokens(self) -> int: ...
    @property
    def num_drafts_verified(self) -> int: ...
    @property
    def num_drafts_accepted(self) -> int: ...
    @property
    def verified_at(self) -> NDArray[np.int64]: ...
    @property
    def accepted_at(self) -> NDArray[np.int64]: ...
    @property
    def num_undrafted_steps(self) -> int: ...
    @property
    def num_draft_probes(self) -> int: ...
    @property
    def cost(self) -> StepCost: ...

class DraftCalibration:
    """How often judged drafts were right: a histogram by position and log-odds of the confidence.

    A draft is judged when it is verified and all drafts before it were accepted. Bin i holds log-odds from -10 + i / 8
    to -10 + (i + 1) / 8; the outermost bins also what lies beyond.

    Attributes:
        counts, accepted: int64 [num_drafts, 160].
        confidence_sums: float64 [num_drafts, 160].
    """

    @property
    def counts(self) -> NDArray[np.int64]: ...
    @property
    def accepted(self) -> NDArray[np.int64]: ...
    @property
    def confidence_sums(self) -> NDArray[np.float64]: ...

class Scheduler:
    """Plans steps and keeps the books. Loop: plan = schedule(); compute it; update(plan.step_id, ...).

    Over a decode step in flight the next step may be planned before that one is booked: plan = schedule(); begin to
    compute it; update(the step before, ...); sample by settled(plan.step_id). Steps are booked oldest first and
    discarded newest first. Every method may be called from any thread.
    """

    def __init__(self, config: SchedulerConfig) -> None: ...
    def add(self, spec: SequenceSpec) -> None:
        """Queue a sequence and its forks; ValueError with the figures when it is wrong or could never run."""

    def abort(self, seq_id: int) -> bool:
        """Forget a sequence and free what it holds; False when it is not known (any more).

        Forks that have not begun go with the sequence that they would come from.
        """

    def finish(self, seq_id: int, keep_tokens: int) -> bool:
        """End a sequence from outside with its first keep_tokens new tokens; False when it is not known (any more).

        For one that ended by itself in the latest update the counts are corrected all the same, once.
        """

    def schedule(self, kind: str | None = None) -> StepPlan:
        """Plan the next step, over nothing or over one decode step in flight; RuntimeError over a prefill step or two.

        Over a decode step the plan is a linked decode step, a prefill step of other sequences, which is exact, or
        empty: then that step is to be booked first. An empty plan need not be booked. Sequences that end in the step in
        flight are in a linked plan all the same, unless that is sure by their length: such rows (ghosts) get no token.

        Args:
            kind: "prefill" or "decode", what several replicas have agreed on: the plan is of that kind, or empty if
                there is nothing of it here. None: this scheduler decides.
        """

    def vote(self) -> tuple[bool, bool]:
        """Whether the next step could be a prefill step, and whether it could be a decode step."""

    def settled(self, step_id: int) -> StepPlan:
        """The exact plan of a step in flight, equal to `resolve` of the plan that `schedule` returned.

        RuntimeError for a linked plan as long as the step before it is not booked; ValueError for another step.
        """

    def update(
        self,
        step_id: int,
        tokens: _Int32s,
        cu_tokens: _Int32s,
        draft_ids: NDArray[np.integer] | None = None,
        confidences: NDArray[np.floating] | None = None,
    ) -> StepUpdate:
        """Book the tokens of the oldest step in flight; settles the step behind it.

        Args:
            step_id: the plan's.
            tokens: int32, one for each sequence that samples (with drafts: the accepted ones and one more), and behind
                it one for each of its forks in the plan. What is given to a sequence or a fork that is gone is ignored.
            cu_tokens: int32 [S+1]; plan sequence i gets tokens[cu_tokens[i]:cu_tokens[i+1]].
            draft_ids: int32 [D, num_drafts] new drafts, a row for each plan sequence that samples and behind it one for
                each of its forks in the plan, gone or not; -1 behind the last of a row. None: nobody got any. How many
                a row has must not depend on what its drafts are (a confidence of 0 may): that would bias rejection
                sampling.
            confidences: float32 [D, num_drafts], probability that a draft is accepted if those before it are; None: 1.
        """

    def set_cost_curves(
        self,
        step_points: Sequence[tuple[int, float]],
        draft_points: Sequence[tuple[int, float]],
        is_guess: bool = False,
    ) -> None:
        """Say what steps cost, for varlen: (rows, ms) of target steps, (sequences, ms) of draft passes.

        Sizes ascend. Between two sizes the larger one's time counts. Without step points every draft is verified.
        With is_guess the times are in a unit of their own, and `observe_step_ms` makes milliseconds of them.
        """

    def observe_step_ms(self, step_id: int, forward: float, sample: float, draft: float) -> None:
        """Say what the parts of a step in flight took, in milliseconds, before its update; corrects the cost curves.

        Only decode steps count. Results stay repeatable only as far as these times are.
        """

    def draft_calibration(self) -> DraftCalibration: ...
    def set_estimator(self, estimator: StepEstimator | None) -> None:
        """From now on `stats().cost` sums up what the planned steps cost, a linked one's once it is settled.

        None: nothing is counted.
        """

    def discard(self, step_id: int) -> None:
        """Give up the newest step in flight after a failure; its sequences are as they were before it.

        A decode step can be computed again as long as no later step was computed on top of it: two steps back, rings
        may be overwritten. So where both were computed, book the older one.
        """

    def save_prefix(self, seq_id: int) -> int:
        """Keep the computed tokens of a sequence that runs, or ended a short while ago, for later ones to begin on.

        Returns the prefix's id. ValueError when its blocks are gone or would leave too little for the unfinished.
        """
    def close_prefix(self, prefix_id: int) -> bool:
        """Give a prefix up; sequences that begin on it keep it while they live. False: it is not known."""
    def prefix_token_ids(self, prefix_id: int) -> NDArray[np.int32]:
        """Tokens of an open prefix."""
    def is_in_caches(self, seq_id: int) -> bool:
        """Whether a sequence is unfinished, or has ended and its text is still there to be saved."""
    @property
    def num_saved_blocks(self) -> int:
        """Different blocks that saved prefixes hold: so many fewer are there for sequences."""
    @property
    def steps_in_flight(self) -> list[int]:
        """Numbers of the steps that are planned, and neither booked nor discarded; oldest first, without empty ones."""
    def has_unfinished(self) -> bool: ...
    @property
    def num_waiting(self) -> int: ...
    @property
    def num_running(self) -> int: ...
    @property
    def num_free_blocks(self) -> int: ...
    @property
    def num_free_state_slots(self) -> int: ...
    @property
    def capacity_tokens(self) -> int:
        """Tokens that the whole cache holds: num_blocks * block_size."""

    @property
    def config(self) -> SchedulerConfig: ...
    def stats(self) -> SchedulerStats: ...
    def token_ids(self, seq_id: int) -> NDArray[np.int32]:
        """Prompt and generated tokens of an unfinished sequence, a copy; ValueError when it is not known.

        A fork that has not begun has the prompt.
        """

    def check(self) -> None:
        """Prove the invariants; RuntimeError with the first broken one."""
