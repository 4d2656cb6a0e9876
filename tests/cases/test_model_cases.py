"""Cases 18, 35, 37 and 38: chunk borders, neighbours, positions and short contexts on a random model."""

import math

import numpy as np
import pytest
import torch

from deepinfer import LLM
from deepinfer.checkpoint.reader import CheckpointReader
from deepinfer.checkpoint.writer import write_random_checkpoint
from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.models.deepseek_v41.rope import RopeTables
from tests.support.tiny_config import tiny_config


def ids(length, seed=0):
    return np.random.default_rng(seed).integers(3, 280, length).tolist()


def same(one, other):
    """Bit equality of two completions with log-probabilities."""
    a, b = one.outputs[0], other.outputs[0]
    return a.token_ids == b.token_ids and all(
        np.array_equal(getattr(a.logprobs, name), getattr(b.logprobs, name))
        for name in ("logprobs", "ranks", "top_ids", "top_logprobs")
    )


PROMPTS = [ids(40)[:length] for length in (1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 40)]


@pytest.fixture(scope="module")
def unchunked(random_llm, run):
    return run(random_llm(), PROMPTS, max_tokens=6, ignore_eos=True, logprobs=-1)


@pytest.mark.parametrize(
    ("chunk", "block_size"),
    [
        pytest.param(chunk, block, marks=[] if (chunk, block) in ((1, 4), (2, 8), (3, 4), (7, 4), (9, 8)) else slow)
        for slow in (pytest.mark.slow,)
        for chunk in (1, 2, 3, 5, 7, 8, 9, 16, 64)
        for block in (4, 8)
    ],
)
def test_case_18_chunk_sizes_change_no_bit(random_model, run, unchunked, chunk, block_size):
    options = {"numerics": "fp32", "max_model_len": 64, "max_prefill_chunk": chunk, "block_size": block_size}
    with LLM(random_model, **options) as llm:
        outputs = run(llm, PROMPTS, max_tokens=6, ignore_eos=True, logprobs=-1)
    assert all(same(one, other) for one, other in zip(outputs, unchunked, strict=True))


@pytest.mark.parametrize("numerics", ["fp32", "official"])
def test_case_35_a_row_does_not_see_its_neighbours(random_llm, run, numerics):
    llm = random_llm(numerics=numerics, max_model_len=96, max_num_seqs=17)
    chunked = random_llm(numerics=numerics, max_model_len=96, max_num_seqs=17, max_prefill_chunk=3)
    prompt, fields = ids(20, 1), {"max_tokens": 2, "ignore_eos": True, "logprobs": -1}
    (alone,) = run(llm, [prompt], **fields)
    assert alone.metrics.batch_invariant is True and alone.metrics.numerics == numerics
    for size, places in ((2, (0, 1)), (3, (1,)), (8, (7,)), (17, (5,))):
        for place in places:
            batch = [ids(1 if n % 2 else 60, n) for n in range(size)]
            batch[place] = prompt
            for engine in (llm, chunked) if size == 3 else (llm,):
                assert same(run(engine, batch, **fields)[place], alone), (size, place)


def test_case_35_the_mode_in_force_is_stated(random_llm, run):
    llm = random_llm(batch_invariant=False)
    (output,) = run(llm, [ids(5)], max_tokens=2)
    assert output.metrics.batch_invariant is False and output.error is None


def test_case_37_positions_turn_by_layer_kind(random_llm):
    """Window layers: base theta without YaRN; compressed layers: their own theta with YaRN. Plain formulas."""
    model = random_llm()._runtime.worker.model
    config = model.runtime.config
    tables = RopeTables.build(model.runtime, torch.device("cpu"))
    half = config.qk_rope_head_dim // 2
    positions = torch.arange(tables.window.cos.shape[0], dtype=torch.float64)[:, None]
    powers = torch.arange(half, dtype=torch.float64) / half
    plain = positions * config.rope_theta**-powers
    torch.testing.assert_close(tables.of(0).cos.double(), plain.cos(), atol=1e-5, rtol=0)
    torch.testing.assert_close(tables.of(0).sin.double(), plain.sin(), atol=1e-5, rtol=0)
    scaling, theta = config.rope_scaling, config.compress_rope_theta

    def border(rotations):  # dim at which a rotation count is met over the original length
        length = scaling.original_max_position_embeddings
        return half * math.log(length / (rotations * 2 * math.pi)) / math.log(theta)

    low, high = max(math.floor(border(scaling.beta_fast)), 0), min(math.ceil(border(scaling.beta_slow)), 2 * half - 1)
    ramp = ((torch.arange(half, dtype=torch.float64) - low) / max(high - low, 0.001)).clamp(0, 1)
    frequencies = theta**-powers
    yarn = positions * (frequencies / scaling.factor * ramp + frequencies * (1 - ramp))
    for ratio in (1, 2):
        torch.testing.assert_close(tables.of(ratio).cos.double(), yarn.cos(), atol=1e-5, rtol=0)
        torch.testing.assert_close(tables.of(ratio).sin.double(), yarn.sin(), atol=1e-5, rtol=0)
    for layer, plan in zip(model.layers, config.layer_plans, strict=True):
        expected = tables.of(plan.ratio)
        assert torch.equal(layer.attention._rope.cos, expected.cos), plan.layer_id


