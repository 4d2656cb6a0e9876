"""Who runs the parts of a step: made once per worker, from what its backend offers."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from deepinfer.core.cache_tensors import CacheTensors
from deepinfer.core.draft_executor import DraftExecutor
from deepinfer.core.probe import Probe
from deepinfer.core.step_executor import StepExecutor
from deepinfer.models.deepseek_v41.model import DeepSeekV41Model
from deepinfer.models.deepseek_v41.native_model import NativeModel
from deepinfer.ops.select import SelectedBackend
from deepinfer.sampling.native_sampler import NativeSampler
from deepinfer.sampling.sampler import Sampler
from deepinfer.sampling.token_sampler import TokenSampler
from deepinfer.worker.native_decoder import NativeDecoder
from deepinfer.worker.native_draft_executor import NativeDraftExecutor
from deepinfer.worker.native_executor import NativeExecutor
from deepinfer.worker.static_decoder import StaticDecoder
from deepinfer.worker.static_executor import StaticExecutor
from deepinfer.worker.torch_draft_executor import TorchDraftExecutor
from deepinfer.worker.torch_executor import TorchExecutor


@dataclass(frozen=True, slots=True)
class Executors:
    """Model, sampler and draft model of one worker; the three understand each other's arrays.

    Attributes:
        target: runs the target model.
        sampler: samples its logits.
        draft: runs the draft model; None with drafts off.
        decoder: runs whole decode steps where that is possible; None where it never is.
    """

    target: StepExecutor
    sampler: TokenSampler
    draft: DraftExecutor | None
    decoder: NativeDecoder | None = None

    @classmethod
    def build(
        cls,
        backend: SelectedBackend,
        model: DeepSeekV41Model,
        caches: CacheTensors,
        sampler: Sampler,
        probe: Probe,
    ) -> Executors:
        """Native ones where the backend has the whole model as native calls, else component by component."""
        device = model.embedding.device
        target = TorchExecutor(model, caches, probe, device)
        if backend.name == "cuda":
            return cls(target, *_cuda_parts(model, caches, sampler, device))
        if backend.context is None:
            return cls(target, sampler, _torch_drafts(model, caches, sampler, device))
        native = NativeModel(model, caches, backend.context)
        native_sampler = NativeSampler(sampler, backend.context)
        draft = None if model.draft is None else NativeDraftExecutor(native, native_sampler)
        max_positions = model.runtime.max_positions
        decoder = NativeDecoder(native, native_sampler, backend.context, probe, max_positions)
        return cls(NativeExecutor(native, target, probe), native_sampler, draft, decoder)

    def with_static_decode(self, decoder: StaticDecoder | None, probe: Probe) -> Executors:
        """The same, with decode steps of the target run by `decoder`, if there is one."""
        return self if decoder is None else replace(self, target=StaticExecutor(self.target, decoder, probe))


def _cuda_parts(
    model: DeepSeekV41Model, caches: CacheTensors, sampler: Sampler, device: torch.device
) -> tuple[TokenSampler, DraftExecutor | None]:
    # Not among the imports above: without a GPU no kernel is loaded.
    from deepinfer.sampling.cuda_sampler import CudaSampler
    from deepinfer.worker.cuda_draft_executor import CudaDraftExecutor

    cuda_sampler = CudaSampler(sampler, device)
    draft = None if model.draft is None else CudaDraftExecutor(model.draft, caches, cuda_sampler, device)
    return cuda_sampler, draft


def _torch_drafts(
    model: DeepSeekV41Model, caches: CacheTensors, sampler: Sampler, device: torch.device
) -> DraftExecutor | None:
    return None if model.draft is None else TorchDraftExecutor(model.draft, caches, sampler, device)
