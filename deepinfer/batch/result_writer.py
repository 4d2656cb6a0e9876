"""From an engine's output to the line that stands in the results."""

from __future__ import annotations

from deepinfer.batch.job_manifest import JobManifest
from deepinfer.batch.openai_result import openai_result
from deepinfer.batch.part_record import PartRecord
from deepinfer.batch.plain_result import plain_result
from deepinfer.batch.prepared_row import PreparedRow
from deepinfer.batch.row_answer import RowAnswer
from deepinfer.engine.chat_answers import ChatAnswers
from deepinfer.outputs import RequestOutput
from deepinfer.text.tokenizer import Tokenizer


class ResultWriter:
    """Writes results of one job in the form of its input."""

    def __init__(self, manifest: JobManifest, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._is_openai = manifest.input.format == "openai"
        self._token_ids = manifest.token_ids
        self._model = manifest.model_name

    def answer(self, prepared: PreparedRow, output: RequestOutput) -> RowAnswer:
        """What an output says, without what depends on clocks and neighbours."""
        if output.error is not None:
            return RowAnswer.failed(prepared, output.error)
        if prepared.chat is not None:
            assert prepared.params is not None, "it ran"
            skips = [prepared.params.skip_special_tokens]
            output = ChatAnswers(self._tokenizer, [prepared.chat], skips).output(0, output)
        num_generated = sum(len(item.token_ids) for item in output.outputs)
        num_prompt = len(output.prompt_token_ids)
        scores = output.prompt_logprobs
        return RowAnswer(prepared, tuple(output.outputs), num_prompt, num_generated, None, scores)

    def record(self, answer: RowAnswer) -> PartRecord:
        """The line of the part file."""
        if self._is_openai:
            result = openai_result(answer, self._model, self._tokenizer)
        else:
            result = plain_result(answer, token_ids=self._token_ids)
        error = None if answer.failure is None else answer.failure.code
        return PartRecord(answer.prepared.row.number, answer.prepared.key, error, result)
