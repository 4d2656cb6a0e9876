"""The op calls of a model's own decode steps."""

from __future__ import annotations

from pathlib import Path
from typing import Final, cast

import numpy as np
import torch

from deepinfer.bench.op_call import OpCall
from deepinfer.bench.recording_ops import RecordingOps
from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.config.numerics import Numerics
from deepinfer.core.probe import Probe
from deepinfer.models.deepseek_v41.runtime import ModelRuntime
from deepinfer.ops.contract import Ops
from deepinfer.worker.kv_cache import allocate_caches, cache_table
from deepinfer.worker.load_options import LoadOptions
from deepinfer.worker.model_loader import load_model
from deepinfer.worker.replace_points import replace_points
from deepinfer.worker.scratch_plan import ScratchPlan
from deepinfer.worker.torch_executor import TorchExecutor

_BLOCK_SIZE: Final = 128
_STRIDE: Final = 7919  # a prime: spreads token ids, and with them experts and Engram rows


class ModelOps:
    """A loaded model whose ops are recorded.

    Args:
        directory: checkpoint.
        numerics: rounding mode.
        ops: who computes.
        max_rows: largest number of rows.
        context_len: tokens that every sequence pretends to have.
    """

    def __init__(self, directory: Path, numerics: Numerics, ops: Ops, max_rows: int, context_len: int) -> None:
        config = DeepSeekV41Config.from_path(directory)
        self._recording = RecordingOps(ops)
        runtime = ModelRuntime(config, cast(Ops, self._recording), numerics, context_len + 1)
        device = torch.device("cpu")
        model = load_model(runtime, directory, device, LoadOptions())
        self._context_len = context_len
        self._num_blocks = -(-(context_len + 1) // _BLOCK_SIZE)
        self._num_lookback = config.engram_max_ngram_size - 1 if config.has_engram else 0
        caches = allocate_caches(cache_table(config, numerics, "auto", _BLOCK_SIZE), self._num_blocks, max_rows, device)
        self._executor = TorchExecutor(model, caches, Probe(replace_points(config)), device)

    def decode_step(self, num_rows: int) -> list[OpCall]:
        """The calls of a step of `num_rows` sequences, one row each, and of its logits."""
        token_ids = (np.arange(num_rows, dtype=np.int64) * _STRIDE % self._executor.vocab_size).astype(np.int32)
        plan = ScratchPlan.build(token_ids, [1] * num_rows, self._context_len, self._num_blocks, self._num_lookback)
        rows = np.arange(num_rows)
        self._recording.calls.clear()
        self._executor.forward(plan, rows)
        self._executor.logits(rows)
        return [call for call in self._recording.calls.values() if not call.is_empty]
