"""Sampling: logits to tokens and log-probabilities, independent of what else runs."""

from deepinfer.sampling.prompt_logprobs import join_prompt_logprobs, prompt_logprobs, rows_per_block
from deepinfer.sampling.sampler import Sampler
from deepinfer.sampling.seeds import derive_choice_seed, derive_job_seed, derive_request_seed

__all__ = [
    "Sampler",
    "join_prompt_logprobs",
    "derive_choice_seed",
    "derive_job_seed",
    "derive_request_seed",
    "prompt_logprobs",
    "rows_per_block",
]
