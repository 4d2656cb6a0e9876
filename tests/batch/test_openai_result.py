"""Results in the OpenAI batch format: log-probabilities as that format has them."""

import json
from typing import Any

import numpy as np

from deepinfer.batch.input_row import AnswerForm, InputRow
from deepinfer.batch.openai_result import openai_result
from deepinfer.batch.prepared_row import PreparedRow
from deepinfer.batch.row_answer import RowAnswer
from deepinfer.outputs import CompletionOutput, TokenLogprobs
from deepinfer.sampling_params import SamplingParams
from deepinfer.text.tokenizer import Tokenizer
from tests.support.batch_case import BatchCase, id_rows


def choice(tokenizer: Tokenizer, form: AnswerForm, num_top: int, chosen: list[int], top: list[list[int]]) -> Any:
    """The choice of a row whose tokens are chosen with a log-probability of -2, below the best ones."""
    scores = TokenLogprobs(
        np.array(chosen, np.int32),
        np.full(len(chosen), -2.0, np.float32),
        np.array([5] * len(chosen), np.int32),
        np.array(top, np.int32),
        np.array([[-0.5, -1.0]] * len(chosen), np.float32),
        tokenizer.decode_token,
    )
    completion = CompletionOutput(0, "text", chosen, finish_reason="length", logprobs=scores)
    row = PreparedRow(InputRow(0, "a", 1, form=form), "key", [5], SamplingParams(logprobs=num_top), None, None)
    line = json.loads(openai_result(RowAnswer(row, (completion,), 1, len(chosen), None), "m", tokenizer))
    return line["response"]["body"]["choices"][0]


def test_the_chosen_token_is_not_one_of_the_best_where_it_was_not(case: BatchCase) -> None:
    tokenizer = case.begin(id_rows(1)).model.tokenizer
    for num_top in (2, 1, 0):
        found = choice(tokenizer, "chat.completion", num_top, [40, 41], [[42, 43], [44, 45]])["logprobs"]["content"]
        assert [item["logprob"] for item in found] == [-2.0, -2.0]
        best = [[item["logprob"] for item in place["top_logprobs"]] for place in found]
        assert best == [[-0.5, -1.0][:num_top]] * 2


def test_bytes_of_a_token_that_ends_inside_a_character(case: BatchCase) -> None:
    tokenizer = case.begin(id_rows(1)).model.tokenizer
    cut = next(i for i, piece in enumerate(tokenizer.text_pieces(4096)) if piece[:1] >= b"\xc3" and len(piece) == 1)
    found = choice(tokenizer, "chat.completion", 0, [cut], [[42, 43]])["logprobs"]["content"][0]
    assert bytes(found["bytes"]) == tokenizer.decode_bytes([cut]) and found["token"] == "\ufffd"


def test_text_offsets(case: BatchCase) -> None:
    tokenizer = case.begin(id_rows(1)).model.tokenizer
    found = choice(tokenizer, "text_completion", 2, [300, 301, 302], [[42, 43]] * 3)["logprobs"]
    lengths = [len(tokenizer.decode_token(i)) for i in (300, 301)]
    assert found["text_offset"] == [0, lengths[0], sum(lengths)]
    assert choice(tokenizer, "text_completion", 2, [], np.empty((0, 2)).tolist())["logprobs"]["text_offset"] == []
