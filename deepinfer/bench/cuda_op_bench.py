"""Times every op of a model on a GPU, at the model's shapes, without its weights."""

from __future__ import annotations

import gc
from collections.abc import Callable, Container, Sequence
from functools import partial
from typing import Any, Final

import torch

from deepinfer.bench.cuda_op_figures import CudaOpFigures
from deepinfer.bench.cuda_timer import CudaTimer, GpuTime
from deepinfer.bench.library_calls import library_call
from deepinfer.bench.machine_limits import MachineLimits
from deepinfer.bench.model_cases import model_cases
from deepinfer.bench.op_call import OpCall
from deepinfer.bench.op_case import OpCase, Operands
from deepinfer.bench.op_figures import OpFigures
from deepinfer.bench.random_operands import RandomOperands
from deepinfer.bench.sampler_cases import sampler_cases
from deepinfer.bench.spread import Spread
from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.engine.model_path import resolve_model_path
from deepinfer.envs import read_environment
from deepinfer.ops.cuda.kernel_cache import use_kernel_cache
from deepinfer.ops.select import select_backend

_POOL_BYTES: Final = 1 << 30
_COPY_BYTES: Final = 1 << 30
_MATRIX_SIZE: Final = 8192
_MOST_SETS: Final = 256
_CACHES: Final = 2  # sets of operands together fill the GPU's L2 cache so many times


class CudaOpBench:
    """The cuda backend's ops, batch_invariant off.

    Attributes:
        limits: copy bandwidth and bf16 matrix products of this GPU, measured when they are first asked for.
        failures: a line for each op that failed; the others are timed all the same.

    Args:
        device: "cuda" or "cuda:<index>".
        repeats: samples of each op.

    Raises:
        UnsupportedFeatureError: the cuda backend cannot run here.
    """

    def __init__(self, device: str, repeats: int) -> None:
        use_kernel_cache(read_environment().settings.get("kernel_cache_dir"))
        self._ops = select_backend("cuda", device).ops
        self._device = torch.device(device)
        self._timer = CudaTimer(repeats)
        self._limits: MachineLimits | None = None
        self.failures: list[str] = []

    @property
    def limits(self) -> MachineLimits:
        if self._limits is None:
            with torch.cuda.device(self._device):
                self._limits = MachineLimits(self._copy_speed(), self._matrix_speed())
        return self._limits

    def release(self) -> None:
        """Give the memory of operands back, which torch would keep."""
        gc.collect()
        torch.cuda.empty_cache()

    def about(self) -> dict[str, str]:
        """What the figures were measured with."""
        import tilelang

        name = torch.cuda.get_device_name(self._device)
        return {"gpu": name, "torch": torch.__version__, "tilelang": tilelang.__version__}

    def run(
        self,
        model: str | None,
        row_counts: Sequence[int],
        context_len: int,
        rows_per_seq: int = 1,
        uses: Container[tuple[str, str]] | None = None,
    ) -> list[CudaOpFigures]:
        """Figures of every op, by number of rows.

        Args:
            model: checkpoint directory, config file or hub id; None: the bundled one. Only the config is read.
            row_counts: rows of a step.
            context_len: tokens before the rows.
            rows_per_seq: rows that belong to one sequence.
            uses: (op, use) of the cases wanted; None: all.
        """
        config = DeepSeekV41Config.from_path(resolve_model_path(model))
        figures: list[CudaOpFigures] = []
        with torch.cuda.device(self._device), torch.inference_mode():
            for case in all_cases(config, RandomOperands(self._device, _POOL_BYTES), context_len, rows_per_seq):
                if uses is None or (case.op, case.use) in uses:
                    figures += self._figures_of(case, row_counts)
        return sorted(figures, key=lambda item: row_counts.index(item.op.rows))

    def _figures_of(self, case: OpCase, row_counts: Sequence[int]) -> list[CudaOpFigures]:
        figures: list[CudaOpFigures] = []
        make: Callable[[int], Operands] | None = None
        for rows in row_counts:
            try:
                make = make or case.prepare()
                figures.append(self._measure(case, make, rows))
            except Exception as error:  # of a compiler, a launch or the memory: this op's result
                first = (str(error).splitlines() or [""])[0]
                self.failures.append(f"{case.op} ({case.use}), {rows} rows: {type(error).__name__}: {first}")
        return figures

    def _measure(self, case: OpCase, make: Callable[[int], Operands], rows: int) -> CudaOpFigures:
        op = case.function or getattr(self._ops, case.op)
        call = first_call(op, case.op, make(rows))
        l2_bytes = torch.cuda.get_device_properties(self._device).L2_cache_size
        count = num_sets(call.num_bytes, l2_bytes) if case.is_cold else 1
        calls = [call, *(OpCall(case.op, *make(rows), None) for _ in range(count - 1))]
        time = self._timer.time([partial(op, *one.args, **one.kwargs) for one in calls])
        library, library_time = self._library(calls)
        seconds = {"cuda": time.seconds} | ({} if library_time is None else {"torch": library_time})
        figures = OpFigures(rows, case.op, call.shapes, case.count, call.num_bytes, call.multiply_adds, seconds)
        is_cold = case.is_cold and count * call.num_bytes > l2_bytes
        return CudaOpFigures(figures, case.use, count, is_cold, time.is_graph, library)

    def _library(self, calls: list[OpCall]) -> tuple[str, Spread | None]:
        found = [made for made in map(library_call, calls) if made is not None]
        if not found:
            return "", None
        try:
            time: GpuTime = self._timer.time([run for _, run in found])
        except RuntimeError as error:  # an operation that this version of torch lacks or refuses
            return f"{found[0][0]}: {str(error).splitlines()[0]}", None
        return found[0][0], time.seconds

    def _copy_speed(self) -> float:
        # By a kernel: a graph makes of `copy_` a copy node, which is slower.
        source = torch.randn(_COPY_BYTES // 4, device=self._device)
        target = torch.empty_like(source)
        return 2 * _COPY_BYTES / self._timer.time([lambda: torch.neg(source, out=target)]).seconds.median

    def _matrix_speed(self) -> float:
        a, b = (torch.randn(_MATRIX_SIZE, _MATRIX_SIZE, device=self._device, dtype=torch.bfloat16) for _ in range(2))
        return float(_MATRIX_SIZE**3 / self._timer.time([lambda: a @ b]).seconds.median)


def all_cases(
    config: DeepSeekV41Config, random: RandomOperands, context_len: int, rows_per_seq: int = 1
) -> list[OpCase]:
    """Those of the model, and on a GPU those of the sampler."""
    cases = model_cases(config, random, context_len, rows_per_seq)
    return cases + (list(sampler_cases(config, random)) if random.device.type == "cuda" else [])


def first_call(op: Callable[..., Any], name: str, operands: Operands) -> OpCall:
    """Runs an op once, which compiles it and tells the size of its result."""
    args, kwargs = operands
    return OpCall(name, args, kwargs, op(*args, **kwargs))


def num_sets(num_bytes: int, l2_bytes: int) -> int:
    """Sets of operands of so many bytes each that are beyond the L2 cache together; a bounded number."""
    return min(_MOST_SETS, -(-_CACHES * l2_bytes // num_bytes) + 1)
