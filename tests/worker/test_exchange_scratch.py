"""What the exchanges of a step take, by hand."""

from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.config.parallel_config import ParallelConfig
from deepinfer.worker.exchange_scratch import exchange_bytes, spread_bytes
from tests.support.golden_case import GOLDEN


def test_the_larger_of_experts_and_tables() -> None:
    config = DeepSeekV41Config.from_path(GOLDEN / "nano-s1")
    alone, experts, tables, both = (
        exchange_bytes(ParallelConfig(4, expert_parallel_size=e, engram_parallel_size=t), config, 8)
        for e, t in ((1, 1), (4, 1), (1, 2), (4, 2))
    )
    outputs = 8 * 4 * config.num_experts_per_tok * 2 * config.hidden_size * 2
    assert alone == 0 and outputs < experts < 3 * outputs
    values = 8 * 2 * (config.engram_max_ngram_size - 1) * config.engram_n_heads * config.engram_head_dim * 2
    assert values < tables < 20 * values and both == max(experts, tables)


def test_each_pick_has_four_vectors_and_each_row_that_goes_three() -> None:
    config = DeepSeekV41Config.from_path(GOLDEN / "nano-s1")
    alone, two, many = (spread_bytes(ParallelConfig(64, expert_parallel_size=e), config, 8) for e in (1, 2, 64))
    picks, vector = config.num_experts_per_tok, 2 * config.hidden_size
    assert alone == 0 and 0 <= two - 8 * vector * (4 * picks + 3 * 2) < 8 * picks * 64
    assert many - two == 8 * 3 * vector * (picks - 2)
