"""Everything that a worker's steps go through, put together from what the backend offers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from deepinfer.config.engine_config import EngineConfig
from deepinfer.core.cache_tensors import CacheTensors
from deepinfer.core.device_clock import DeviceClock
from deepinfer.core.probe import Probe
from deepinfer.models.deepseek_v41.model import DeepSeekV41Model
from deepinfer.ops.select import SelectedBackend
from deepinfer.sampling.sampler import Sampler
from deepinfer.worker.decode_setup import static_decoder, static_sampler
from deepinfer.worker.draft_proposer import DraftProposer
from deepinfer.worker.executors import Executors
from deepinfer.worker.model_runner import ModelRunner
from deepinfer.worker.peer_steps import PeerSteps
from deepinfer.worker.token_chooser import TokenChooser
from deepinfer.worker.token_samplers import draft_memory, draft_pool, token_sampler

if TYPE_CHECKING:  # it loads kernels
    from deepinfer.worker.static_sampler import StaticSampler


@dataclass(frozen=True, slots=True)
class StepParts:
    """What there is behind a worker.

    Attributes:
        runner: runs steps.
        executors: run its model and draft model.
        static: ends decode steps on a GPU; None without.
    """

    runner: ModelRunner
    executors: Executors
    static: StaticSampler | None

    @classmethod
    def build(
        cls,
        config: EngineConfig,
        backend: SelectedBackend,
        loaded: tuple[DeepSeekV41Model, CacheTensors],
        rows: Sampler,
        probe: Probe,
    ) -> StepParts:
        """Parts for a resolved config, a loaded model with its caches, and the sampler of all kinds of rows."""
        model, caches = loaded
        device, num_ids, max_len = model.embedding.device, rows.num_valid_ids, config.scheduler.max_model_len
        assert max_len is not None, "the engine config is not resolved"
        pool, memory = draft_pool(config, backend, num_ids, device), draft_memory(config, backend)
        sampler = token_sampler(backend, rows, device, pool)
        executors = Executors.build(backend, model, caches, sampler, probe)
        executors = executors.with_static_decode(static_decoder(config, model, caches), probe)
        proposer, groups = None, model.runtime.groups
        peers = None if groups is None else PeerSteps(loaded, groups, executors.target, executors.draft)
        if executors.draft is not None:
            temperatures = config.speculative.confidence_temperatures(config.speculative.num_drafts or 0)
            proposer = DraftProposer(peers or executors.draft, sampler, temperatures, max_len, memory)
        static = static_sampler(config, model, caches, executors.target, sampler)
        runner = ModelRunner(
            executors.target,
            caches,
            TokenChooser(executors.target, sampler, probe, pool or memory),
            proposer,
            num_ids,
            DeviceClock(device) if config.speculative.is_curve_corrected else None,
            executors.decoder if memory is None else None,  # its drafts are those of coupled acceptance
            static,
            peers,
        )
        return cls(runner, executors, static)
