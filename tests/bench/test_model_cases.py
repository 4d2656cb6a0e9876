"""Every op of a model with made-up operands: they fit the ops, and the work of a call is counted."""

from __future__ import annotations

import torch

from deepinfer.bench.attention_cases import MOST_SEQUENCES, PagedRows
from deepinfer.bench.cuda_op_bench import first_call, num_sets
from deepinfer.bench.library_calls import library_call
from deepinfer.bench.model_cases import model_cases
from deepinfer.bench.random_operands import RandomOperands
from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.core.cache_spec import KVRounding
from deepinfer.ops import Ops, reference
from tests.support.golden_case import GOLDEN

CPU = torch.device("cpu")


def test_every_op_runs_on_its_operands() -> None:
    config = DeepSeekV41Config.from_path(GOLDEN / "nano-s1")
    cases = model_cases(config, RandomOperands(CPU, 1 << 14), context_len=200)
    names = {name for name in vars(Ops) if not name.startswith("_")}
    # Made once at load; where other ranks have some of the experts; about rows, not values.
    elsewhere = {"rope_table", "sum_experts", "map_rows", "resolve_rows"}
    assert {case.op for case in cases} == names - elsewhere
    torch.manual_seed(0)
    for case in cases:
        make = case.prepare()
        call = first_call(getattr(reference, case.op), case.op, make(3))
        assert case.count > 0 and call.num_bytes > 0 and call.shapes, case
        if isinstance(call.result, torch.Tensor):
            assert call.result.shape[0] == 3 and call.result.float().isfinite().all(), case


def test_uses_of_one_op() -> None:
    config = DeepSeekV41Config.from_path(GOLDEN.parents[1] / "deepinfer/data/configs/deepseek-v41-flash.json")
    cases = model_cases(config, RandomOperands(CPU, 1 << 14), context_len=200)
    counts = {(case.op, case.use): case.count for case in cases}
    assert counts["sparse_attention", "window"] == 2 and counts["sparse_attention", "window and ratio 1"] == 20
    assert counts["select_entries", "ratio 1, makes candidates"] == 1
    assert counts["select_entries", "ratio 1, of candidates"] == 4 and counts["select_entries", "ratio 2"] == 3
    assert counts["linear", "compressor, pairs"] == 6 and counts["moe", "experts"] == 40
    assert counts["moe", "draft experts"] == 3 and counts["linear", "draft Markov head"] == 5


def test_rows_of_a_chunk_see_ever_more() -> None:
    few = PagedRows(2, 2, 101)
    assert few.num_visible(CPU).tolist() == [51, 51]
    many = PagedRows(MOST_SEQUENCES + 1, 2, 101)
    assert many.num_visible(CPU)[:4].tolist() == [51, 51, 52, 52] and many.max_visible == 307


def test_rows_of_a_sequence_are_neighbours() -> None:
    drafted = PagedRows(6, 2, 101, rows_per_seq=3)
    assert drafted.num_visible(CPU).tolist() == [51, 51, 52] * 2
    index = drafted.window_index(4, CPU)
    assert index[:, 0].tolist() == [0, 1, 2, 6, 7, 8] and index[2].tolist() == [2, 3, 4, 5]
    random = RandomOperands(CPU, 1 << 14)
    paged = drafted.entries(random, random.pool(32, KVRounding.FP4_GROUP32, 64))
    assert paged.first_block.tolist() == [0, 0, 0, 1, 1, 1] and paged.block_ids.shape == (2,)
    assert len(set(PagedRows(MOST_SEQUENCES * 3, 2, 0, rows_per_seq=3).num_visible(CPU).tolist())) <= 2


def test_sets_are_beyond_the_cache() -> None:
    assert num_sets(10**9, 50 * 2**20) == 2  # no set meets itself in the cache
    assert num_sets(10 * 2**20, 50 * 2**20) == 11
    assert num_sets(1, 50 * 2**20) == 256


def test_torch_has_a_norm_and_a_top_k_but_no_experts() -> None:
    config = DeepSeekV41Config.from_path(GOLDEN / "nano-s1")
    cases = {case.op: case for case in model_cases(config, RandomOperands(CPU, 1 << 14), context_len=200)}
    call = first_call(reference.rms_norm, "rms_norm", cases["rms_norm"].prepare()(3))
    found = library_call(call)
    assert found is not None and torch.allclose(found[1](), call.result, rtol=2**-7)
    call = first_call(reference.moe, "moe", cases["moe"].prepare()(3))
    assert library_call(call) is None
