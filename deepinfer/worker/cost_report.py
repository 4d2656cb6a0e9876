"""What prefill and decoding of a given batch cost, from a config alone."""

from __future__ import annotations

from deepinfer._C import SequenceRows, StepEstimator
from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.config.numerics import Numerics
from deepinfer.worker.cost_totals import CostTotals
from deepinfer.worker.kv_cache import cache_table
from deepinfer.worker.model_shape import model_shape

_BLOCK_SIZE = 128  # no influence on the figures


def cost_report(config: DeepSeekV41Config, num_tokens: int, num_seqs: int) -> dict[str, CostTotals]:
    """Costs of `num_seqs` sequences with prompts of `num_tokens` tokens, in numerics official: label -> cost.

    The prefill is one step; behind it a decode step with one row a sequence. Where the model has consumer layers there
    is also the prefill in YOCO mode "compact", where it has drafts a draft pass of a whole block.
    """
    table = cache_table(config, Numerics.OFFICIAL, "auto", _BLOCK_SIZE)
    shape = model_shape(config, Numerics.OFFICIAL, table)
    kept_from = max(0, num_tokens - config.sliding_window)
    prompt = SequenceRows(context_len=0, num_rows=num_tokens, consumer_start=kept_from, num_logit_rows=1)
    newest = SequenceRows(context_len=num_tokens, num_rows=1, num_logit_rows=1)
    costs = {"prefill": StepEstimator(shape).target_pass([prompt] * num_seqs)}
    if config.n_prefill_layer is not None:
        costs["prefill, yoco compact"] = StepEstimator(shape, "compact").target_pass([prompt] * num_seqs)
    costs["decode step"] = StepEstimator(shape).target_pass([newest] * num_seqs)
    if config.num_nextn_predict_layers:
        num_drafts = config.dspark_block_size
        with_drafts = cache_table(config, Numerics.OFFICIAL, "auto", _BLOCK_SIZE, num_drafts)
        drafts = StepEstimator(model_shape(config, Numerics.OFFICIAL, with_drafts, num_drafts))
        costs["draft pass"] = drafts.draft_pass([num_tokens] * num_seqs)
    return {label: CostTotals.of(cost) for label, cost in costs.items()}
