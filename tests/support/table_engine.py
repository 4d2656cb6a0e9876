"""An engine over the table worker and the real scheduler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from deepinfer._C import Scheduler, SchedulerConfig
from deepinfer.engine.input_processor import InputProcessor
from deepinfer.engine.llm_engine import LLMEngine
from deepinfer.engine.mailbox import Mailbox
from deepinfer.engine.output_processor import OutputProcessor
from deepinfer.engine.overlapped_engine import OverlappedEngine
from deepinfer.engine.prompt_encoder import PromptEncoder
from deepinfer.engine.request_batch import RequestBatch
from deepinfer.engine.request_limits import RequestLimits
from deepinfer.engine.run_modes import RunModes
from deepinfer.engine.sync_loop import SyncLoop
from deepinfer.outputs import RequestDelta, RequestOutput
from deepinfer.sampling_params import SamplingParams
from deepinfer.text.tokenizer import Tokenizer
from deepinfer.worker.thread_stream import ThreadStream
from tests.support.table_worker import TableWorker, perm
from tests.text.conftest import byte_level_backend

EOS, NUM_IDS = 260, 262


def byte_tokenizer() -> Tokenizer:
    """Ids 0..255 are the bytes; <bos> 259, <eos> 260, <image> 261 are special."""
    backend = byte_level_backend([("Ġ", "c"), ("a", "t"), ("Ġc", "at")], ["<bos>", "<eos>", "<image>"], [])
    return Tokenizer(backend, {"bos_token": "<bos>", "eos_token": "<eos>"})


def table_scheduler(**sizes: Any) -> Scheduler:
    """`sizes` override its own: num_blocks, block_size, max_model_len, max_num_seqs, ..."""
    max_num_seqs = sizes.get("max_num_seqs", 8)
    defaults = {
        "num_blocks": 64,
        "block_size": 8,
        "num_state_slots": max_num_seqs,
        "max_num_seqs": max_num_seqs,
        "max_num_batched_tokens": 64,
        "max_prefill_chunk": 64,
        "max_model_len": 64,
    }
    return Scheduler(SchedulerConfig(**{**defaults, **sizes}))


def table_texts(scheduler: Scheduler) -> tuple[PromptEncoder, InputProcessor, OutputProcessor]:
    """What is between texts and the ids of an engine with this scheduler."""
    tokenizer, modes = byte_tokenizer(), RunModes(True, "fp32", "reference")
    limits = RequestLimits(scheduler.config.max_model_len, scheduler.capacity_tokens)
    return (
        PromptEncoder(tokenizer, NUM_IDS, image_token_id=261),
        InputProcessor(tokenizer, (EOS,), NUM_IDS, limits, seed=0),
        OutputProcessor(tokenizer, (EOS,), modes, scheduler),
    )


@dataclass(frozen=True)
class TableEngine:
    """The parts of an engine whose outputs are known."""

    worker: TableWorker
    scheduler: Scheduler
    engine: LLMEngine
    loop: SyncLoop
    encoder: PromptEncoder
    inputs: InputProcessor

    overlaps: ClassVar[bool] = False  # whether engines overlap their steps, on a thread as the device

    @classmethod
    def build(cls, table: Callable[[int], int] = perm, **sizes: Any) -> TableEngine:
        """`sizes`: see `table_scheduler`."""
        worker, scheduler = TableWorker(table, ThreadStream() if cls.overlaps else None), table_scheduler(**sizes)
        encoder, inputs, outputs = table_texts(scheduler)
        engine_class = OverlappedEngine if cls.overlaps else LLMEngine
        engine = engine_class(worker, scheduler, outputs)
        return cls(worker, scheduler, engine, SyncLoop(engine), encoder, inputs)

    def batch(
        self,
        prompts: list[Any],
        params: SamplingParams | list[SamplingParams],
        streaming: bool = False,
        prefix: str = "",
    ) -> RequestBatch:
        """A prepared call with request ids "0", "1", ... behind `prefix`."""
        batch = RequestBatch(self.loop, self.inputs, self.encoder, Mailbox(streaming))
        for place, prompt in enumerate(prompts):
            one = params if isinstance(params, SamplingParams) else params[place]
            batch.add_generation(f"{prefix}{place}", prompt, one)
        return batch

    def run(self, prompts: list[Any], params: SamplingParams | list[SamplingParams]) -> list[RequestOutput]:
        """Outputs in prompt order; checks that nothing is left behind."""
        outputs = dict(self.batch(prompts, params).finished())
        self.assert_idle()
        return [outputs[place] for place in range(len(prompts))]

    def stream(self, prompts: list[Any], params: SamplingParams) -> list[RequestDelta]:
        """All deltas of a call."""
        deltas = list(self.batch(prompts, params, streaming=True).deltas())
        self.assert_idle()
        return deltas

    def assert_idle(self) -> None:
        """Every sequence gave everything back."""
        self.worker.drain()
        self.scheduler.check()
        assert not self.engine.has_unfinished_requests()
        assert not self.scheduler.has_unfinished()
        assert not self.worker.live
        assert self.scheduler.num_free_blocks == self.scheduler.config.num_blocks


def perm_tokens(start: int, count: int) -> list[int]:
    """What the PERM table generates behind `start`."""
    tokens = [start]
    for _ in range(count):
        tokens.append(perm(tokens[-1]))
    return tokens[1:]


def scripted(text: str, end: int = EOS) -> Callable[[int], int]:
    """A table that writes a text of distinct characters behind a prompt that ends with byte 0."""
    chain = [0, *text.encode(), end]
    assert len(set(chain)) == len(chain)
    return dict(zip(chain, chain[1:], strict=False)).__getitem__
