"""A callable for Ray Data's ``map_batches``: many machines, each with an engine of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from deepinfer.errors import ConfigError
from deepinfer.llm import LLM
from deepinfer.outputs import RequestOutput
from deepinfer.sampling_params import SamplingParams

OUTPUT_COLUMNS = ("text", "token_ids", "finish_reason", "error")


class RayGenerator:
    """Completes the prompts of a dataset. Ray makes one per actor, which loads a model and keeps it::

        from deepinfer.integrations.ray_data import RayGenerator

        ds = ds.map_batches(
            RayGenerator,
            fn_constructor_kwargs={"sampling": {"max_tokens": 64, "seed": 1}, "options": {"max_model_len": 2048}},
            concurrency=4,
            batch_size=512,
            num_gpus=1,
        )

    All columns are kept, and four added: "text", "token_ids" (int32 arrays), "finish_reason" and "error" (None where
    all went well; a wrong row harms no other). With temperature 0 or a seed a row's result depends on its prompt and
    the parameters alone, not on batches or on which actor got it (on a GPU with ``batch_invariant=True``).
    """

    def __init__(
        self,
        *,
        prompt_column: str = "prompt",
        sampling: SamplingParams | Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        output_prefix: str = "",
    ) -> None:
        """Args:
        prompt_column: has texts, or lists of token ids.
        sampling: parameters of every row; None: the checkpoint's defaults.
        options: of `LLM`.
        output_prefix: stands before the names of the added columns.

        Raises ConfigError for n > 1, as a row has one text, and what `LLM` raises.
        """
        self._prompt_column = prompt_column
        self._sampling = SamplingParams(**sampling) if isinstance(sampling, Mapping) else sampling
        if self._sampling is not None and self._sampling.n > 1:
            raise ConfigError(f"n = {self._sampling.n}: a row gets one text; repeat the row with other seeds instead")
        self._prefix = output_prefix
        self._llm = LLM(**(options or {}))

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Columns of a batch, and the added ones. ConfigError when a column is missing or would be overwritten."""
        if self._prompt_column not in batch:
            raise ConfigError(f"there is no column {self._prompt_column!r}; the columns are {', '.join(batch)}")
        taken = [name for name in OUTPUT_COLUMNS if self._prefix + name in batch]
        if taken:
            raise ConfigError(f"the column {self._prefix + taken[0]!r} is there already: give an output_prefix")
        prompts = list(batch[self._prompt_column])
        outputs = self._llm.generate(prompts, self._sampling, use_tqdm=False)
        added = list(zip(*map(_cells, outputs), strict=True)) or [()] * len(OUTPUT_COLUMNS)
        columns = {self._prefix + name: _column(cells) for name, cells in zip(OUTPUT_COLUMNS, added, strict=True)}
        return {**batch, **columns}


def _cells(output: RequestOutput) -> tuple[str, np.ndarray, str, str | None]:
    """Of one row, in the order of `OUTPUT_COLUMNS`."""
    if output.error is not None:
        return "", np.empty(0, np.int32), "error", f"{output.error.code}: {output.error.message}"
    completion = output.outputs[0]
    return completion.text, np.array(completion.token_ids, np.int32), completion.finish_reason or "", None


def _column(cells: tuple[Any, ...]) -> np.ndarray:
    """Objects, so that arrays of different lengths stay what they are."""
    column = np.empty(len(cells), dtype=object)
    column[:] = list(cells)
    return column
