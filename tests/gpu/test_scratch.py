"""The memory plan's estimates of what steps take on a GPU, beside what they took."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from deepinfer import LLM, SamplingParams
from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.worker.decode_setup import graph_bytes, pool_bytes
from deepinfer.worker.gpu_scratch import GpuScratch
from tests.gpu.graph_pool import pool_size
from tests.gpu.slice_model import write_slice

SEQS, PREFILL, DRAFTS = 64, 8192, 5
POOL_ROUNDING = 2**25  # pieces of 2 MiB for small tensors, and the large one's own rounding


def test_steps_take_no_more_than_estimated(device: torch.device, tmp_path: Path) -> None:
    """A whole prefill budget, then captured decode steps of all sizes: true layer shapes, few experts.

    Of graphs there is the pool, and what the driver takes for each. What eager steps leave in torch's own pool is part
    of a step's scratch: it is given back before memory is counted.
    """
    directory = write_slice(tmp_path, n_routed_experts=16, dspark_n_routed_experts=16)
    config = DeepSeekV41Config.from_path(directory)
    options = {"max_num_seqs": SEQS, "max_num_batched_tokens": PREFILL, "max_model_len": PREFILL + 64}
    options |= {"load_format": "dummy", "kv_cache_bytes": 2**32}
    rng = np.random.default_rng()
    with LLM(directory, device="cuda", speculative={"num_drafts": DRAFTS}, **options) as llm:
        short = SamplingParams(temperature=0, max_tokens=1, ignore_eos=True)
        llm.generate([[5]], short, use_tqdm=False)
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        llm.generate([rng.integers(300, 100_000, PREFILL).tolist()], short, use_tqdm=False)
        taken = torch.cuda.max_memory_allocated(device) - before
        estimate = GpuScratch(config, PREFILL, SEQS, PREFILL + 64, DRAFTS).num_bytes
        print(f"\nprefill of {PREFILL}: {taken / 2**30:.2f} GiB, estimated {estimate / 2**30:.2f}")
        assert taken <= estimate

        free = free_bytes(device)
        texts = [rng.integers(300, 100_000, 20).tolist() for _ in range(SEQS)]
        lengths = [SamplingParams(temperature=0, max_tokens=3 + i, ignore_eos=True) for i in range(SEQS)]
        outputs = llm.generate(texts, lengths, use_tqdm=False)
        assert not any(output.error for output in outputs)
        calls = llm._runtime.worker._runner._executor.decoder.calls
        kept = torch.cuda.memory_reserved(device)
        grown, pool = free - free_bytes(device), pool_size(calls)
        kept -= torch.cuda.memory_reserved(device)
        allowed, room = graph_bytes(llm.config, config), pool_bytes(llm.config, config)
        print(f"\n{calls.num_graphs} decode graphs: {grown / 2**30:.2f} GiB, estimated {allowed / 2**30:.2f}")
        print(f"of it the pool {pool / 2**30:.2f}, estimated {room / 2**30:.2f}; eager steps kept {kept / 2**30:.2f}")
        assert room <= pool <= room + POOL_ROUNDING
        assert grown <= allowed


def free_bytes(device: torch.device) -> int:
    """Of the GPU, once torch has given back what it keeps for later."""
    torch.cuda.synchronize(device)
    torch.cuda.empty_cache()
    return torch.cuda.mem_get_info(device)[0]
