"""Ranks that share the experts give what one engine gives, to the last bit of every log-probability."""

import pytest

from deepinfer.errors import ConfigError, UnsupportedFeatureError
from tests.distributed.equal_outputs import check, spread
from tests.distributed.rank_world import RankWorld
from tests.support.golden_case import GOLDEN


@pytest.mark.parametrize(("two_batches", "overlaps"), [("off", False), ("on", True)])
def test_two_ranks_with_drafts(world2, random_model, two_batches, overlaps):
    sizes = spread(2, 2, two_batch_overlap=two_batches)
    options = {"numerics": "fp32", "overlap": overlaps}
    check(world2, str(random_model), sizes, options, [0, 1, 1, 1, 0])


@pytest.mark.parametrize("two_batches", ["off", "on"])
def test_two_ranks_of_which_one_is_idle(world2, two_batches):
    sizes = spread(2, 2, two_batch_overlap=two_batches)
    check(world2, str(GOLDEN / "nano-s1"), sizes, {"numerics": "fp32", "speculative": "off"}, [1, 1])


def test_two_ranks_that_share_tables_alone(world2, random_model):
    options = {"numerics": "fp32", "yoco": "compact"}
    check(world2, str(random_model), spread(2, 1, engram_parallel_size=2), options, [0, 1, 0])


def test_two_ranks_with_quantized_rows(world2, random_model):
    options = {"numerics": "official", "backend": "cpu"}
    check(world2, str(random_model), spread(2, 2, num_redundant_experts=3), options, [1, 0, 1])


def test_four_ranks_on_the_bundled_model(world4):
    check(world4, None, spread(4, 4), {"numerics": "fp32"}, [3, 0, 1, 3])


def test_four_ranks_with_two_sets_of_experts(world4, random_model):
    options = {"numerics": "fp32-quant", "speculative": "off"}
    sizes = spread(4, 2, num_redundant_experts=1, engram_parallel_size=4)
    check(world4, str(random_model), sizes, options, [0, 0, 3, 3, 1])


@pytest.mark.slow
@pytest.mark.parametrize("size", [3, 6, 8])
@pytest.mark.parametrize("numerics", ["fp32", "official"])
@pytest.mark.parametrize("drafts", [None, "off"])
def test_other_sizes(random_model, size, numerics, drafts):
    """Experts in every divisor of the world; 8 experts and 4 of a draft stage over 3, 6 or 8 ranks."""
    with RankWorld(size) as world:
        for model in (str(random_model), None, str(GOLDEN / "nano-s1")):
            for experts in (n for n in range(1, size + 1) if size % n == 0):
                options = {"numerics": numerics, "speculative": drafts}
                owners = [(3 * i + 1) % size for i in range(7)]
                check(world, model, spread(size, experts, engram_parallel_size=size), options, owners)


def test_options_that_ranks_cannot_have():
    from deepinfer.config.engine_config import EngineConfig
    from deepinfer.engine.lockstep_options import lockstep_options

    with pytest.raises(UnsupportedFeatureError, match="overlap = True"):
        lockstep_options(EngineConfig.create(overlap=True, context_parallel_size=2))
    assert lockstep_options(EngineConfig.create(context_parallel_size=2)).overlap is False
    with pytest.raises(UnsupportedFeatureError, match="cost_curve"):
        lockstep_options(EngineConfig.create(speculative={"cost_curve": "measure"}))
    assert lockstep_options(EngineConfig.create()).overlap is None
    with pytest.raises(ConfigError, match="num_redundant_experts = -1"):
        EngineConfig.create(num_redundant_experts=-1)