def test_case_37_decoding_equals_a_full_pass_at_every_position(random_llm, run):
    """One call decodes 70 positions from a single id, another reads them from one prefill."""
    llm = random_llm(max_model_len=96)
    tokens = ids(71, 3)
    golden = {"golden_token_ids": tokens[1:], "max_tokens": 70, "ignore_eos": True, "logprobs": -1}
    (decoded,) = run(llm, [tokens[:1]], **golden)
    (full,) = run(llm, [tokens], max_tokens=0, prompt_logprobs=-1)
    rows = np.stack([entry.row for entry in full.prompt_logprobs[1:]])
    found = np.zeros_like(rows)
    scores = decoded.outputs[0].logprobs
    np.put_along_axis(found, scores.top_ids.astype(np.int64), scores.top_logprobs, axis=1)
    assert decoded.outputs[0].token_ids == tokens[1:] and np.array_equal(found, rows)


@pytest.mark.parametrize("cache_blocks", [None, 40])
def test_case_38_entries_and_memory_at_short_lengths(random_model, run, cache_blocks):
    """Lengths 1 .. window + 2 in one batch: complete groups are attended to from the first one on, Engram works."""
    lengths = list(range(1, 11))
    options = {"numerics": "fp32", "max_model_len": 64, "block_size": 4, "max_num_seqs": 10}
    if cache_blocks is not None:  # a fixed-size cache, small enough to be reused
        with LLM(random_model, **options) as llm:
            options["kv_cache_bytes"] = cache_blocks * llm._runtime.worker.memory_plan.block_bytes
    with LLM(random_model, **options) as llm:
        names = ("layers.2.index.picks", "layers.5.index.picks", "layers.1.engram.rows")
        with llm.capture(*names) as tap:
            outputs = run(llm, [ids(length, length) for length in lengths], max_tokens=1, ignore_eos=True, logprobs=-1)
        for length, output in zip(lengths, outputs, strict=True):
            for name, ratio in zip(names, (2, 1), strict=False):
                picks = tap.tensor(name, output.request_id)
                expected = [min((place + 1) // ratio, 4) for place in range(length)]
                assert (picks >= 0).sum(dim=1).tolist() == expected, (name, length)
            assert tap.tensor(names[2], output.request_id).shape[0] == length
            (alone,) = run(llm, [ids(length, length)], max_tokens=1, ignore_eos=True, logprobs=-1)
            assert same(alone, output), length


def test_case_38_engram_counts_from_the_first_token(random_model, random_llm, run, tmp_path):
    """Zeroed tables change the logits at length 1, 2 and 5; the gate is open for every text token."""
    overrides = {"layers.*.engram.embed.weight": 0.0}
    write_random_checkpoint(tiny_config(), tmp_path, seed=3, overrides=overrides)
    with CheckpointReader(tmp_path) as ablated, CheckpointReader(random_model) as plain:
        assert torch.equal(ablated.tensor("head.weight"), plain.tensor("head.weight"))
    prompts = [ids(5)[:length] for length in (1, 2, 5)]
    added = []

    def watch(original, streams, ctx):
        result = original(streams, ctx)
        added.append((result - streams).abs().amax(dim=(1, 2)))
        return result

    llm = random_llm()
    with llm.replace("layers.1.engram", watch):
        outputs = run(llm, prompts, max_tokens=1, logprobs=-1)
    assert (torch.cat(added) > 1e-4).all()
    with LLM(tmp_path, numerics="fp32", max_model_len=64) as llm:
        for one, other in zip(run(llm, prompts, max_tokens=1, logprobs=-1), outputs, strict=True):
            a, b = one.outputs[0].logprobs, other.outputs[0].logprobs
            difference = np.abs(np.sort(a.top_logprobs[0]) - np.sort(b.top_logprobs[0])).max()
            assert difference > 1e-3


def test_case_37_config_of_the_random_model_has_both_kinds(random_model):
    config = DeepSeekV41Config.from_path(random_model)
    assert {plan.ratio for plan in config.layer_plans} == {0, 1, 2} and config.rope_scaling is not None
    assert config.rope_theta != config.compress_rope_theta
