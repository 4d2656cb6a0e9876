"""Plans of the scheduler over steps in flight: the device makes the same rows of them as the host does later."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
import torch

from deepinfer._C import StepPlan
from deepinfer.worker.eager_calls import EagerCalls
from tests.core.fake_worker import Driver, make_config, prompt_of
from tests.worker.decode_chains import BLOCK_SIZE, DRAFTS, LOOKBACK, MAX_LEN, SEQS, Outcome, Resolver, check, leave


@pytest.mark.parametrize("budget", [9, 32])
@pytest.mark.parametrize("seed", range(6))
def test_the_device_agrees_with_the_host(seed: int, budget: int) -> None:
    """Tokens accepted and rejected, texts that end in flight, new ones between; a small budget makes drafts share."""
    random = Random(seed)
    sizes = {"max_num_seqs": SEQS, "max_num_batched_tokens": budget, "max_model_len": MAX_LEN, "block_size": BLOCK_SIZE}
    config = make_config(num_drafts=DRAFTS, num_lookback=LOOKBACK, **sizes)
    driver, resolver, num_linked = Driver(config), Resolver(torch.device("cpu"), EagerCalls()), 0
    for seq_id in range(8):
        driver.add(
            seq_id, prompt_of(random.randint(1, 20), seq_id), random.randint(5, 30), [seq_id] if seq_id < 3 else []
        )
    exact: StepPlan | None = None
    while driver.scheduler.has_unfinished():
        if exact is None:
            exact = driver.scheduler.schedule()
            if exact.kind == "decode":
                check(resolver.run(exact, _padded(random, exact)), exact)
        tokens, cu_tokens = driver.worker.execute(exact)
        drafts, confidences = driver.worker.drafts(exact)
        plan = driver.scheduler.schedule() if exact.kind == "decode" else None
        is_linked = plan is not None and plan.previous_step_id >= 0
        if is_linked:
            none = np.full((len(exact.seq_ids), DRAFTS), -1, dtype=np.int32)  # no draft pass ran
            new = [tokens[begin:end].tolist() for begin, end in zip(cu_tokens[:-1], cu_tokens[1:], strict=True)]
            left = (none, none.astype(np.float32)) if drafts is None else (drafts, confidences)
            leave(Outcome(new, *left), resolver.outcome)
            settled = plan.resolve(exact, tokens, cu_tokens, drafts, confidences)
            check(resolver.run(plan, _padded(random, plan)), settled)
            num_linked += 1
        driver.finish_step(exact, tokens, cu_tokens)
        exact = driver.scheduler.settled(plan.step_id) if is_linked else plan if plan and plan.kind != "empty" else None
    assert num_linked >= 5


def _padded(random: Random, plan: StepPlan) -> int:
    least = len(plan.seq_ids) + plan.num_draft_rows
    return random.randint(least, max(least, SEQS * (1 + DRAFTS)))
