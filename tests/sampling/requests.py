"""Requests for the sampler tests."""

import numpy as np

from deepinfer.core.engine_request import EngineRequest
from deepinfer.sampling import Sampler
from deepinfer.sampling_params import SamplingParams


def make_request(seq_id=0, *, prompt=(0,), seed=42, stop_token_ids=(), **params):
    """An EngineRequest with the given sampling parameters."""
    return EngineRequest(
        seq_id=seq_id,
        request_id=str(seq_id),
        choice=0,
        prompt_token_ids=np.array(prompt, np.int32),
        params=SamplingParams(**params),
        seed=seed,
        max_tokens=100,
        stop_token_ids=tuple(stop_token_ids),
        score_start=None,
        score_top_k=0,
    )


def make_sampler(requests, num_valid_ids, eos_token_ids=()):
    """A sampler that knows the given requests."""
    sampler = Sampler(num_valid_ids, eos_token_ids)
    for request in requests:
        sampler.add(request)
    return sampler


def sample_one(logits, output_index=0, generated=(), num_valid_ids=None, eos_token_ids=(), **request):
    """Sample one row of logits with a request of the given fields."""
    sampler = make_sampler([make_request(**request)], num_valid_ids or logits.shape[-1], eos_token_ids)
    return sampler.sample(logits.reshape(1, -1), [0], [output_index], [list(generated)])[0]
