"""Derived seeds and prompt hashes: pure functions, the same on every machine."""

from __future__ import annotations

import hashlib

import numpy as np


def _hash64(domain: bytes, data: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(data, digest_size=8, person=domain).digest(), "little")


def _word(value: int) -> bytes:
    return (value % 2**64).to_bytes(8, "little")


def derive_request_seed(engine_seed: int, request_number: int) -> int:
    """64-bit seed of an unseeded request from the engine seed and the running number of the request."""
    return _hash64(b"request", _word(engine_seed) + _word(request_number))


def derive_choice_seed(request_seed: int, choice: int) -> int:
    """64-bit seed of choice j of a request; choice 0 keeps the request's seed, so it equals n = 1."""
    return request_seed % 2**64 if choice == 0 else _hash64(b"choice", _word(request_seed) + _word(choice))


def derive_job_seed(job_seed: int, custom_id: str) -> int:
    """64-bit seed of one row of a batch job, independent of where the row stands."""
    return _hash64(b"job", _word(job_seed) + custom_id.encode("utf-8"))


def hash_prompt(prompt_token_ids: np.ndarray) -> int:
    """64-bit hash of a prompt's ids (any integer array [n])."""
    return _hash64(b"prompt", np.ascontiguousarray(prompt_token_ids, dtype="<i4").tobytes())
