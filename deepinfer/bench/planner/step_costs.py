"""What the parts of a decode step take on one GPU, from a profile of kernels."""

from __future__ import annotations

from typing import Final

import torch

from deepinfer.bench.attention_cases import MOST_SEQUENCES
from deepinfer.bench.model_cases import model_cases
from deepinfer.bench.planner.expert_cost import ExpertCost
from deepinfer.bench.planner.expert_work import ExpertWork
from deepinfer.bench.planner.kernel_profile import KernelProfile
from deepinfer.bench.planner.op_curve import Growth, OpCurve
from deepinfer.bench.random_operands import RandomOperands
from deepinfer.bench.step_calls import OpKey
from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.errors import ConfigError

_PRODUCTS: Final = {"quantized_linear", "linear", "rotate_grouped_linear", "route", "hc_step"}
_HEAD: Final = {("linear", "head"), ("gather_rows", "streams of sampled rows")}
_WINDOW: Final = ("sparse_attention", "window")
_PAIRS: Final = ("select_entries", "ratio 2")
_ALL_ENTRIES: Final = ("select_entries", "ratio 1, makes candidates")
FP4_BYTES: Final = 0.5 + 1 / 32  # of a routed expert's weight, scales included
FP8_BYTES: Final = 1 + 1 / 1024  # of the shared one's


class StepCosts:
    """Microseconds of the target model's parts, each op at its measured times. Drafts are `DraftCosts`.

    What ops take depends on rows by `OpCurve`; selection and attention also on the context, in straight lines:

    * selection by the entries it scores. With two ratios at one context, different numbers of entries were measured;
      their difference is what an entry takes. With one ratio all of the time is taken to be the entries'.
    * attention by the keys of a row: between those of the window alone and those of window and picks.

    Engram tables lie in pinned host memory.

    Args:
        config: any number of layers; sizes as in the profile, else ConfigError.
        profile: times.
    """

    def __init__(self, config: DeepSeekV41Config, profile: KernelProfile) -> None:
        self.config = config
        _check_sizes(config, profile)
        self._context_len = profile.context_len
        self._calls = _calls(config, profile.context_len)
        used = {*self._calls, _WINDOW, *(key for key in (_PAIRS, _ALL_ENTRIES) if key in profile.ops)}
        self._curves = {key: _curve(key, profile) for key in used if key[0] != "moe"}
        self._experts = ExpertCost(profile.points(("moe", "experts")))

    def dense_us(self, rows: float, context_len: int) -> float:
        """All layers but their experts.

        Args:
            rows: one a sequence.
            context_len: tokens before each row.
        """
        layers = (key for key in self._calls if key not in _HEAD and key[0] != "moe")
        return sum(self._calls[key] * self.call_us(key, rows, context_len) for key in layers)

    def head_us(self, rows: float) -> float:
        """Output matrix; sampling itself is in no profile."""
        return sum(self._calls[key] * self._curves[key].us(rows) for key in _HEAD)

    def experts_us(self, work: ExpertWork) -> float:
        """Routed and shared experts of one layer."""
        weights = 3 * self.config.hidden_size * self.config.moe_intermediate_size
        num_bytes = weights * (work.awake * FP4_BYTES + (FP8_BYTES if work.rows else 0.0))
        return self._experts.us(num_bytes, weights * (work.pairs + work.rows))

    def call_us(self, key: OpKey, rows: float, context_len: int) -> float:
        """One call of an op, as `deepinfer bench ops` names it."""
        us = self._curves[key].us(rows)
        if key[0] == "select_entries":
            missing = self._num_entries(key, self._context_len) - self._num_entries(key, context_len)
            return max(0.0, us - missing * self._entry_us(key, rows))
        if key[0] == "sparse_attention" and key != _WINDOW:
            ratio = int(key[1].split()[-1])
            window = self._curves[_WINDOW].us(rows)
            return window + (us - window) * min(1.0, context_len / ratio / self.config.index_topk)
        return us

    def _num_entries(self, key: OpKey, context_len: int) -> float:
        """Entries that a selection scores for a row."""
        ratio = 2 if key == _PAIRS else 1
        return min(context_len, self.config.num_candidate_entries) if "of candidates" in key[1] else context_len / ratio

    def _entry_us(self, key: OpKey, rows: float) -> float:
        """Of one more entry for each row."""
        if _PAIRS in self._curves and _ALL_ENTRIES in self._curves:
            ends = [
                (self._num_entries(end, self._context_len), self._curves[end].us(rows))
                for end in (_PAIRS, _ALL_ENTRIES)
            ]
            return (ends[1][1] - ends[0][1]) / (ends[1][0] - ends[0][0])
        return self._curves[key].us(rows) / self._num_entries(key, self._context_len)


def _calls(config: DeepSeekV41Config, context_len: int) -> dict[OpKey, int]:
    """How often a decode step calls each op, drafts aside."""
    cases = model_cases(config, RandomOperands(torch.device("cpu"), 1), context_len)
    calls = {(case.op, case.use): case.count for case in cases}
    calls = {key: count for key, count in calls.items() if "draft" not in key[1] and "prefill" not in key[1]}
    if tables := calls.pop(("engram_lookup", "device table"), 0):
        calls["engram_lookup", "pinned host table"] = tables
    return calls


def _curve(key: OpKey, profile: KernelProfile) -> OpCurve:
    growth = Growth.WEIGHTS if key[0] in _PRODUCTS else Growth.ROWS
    points = [(point.rows, point.us) for point in profile.points(key)]
    if key[0] == "select_entries":  # of a prompt's chunk the rows share what they read
        points = [point for point in points if point[0] <= MOST_SEQUENCES] or points
    return OpCurve(points, growth)


def _check_sizes(config: DeepSeekV41Config, profile: KernelProfile) -> None:
    """Compares operands of the largest products."""
    dim, heads = config.hidden_size, config.num_attention_heads * config.head_dim
    expected = {
        ("linear", "head"): f"{config.vocab_size}x{dim}",
        ("quantized_linear", "query up"): f"{heads}x{config.q_lora_rank}",
        ("quantized_linear", "output up"): f"{dim}x{config.o_groups * config.o_lora_rank}",
        ("moe", "experts"): f"{config.n_routed_experts}x{config.moe_intermediate_size}x{dim}",
    }
    for key, weight in expected.items():
        profile.points(key)
        if weight not in profile.shapes[key].split():
            raise ConfigError(
                f"{profile.name}: {key[1]} was measured with operands {profile.shapes[key]}, but the model's weight is "
                f"{weight}; measure this model: deepinfer bench ops --device cuda --model ... --json"
            )
