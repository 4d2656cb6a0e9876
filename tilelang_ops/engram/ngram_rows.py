"""Table rows of a token's hashed n-grams."""

from typing import Any

import tilelang.language as T
import torch

from tilelang_ops.jit.arch import arch_of
from tilelang_ops.jit.compiled import compiled
from tilelang_ops.jit.kernel_spec import KernelSpec
from tilelang_ops.jit.model_sizes import ModelSizes

_THREADS = 128


def ngram_rows_kernel(arch: str, ngram_size: int, num_heads: int) -> Any:
    """Multiply-xor hash modulo a prime, one thread a row number; 64-bit integers wrap, the remainder is floored."""
    num_tokens = T.dynamic("num_tokens")
    rows_per_token = (ngram_size - 1) * num_heads

    @T.prim_func
    def ngram_rows(
        ngram: T.Tensor((num_tokens, ngram_size), "int64"),
        multipliers: T.Tensor((ngram_size,), "int64"),
        primes: T.Tensor((rows_per_token,), "int64"),
        offsets: T.Tensor((rows_per_token,), "int64"),
        rows: T.Tensor((num_tokens, rows_per_token), "int64"),
    ):
        with T.Kernel(T.ceildiv(num_tokens * rows_per_token, _THREADS), threads=_THREADS) as block:
            state = T.alloc_local((1,), "int64")
            index = block * _THREADS + T.get_thread_binding()
            token = index // rows_per_token
            column = index % rows_per_token
            if token < num_tokens:
                state[0] = ngram[token, 0] * multipliers[0]
                for distance in T.unroll(1, ngram_size):
                    if distance <= column // num_heads + 1:
                        state[0] = T.bitwise_xor(state[0], ngram[token, distance] * multipliers[distance])
                state[0] = T.truncmod(state[0], primes[column])
                if state[0] < T.int64(0):
                    state[0] = state[0] + primes[column]
                if ngram[token, 0] < T.int64(0):
                    rows[token, column] = T.int64(-1)
                else:
                    rows[token, column] = state[0] + offsets[column]

    return ngram_rows


def ngram_rows(
    ngram: torch.Tensor, multipliers: torch.Tensor, primes: torch.Tensor, offsets: torch.Tensor
) -> torch.Tensor:
    """ngram int64 [T, n] nearest first, multipliers int64 [n], primes and offsets int64 [n-1, h] -> int64 [T, (n-1)*h],
    -1 for tokens whose first id is negative.
    """
    num_tokens, ngram_size = ngram.shape
    rows = torch.empty((num_tokens, primes.numel()), dtype=torch.int64, device=ngram.device)
    if rows.numel():
        statics = {"ngram_size": ngram_size, "num_heads": primes.shape[1]}
        kernel = compiled(ngram_rows_kernel, arch_of(ngram.device), **statics)
        kernel(ngram, multipliers, primes.view(-1), offsets.view(-1), rows)
    return rows


def kernel_specs(sizes: ModelSizes) -> list[KernelSpec]:
    """One, if the model has Engram layers."""
    if sizes.engram_max_ngram_size < 2:
        return []
    statics = {"ngram_size": sizes.engram_max_ngram_size, "num_heads": sizes.engram_n_heads}
    return [KernelSpec("engram.ngram_rows", ngram_rows_kernel, statics)]
