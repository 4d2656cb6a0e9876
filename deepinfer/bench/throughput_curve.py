"""Tokens a second against the batch, from measured steps of a slice of a model, for the slice and the whole model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch

from deepinfer.bench.draft_mode import DraftMode
from deepinfer.bench.line_plot import LinePlot
from deepinfer.bench.model_cases import model_cases
from deepinfer.bench.random_operands import RandomOperands
from deepinfer.bench.sampler_cases import sampler_cases
from deepinfer.bench.step_calls import OpKey, decode_calls
from deepinfer.bench.step_op import StepOp
from deepinfer.config.field_reader import is_finite_number
from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.config.strict_json import MAX_TABLE_BYTES, read_json_object, shown_path
from deepinfer.errors import ConfigError

_EXPERTS: Final = ("moe", "experts")
_TABLES: Final = {("engram_lookup", "device table"): ("engram_lookup", "pinned host table")}


@dataclass(frozen=True, slots=True)
class DecodeTime:
    """A measured decode step.

    Attributes:
        num_seqs: sequences.
        num_drafts: verified for each, with a draft pass behind; 0: drafts are off.
        ms: milliseconds.
        ops: of the step; empty where they were not written down.
    """

    num_seqs: int
    num_drafts: int
    ms: float
    ops: tuple[StepOp, ...]

    @classmethod
    def parse(cls, step: Mapping[str, Any]) -> DecodeTime:
        """From a step of `deepinfer bench step --json`. KeyError, TypeError or ValueError for anything else."""
        num_seqs, num_drafts = step.get("sequences", step["rows"]), step.get("num_drafts", 0)
        ms = step["step"]["median_ms"]
        if type(num_seqs) is not int or num_seqs < 1 or type(num_drafts) is not int or num_drafts < 0:
            raise ValueError(f"{num_seqs!r} sequences with {num_drafts!r} drafts")
        if not is_finite_number(ms) or ms <= 0:
            raise ValueError(f"median_ms is {ms!r}, not a number above 0")
        return cls(num_seqs, num_drafts, float(ms), tuple(map(StepOp.parse, step.get("ops", ()))))

    def whole_ms(self, config: DeepSeekV41Config) -> float:
        """Of a model of more layers: this time, by the ratio of what the ops of both take one by one.

        ConfigError names an op that the whole model calls and the measured one did not.
        """
        random = RandomOperands(torch.device("cpu"), 1)
        cases = [*model_cases(config, random, 1), *sampler_cases(config, random)]
        taken = {((op.op, op.use), op.rows): op.seconds for op in self.ops}
        whole = 0.0
        for part in decode_calls(cases, config, self.num_seqs, self.num_drafts):
            for key, calls in part.calls.items():
                whole += calls * _seconds(taken, key, part.rows)
        return self.ms * whole / sum(op.calls * op.seconds for op in self.ops)


class ThroughputCurve:
    """Speed of decode steps by batch and number of drafts.

    Args:
        times: measured steps.
        accepted: chances that the first, second, ... draft of a sequence is accepted, those before it included. Drafts
            of random weights never are, so that tokens cannot be measured on them.
        whole: config of the whole model; None: the slice alone.
    """

    def __init__(self, times: Sequence[DecodeTime], accepted: Sequence[float], whole: DeepSeekV41Config | None) -> None:
        self._accepted = tuple(accepted)
        self._whole = whole
        self.num_layers = next((op.calls for time in times for op in time.ops if (op.op, op.use) == _EXPERTS), None)
        self.times = {(time.num_drafts, time.num_seqs): time for time in times}

    @classmethod
    def read(cls, paths: Sequence[Path], accepted: Sequence[float], whole: DeepSeekV41Config | None) -> ThroughputCurve:
        """From files of what `deepinfer bench step --json` prints; steps of scheduled drafts and prefills are left out.

        ConfigError names the file and what it lacks.
        """
        times = [time for path in paths for time in _read_times(path)]
        name = ", ".join(map(shown_path, paths))
        if not any(time.num_drafts == 0 for time in times):
            raise ConfigError(f"{name}: no decode step without drafts; measure some: deepinfer bench step --json")
        if any(time.num_drafts > len(accepted) for time in times):
            raise ConfigError(f"{name}: steps with more drafts than the {len(accepted)} chances of --accepted")
        if whole is not None and not all(time.ops for time in times):
            raise ConfigError(f"{name}: steps without their ops, which a whole model needs; leave --model out")
        return cls(times, accepted, whole)

    def tokens_per_step(self, num_drafts: int) -> float:
        """Of one sequence."""
        return 1.0 + sum(self._accepted[:num_drafts])

    def lines(self, *, whole: bool) -> dict[str, list[tuple[float, float]]]:
        """(sequences, tokens a second) by mode: off; fixed with each number of drafts; varlen: at each batch the number
        of drafts, none included, that gives most, as a schedule would choose it if all drafts were equally likely.
        """
        found: dict[str, dict[int, float]] = {}
        for (num_drafts, num_seqs), time in sorted(self.times.items()):
            name = f"fixed, {num_drafts} drafts" if num_drafts else "drafts off"
            found.setdefault(name, {})[num_seqs] = self._speed(time, whole)
        if len(found) > 1:
            batches = found["drafts off"].keys()
            found["varlen"] = {
                batch: max(speeds[batch] for speeds in found.values() if batch in speeds) for batch in batches
            }
        return {name: sorted(speeds.items()) for name, speeds in found.items()}

    def plot(self) -> LinePlot:
        """Tokens a second of slice and whole model against the batch."""
        chances = " ".join(f"{100 * chance:.0f}" for chance in self._accepted)
        note = f"assumed: {chances} % of first, second, ... drafts accepted; varlen: the best number of drafts measured"
        if self._whole is not None:
            note += "; whole model: the slice's step by the ratio of its ops' times"
        plot = LinePlot("decode steps", "sequences", "tokens/s", note=note, log_axes=True)
        layers = f"{self.num_layers} layers" if self.num_layers else "measured model"
        for name, points in self.lines(whole=False).items():
            plot.add(f"{layers}, {name}", points, marks=True)
        if self._whole is not None:
            for name, points in self.lines(whole=True).items():
                plot.add(f"{self._whole.num_hidden_layers} layers, {name}", points, marks=True)
        return plot

    def _speed(self, time: DecodeTime, whole: bool) -> float:
        ms = time.ms
        if whole:
            assert self._whole is not None, "asked of a curve without a whole model"
            ms = time.whole_ms(self._whole)
        return time.num_seqs * self.tokens_per_step(time.num_drafts) / ms * 1e3


def _read_times(path: Path) -> list[DecodeTime]:
    try:
        steps = read_json_object(path, max_bytes=MAX_TABLE_BYTES)["steps"]
        return [DecodeTime.parse(step) for step in steps if _counts(step)]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        expectation = "expected what deepinfer bench step --json prints"
        raise ConfigError(f"{shown_path(path)}: no decode steps ({error!r}); {expectation}") from error


def _counts(step: Mapping[str, Any]) -> bool:
    return step["kind"] == "decode" and step.get("drafts", "off") != DraftMode.SCHEDULED.value


def _seconds(taken: Mapping[tuple[OpKey, int], float], key: OpKey, rows: int) -> float:
    found = taken.get((key, rows), taken.get((_TABLES.get(key, key), rows)))
    if found is None:
        raise ConfigError(f"{key[0]} ({key[1]}) of {rows} rows was not measured, but the whole model calls it")
    return found
