"""The sequential loop of the draft heads on a GPU against the loop over the host, with a table for a draft model."""

from __future__ import annotations

import numpy as np
import torch

from deepinfer.core.draft_anchors import DraftAnchors
from deepinfer.core.draft_requests import DraftRequests
from deepinfer.models.deepseek_v41.draft_model import DraftBlock
from tests.sampling.kernel_rows import random_logits, random_params
from tests.sampling.requests import make_request, make_sampler


class TableDraft:
    """A draft model whose logits are sums of a row's own and the previous token's, both whole numbers."""

    def __init__(self, seed: int, shape: tuple[int, int, int], device: torch.device) -> None:
        gen = torch.Generator().manual_seed(seed)
        base = random_logits(seed, shape[0] * shape[1], shape[2]).view(shape)
        self._base = base.nan_to_num(0.0).clamp(-1e3, 1e3).round().to(device)
        self._after = torch.randint(-4, 5, (shape[2], shape[2]), generator=gen).float().to(device)
        self._score = torch.randint(-9, 10, (shape[2],), generator=gen).float().to(device)

    def forward(self, anchors: DraftAnchors, caches: object, num_drafts: int) -> DraftBlock:
        assert torch.equal(anchors.last_positions, anchors.tokens + 1)
        assert torch.equal(anchors.state_slots, anchors.tokens + 2)
        return DraftBlock(self._base, self._base[:, :num_drafts])

    def adjust(self, block: DraftBlock, row: int, previous_ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return block.base_logits[:, row] + self._after[previous_ids], self._score[previous_ids] / 8


def check_draft_loop(seed: int, count: int, vocab: int, device: torch.device) -> None:
    """Ids and confidence scores of `CudaDraftExecutor` are those of `TorchDraftExecutor` on the CPU."""
    from deepinfer.sampling.cuda_sampler import CudaSampler
    from deepinfer.worker.cuda_draft_executor import CudaDraftExecutor
    from deepinfer.worker.torch_draft_executor import TorchDraftExecutor

    rng, shape, cpu = np.random.default_rng(seed), (count, 5, vocab), torch.device("cpu")
    requests = []
    for row in range(count):
        params = random_params(rng, vocab)
        fields = {name: getattr(params, name) for name in ("temperature", "min_p", "top_p", "top_k")}
        requests.append(make_request(row, prompt=[row], seed=int(rng.integers(2**62)), **fields))
    kernels = CudaSampler(make_sampler([], vocab), device)
    for request in requests:
        kernels.add(request)
    anchors = [int(token) for token in rng.integers(0, vocab, count)]
    drafts = DraftRequests(
        seq_ids=list(range(count)),
        anchors=anchors,
        last_positions=[anchor + 1 for anchor in anchors],
        state_slots=[anchor + 2 for anchor in anchors],
        output_indices=[int(index) for index in rng.integers(1, 1000, count)],
    )
    on_host = TorchDraftExecutor(TableDraft(seed, shape, cpu), None, make_sampler(requests, vocab), cpu)
    on_device = CudaDraftExecutor(TableDraft(seed, shape, device), None, kernels, device)
    results = []
    for executor in (on_host, on_device):
        executor.run(drafts, 4)
        results.append(executor.draw(drafts))
    for mine, theirs in zip(results[1], results[0], strict=True):
        assert mine.dtype == theirs.dtype and mine.shape == (count, 4)
        np.testing.assert_array_equal(mine, theirs)
    logits, scores = on_device.adjust(2, np.array(anchors))
    expected, expected_scores = on_host.adjust(2, np.array(anchors))
    assert torch.equal(logits.cpu(), expected)
    np.testing.assert_array_equal(scores, expected_scores)
