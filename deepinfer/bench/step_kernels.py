"""How many kernels a decode step launches on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from deepinfer.bench.graph_nodes import count_nodes
from deepinfer.engine.runtime import EngineRuntime
from deepinfer.llm import LLM
from deepinfer.worker.captured_calls import CapturedCalls


@dataclass(frozen=True, slots=True)
class StepKernels:
    """Kernels in the CUDA graphs of a step.

    Attributes:
        forward: of the forward pass of all layers, with what stands before and behind them.
        sampling: of logits and sampling.
        drafting: of the draft pass; 0 without drafts.
        num_layers: of the target model.
    """

    forward: int
    sampling: int
    drafting: int
    num_layers: int

    @classmethod
    def of(
        cls, graphs: Mapping[Any, Any], num_rows: int, num_layers: int, count: Callable[[Any], int]
    ) -> StepKernels | None:
        """Of the graphs of a step of `num_rows` rows; None where its forward pass was not captured.

        Args:
            graphs: by key, as `CapturedCalls` has them; None for one that did not fit into the memory.
            num_rows: of the forward pass, before it is padded.
            num_layers: of the target model.
            count: kernels of a graph.
        """
        found: dict[str, int] = {}
        for name, least in (("decode", num_rows), ("sample", num_rows), ("draft", 1)):
            sizes = [key[1] for key, graph in graphs.items() if key[0] == name and key[1] >= least and graph]
            if sizes:
                key = next(key for key, graph in graphs.items() if key[:2] == (name, min(sizes)) and graph)
                found[name] = count(graphs[key])
        if "decode" not in found:
            return None
        return cls(found["decode"], found.get("sample", 0), found.get("draft", 0), num_layers)

    @property
    def per_layer(self) -> float:
        """Kernels of the forward pass over its layers: what stands around the layers counts as theirs."""
        return self.forward / self.num_layers

    def to_dict(self) -> dict[str, float]:
        """JSON-safe."""
        return {
            "forward": self.forward,
            "per_layer": self.per_layer,
            "sampling": self.sampling,
            "drafting": self.drafting,
        }


def step_kernels(llm: LLM, num_rows: int) -> StepKernels | None:
    """Of the steps that an engine has captured inside `kept_graphs`; None where it captures none."""
    runtime = llm._runtime
    if not isinstance(runtime, EngineRuntime) or runtime.worker.model is None:
        return None
    decoder = getattr(getattr(runtime.worker._runner, "_executor", None), "decoder", None)
    if decoder is None or not isinstance(decoder.calls, CapturedCalls):
        return None
    num_layers = runtime.worker.model.runtime.config.num_hidden_layers
    return StepKernels.of(decoder.calls.graphs, num_rows, num_layers, lambda graph: count_nodes(graph)["kernel"])
