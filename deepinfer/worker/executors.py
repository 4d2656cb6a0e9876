"""Who runs the parts of a step: made once per worker, from what its backend offers."""

from __future__ import annotations

from dataclasses import dataclass, replace

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
    """Model and draft model of one worker; they and the backend's sampler understand each other's arrays.

    Attributes:
        target: runs the target model.
        draft: runs the draft model; None with drafts off.
        decoder: runs whole decode steps where that is possible; None where it never is.
    """

    target: StepExecutor
    draft: DraftExecutor | None
    decoder: NativeDecoder | None = None

    @classmethod
    def build(
        cls,
        backend: SelectedBackend,
        model: DeepSeekV41Model,
        caches: CacheTensors,
        sampler: TokenSampler,
        probe: Probe,
    ) -> Executors:
        """Native ones where the backend has the whole model as native calls, else component by component.

        `sampler` is the backend's (`token_sampler`).
        """
        target = TorchExecutor(model, caches, probe, model.embedding.device)
        if backend.context is None:
            return cls(target, _drafts(model, caches, sampler))
        assert isinstance(sampler, NativeSampler)
        native = NativeModel(model, caches, backend.context)
        draft = None if model.draft is None else NativeDraftExecutor(native, sampler)
        decoder = NativeDecoder(native, sampler, backend.context, probe, model.runtime.max_positions)
        return cls(NativeExecutor(native, target, probe), draft, decoder)

    def with_static_decode(self, decoder: StaticDecoder | None, probe: Probe) -> Executors:
        """The same, with decode steps of the target run by `decoder`, if there is one."""
        return self if decoder is None else replace(self, target=StaticExecutor(self.target, decoder, probe))


def _drafts(model: DeepSeekV41Model, caches: CacheTensors, sampler: TokenSampler) -> DraftExecutor | None:
    if model.draft is None:
        return None
    device = model.embedding.device
    if isinstance(sampler, Sampler):
        return TorchDraftExecutor(model.draft, caches, sampler, device)
    # Not among the imports above: without a GPU no kernel is loaded.
    from deepinfer.sampling.cuda_sampler import CudaSampler
    from deepinfer.worker.cuda_draft_executor import CudaDraftExecutor

    assert isinstance(sampler, CudaSampler)
    return CudaDraftExecutor(model.draft, caches, sampler, device)
