"""What the sampler keeps of one sequence, and how that changes the sequence's logits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from deepinfer.core.engine_request import EngineRequest
from deepinfer.sampling.custom_processors import CustomProcessors
from deepinfer.sampling.grammar_row import GrammarRow
from deepinfer.sampling.seeds import hash_prompt


class RowState:
    """Bans, masks, bias, penalties and own processors of one sequence, prepared once.

    Attributes:
        params: sampling parameters.
        seed: 64-bit request seed.
        prompt_hash: 64-bit hash of the prompt's ids.
        grammar: of a structured request, else None.
        stop_ids: ids of the tokenizer that end the text.
    """

    def __init__(self, request: EngineRequest, num_valid_ids: int, eos_token_ids: Sequence[int]) -> None:
        params = request.params
        self.params = params
        self.seed = request.seed
        self.prompt_hash = hash_prompt(request.prompt_token_ids)
        self._num_ids = num_valid_ids
        self.stop_ids = [i for i in request.stop_token_ids if i < num_valid_ids]
        self._eos_ids = [i for i in eos_token_ids if i < num_valid_ids]
        self._banned_words = request.banned_words
        self._prompt_ids = np.asarray(request.prompt_token_ids, np.int64)
        bias = params.logit_bias or {}
        self._bias_ids = torch.tensor(list(bias), dtype=torch.int64)
        self._bias = torch.tensor(list(bias.values()), dtype=torch.float32)
        self._allowed = None if params.allowed_token_ids is None else torch.tensor(params.allowed_token_ids)
        self._counts = params.presence_penalty != 0.0 or params.frequency_penalty != 0.0
        self._repeats = params.repetition_penalty != 1.0
        self.grammar: GrammarRow | None = None
        if request.new_matcher is not None:
            self.grammar = GrammarRow(request.new_matcher(), request, num_valid_ids, eos_token_ids)
        given = params.logits_processors or ()
        self._processors = CustomProcessors(given, request.prompt_token_ids) if given else None
        filters = (self._banned_words, self._allowed is not None, self.grammar, self._processors)
        self._always = bool(bias or self._counts or self._repeats or any(filters))

    @property
    def takes_argmax(self) -> bool:
        """Greedy, or top_k = 1, which is the same also on a tie."""
        return self.params.greedy or self.params.top_k == 1

    def adjusts(self, output_index: int) -> bool:
        """Whether `adjust` would change anything at this output index."""
        return self._always or bool(self._banned_now(output_index))

    def is_plain(self, output_index: int) -> bool:
        """Whether the token is all that is wanted at this output index, and nothing but the logits decides it."""
        wants_more = self.params.logprobs is not None or self.grammar is not None
        return not (wants_more or self.adjusts(output_index) or self.forced_token(output_index) is not None)

    @property
    def plain_from(self) -> int | None:
        """First output index from which on every one `is_plain`; None: there is none such."""
        params = self.params
        if self._always or params.logprobs is not None or self.grammar is not None:
            return None
        golden = params.golden_token_ids or ()
        num_forced = max((index + 1 for index, token in enumerate(golden) if token >= 0), default=0)
        num_without_stop = params.min_tokens if self.stop_ids else 0
        return max(num_forced, num_without_stop, params.first_n_token_no_eos if self._eos_ids else 0)

    def forced_token(self, output_index: int) -> int | None:
        """The golden token of this output index, None to sample freely."""
        golden = self.params.golden_token_ids
        if golden is None or output_index >= len(golden) or golden[output_index] < 0:
            return None
        return golden[output_index]

    def adjust(self, row: torch.Tensor, output_index: int, generated: Sequence[int] | np.ndarray) -> None:
        """Change float32 [V] logits in place: bans and masks, bias, penalties, own processors, in this order.

        Args:
            row: the sequence's logits, ids of the tokenizer only.
            output_index: index of the token to be sampled.
            generated: ids generated so far.

        Raises RequestError when the grammar refuses an earlier token, or for a mistake of an own processor.
        """
        self._ban(row, output_index, generated)
        device = row.device
        if len(self._bias_ids):
            row[self._bias_ids.to(device)] += self._bias.to(device)
        if self._counts or self._repeats:
            self._penalise(row, np.asarray(generated, np.int64))
        if self._processors is not None:
            self._processors.apply(row, generated)

    def _banned_now(self, output_index: int) -> list[int]:
        banned = self.stop_ids if output_index < self.params.min_tokens else []
        return banned + self._eos_ids if output_index < self.params.first_n_token_no_eos else banned

    def _ban(self, row: torch.Tensor, output_index: int, generated: Sequence[int] | np.ndarray) -> None:
        if self._allowed is not None:
            allowed = self._allowed.to(row.device)
            values = row[allowed]
            row.fill_(-torch.inf)
            row[allowed] = values
        banned = list(self._banned_now(output_index))
        if self._banned_words is not None:
            banned += [i for i in self._banned_words.banned_after(generated) if i < self._num_ids]
        if self.grammar is not None:
            self.grammar.restrict(row, output_index, generated)
        if banned:
            row[torch.tensor(banned, device=row.device)] = -torch.inf

    def _penalise(self, row: torch.Tensor, generated: np.ndarray) -> None:
        params, device = self.params, row.device
        if self._repeats:
            seen = torch.from_numpy(self._known(np.concatenate((self._prompt_ids, generated)))[0]).to(device)
            values, penalty = row[seen], torch.tensor([params.repetition_penalty], dtype=torch.float32, device=device)
            row[seen] = torch.where(values > 0, values / penalty, values * penalty)
        if self._counts:
            ids, counts = self._known(generated)
            amounts = counts.astype(np.float32) * np.float32(params.frequency_penalty)
            amounts += np.float32(params.presence_penalty)
            row[torch.from_numpy(ids).to(device)] -= torch.from_numpy(amounts).to(device)

    def _known(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Distinct ids of the tokenizer among `ids`, and how often each occurs."""
        return np.unique(ids[ids < self._num_ids], return_counts=True)
