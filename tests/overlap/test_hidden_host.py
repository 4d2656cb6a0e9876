"""How much of the host's work is hidden behind a device that sleeps at least as long. Measures, judges nothing.

`python -m pytest -m bench -s tests/overlap/test_hidden_host.py`
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import pytest

import tests.support.table_engine as table_engine
from deepinfer import SamplingParams
from deepinfer.core.launched_step import LaunchedStep
from deepinfer.core.step_result import SampledToken, StepResult
from tests.support.table_engine import TableEngine
from tests.support.table_worker import TableWorker

NUM_STEPS = 200
SIZES: dict[str, Any] = {"num_blocks": 8192, "max_model_len": 512, "max_num_batched_tokens": 2048}
PARAMS = SamplingParams(temperature=0, max_tokens=NUM_STEPS, ignore_eos=True, stop="never")  # the text is followed


class SleepingWorker(TableWorker):
    """Both phases sleep, outside the interpreter's lock, the forward pass longer, and do next to nothing else."""

    seconds = 0.0

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.launched: list[LaunchedStep] = []

    def launch_sample(self, plan: Any) -> LaunchedStep:
        self.launched.append(super().launch_sample(plan))
        return self.launched[-1]

    def _run_forward(self, plan: Any) -> None:
        time.sleep(0.75 * self.seconds)

    def _run_sample(self, plan: Any) -> StepResult:
        time.sleep(0.25 * self.seconds)
        return StepResult(plan.step_id, [[SampledToken(97)]] * plan.num_seqs, [None] * plan.num_seqs)


def run(overlap: bool, batch: int, seconds: float, monkeypatch: pytest.MonkeyPatch) -> tuple[float, float]:
    """Milliseconds from a decode step to the next, and of the device's work in it."""
    monkeypatch.setattr(table_engine, "TableWorker", SleepingWorker)
    monkeypatch.setattr(TableEngine, "overlaps", overlap)
    monkeypatch.setattr(SleepingWorker, "seconds", seconds)
    engine = TableEngine.build(max_num_seqs=batch, max_prefill_chunk=2048, **SIZES)
    engine.run([[10 + i % 100] for i in range(batch)], PARAMS)
    launched: list[LaunchedStep] = engine.worker.launched  # type: ignore[attr-defined]
    device = [sum(end - begin for begin, end in (step.forward.span, step.sample.span)) / 1e6 for step in launched]
    ends = [step.sample.span[1] / 1e6 for step in launched]
    steps = [end - begin for begin, end in zip(ends, ends[1:], strict=False)]
    return statistics.median(steps[5:-5]), statistics.median(device[5:-5])


@pytest.mark.bench
@pytest.mark.parametrize("batch", [1, 16, 64, 256])
def test_hidden_host(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    host, _ = run(True, batch, 0.0, monkeypatch)  # such a device is always done before the host
    print(f"\nbatch {batch}: the host works {host:.2f} ms a step")
    for factor in (1, 1.5, 3):
        for overlap in (False, True):
            step, device = run(overlap, batch, host * factor / 1e3, monkeypatch)
            name = "overlapped" if overlap else "one by one"
            print(f"  device {device:6.2f} ms, {name}: {step:6.2f} ms a step, {step / device - 1:6.1%} over the device")
