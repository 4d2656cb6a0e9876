"""n > 1: one output with n completions, streaming, ends, errors and aborts of single choices and whole requests."""

import threading

import pytest

from deepinfer import RequestError, SamplingParams
from deepinfer.engine.request_state import RequestState
from deepinfer.sampling.seeds import derive_choice_seed
from tests.support.table_engine import EOS, TableEngine, perm_tokens, scripted

pytestmark = pytest.mark.usefixtures("overlaps")

GREEDY3 = SamplingParams(n=3, temperature=0, max_tokens=8)


def test_one_output_with_n_completions() -> None:
    engine = TableEngine.build()
    first, second = engine.run([[10], [11]], [GREEDY3, GREEDY3.replace(n=1)])
    assert [completion.index for completion in first.outputs] == [0, 1, 2]
    assert [completion.token_ids for completion in first.outputs] == [perm_tokens(10, 8)] * 3
    assert first.metrics.num_generated_tokens == 24 and first.finished
    assert len(second.outputs) == 1
    stats = engine.engine.stats()
    assert (stats.num_requests, stats.num_finished, stats.num_forked, stats.num_prefill_tokens) == (2, 2, 2, 2)


def test_requests_of_choices() -> None:
    engine = TableEngine.build()
    prompt = engine.encoder.encode([1, 2])
    request = engine.inputs.generation("r", 5, prompt, SamplingParams(n=3, seed=9, prompt_logprobs=1))
    assert [choice.choice for choice in request.choices] == [0, 1, 2]
    assert [choice.seed for choice in request.choices] == [9, derive_choice_seed(9, 1), derive_choice_seed(9, 2)]
    assert [choice.score_start for choice in request.choices] == [1, None, None]
    assert len({choice.seq_id for choice in request.choices}) == 3
    unseeded = engine.inputs.generation("r", 5, prompt, SamplingParams(n=2))
    assert unseeded.seed == engine.inputs.generation("r", 5, prompt, SamplingParams()).seed


@pytest.mark.parametrize("backwards", [False, True])
def test_the_end_of_many_choices_asks_for_each_a_few_times(backwards: bool) -> None:
    engine = TableEngine.build()
    request = engine.inputs.generation("r", 0, engine.encoder.encode([1]), SamplingParams(n=200, seed=1))
    state = RequestState.start(request, None, 0, False, 0.0)
    asked: list[int] = []

    class OpenIds(set[int]):
        def __contains__(self, seq_id: object) -> bool:
            asked.append(int(str(seq_id)))
            return super().__contains__(seq_id)

    open_ids = OpenIds(choice.seq_id for choice in request.choices)
    order = [choice.seq_id for choice in request.choices][:: -1 if backwards else 1]
    for place, seq_id in enumerate(order):
        open_ids.remove(seq_id)
        assert state.is_open(open_ids) == (place < 199)
    assert len(asked) <= 2 * 200


@pytest.mark.parametrize(
    "sizes",
    [{"max_num_seqs": 1}, {"max_num_seqs": 2}, {"num_blocks": 3}, {"max_prefill_chunk": 3}, {"num_blocks": 5}],
)
@pytest.mark.parametrize("prompt_len", [1, 7, 8, 9])
def test_small_engines(sizes: dict, prompt_len: int) -> None:
    prompt = list(range(prompt_len))
    params = SamplingParams(n=4, max_tokens=9, logprobs=1, prompt_logprobs=1)
    engine = TableEngine.build(**sizes)
    for output in engine.run([prompt, prompt], params):
        for completion in output.outputs:
            assert completion.token_ids == perm_tokens(prompt[-1], 9)
            assert len(completion.logprobs) == 9 and completion.finish_reason == "length"
        assert len(output.prompt_logprobs) == prompt_len and len(output.outputs) == 4


def test_stops_at_the_first_token_and_no_tokens() -> None:
    (stopped,) = TableEngine.build({1: EOS}.__getitem__).run([[1]], SamplingParams(n=3))
    assert [(c.token_ids, c.finish_reason) for c in stopped.outputs] == [([EOS], "stop")] * 3
    (empty,) = TableEngine.build().run([[1, 2]], SamplingParams(n=3, max_tokens=0, prompt_logprobs=1))
    assert [(c.index, c.token_ids, c.finish_reason) for c in empty.outputs] == [(j, [], "length") for j in range(3)]
    assert len(empty.prompt_logprobs) == 2
    (string,) = TableEngine.build(scripted("abcd")).run([[0]], SamplingParams(n=2, max_tokens=9, stop="a"))
    assert [(c.text, c.stop_reason, len(c.token_ids)) for c in string.outputs] == [("", "a", 1)] * 2


def test_stream_names_the_choice_and_ends_once_per_choice() -> None:
    deltas = TableEngine.build().stream([[10], [11]], GREEDY3.replace(logprobs=0))
    for place, start in enumerate((10, 11)):
        for choice in range(3):
            mine = [delta for delta in deltas if (delta.prompt_index, delta.choice) == (place, choice)]
            assert [token for delta in mine for token in delta.token_ids] == perm_tokens(start, 8)
            assert [delta.finish_reason for delta in mine] == [None] * 7 + ["length"]
    (refused,) = TableEngine.build().stream([[999]], GREEDY3)
    assert (refused.choice, refused.finish_reason, refused.error.code) == (0, "error", "token_id_out_of_range")


def test_an_error_of_one_choice_leaves_the_others() -> None:
    engine = TableEngine.build()
    engine.worker.errors = {1: RequestError("nothing left", code="no_candidate_token")}
    (output,) = engine.run([[10]], GREEDY3)
    assert [completion.finish_reason for completion in output.outputs] == ["length", "error", "length"]
    assert [completion.token_ids for completion in output.outputs] == [perm_tokens(10, 8), [], perm_tokens(10, 8)]
    assert output.error == output.outputs[1].error and output.error.code == "no_candidate_token"
    assert engine.engine.stats().num_failed == 1


def test_an_error_of_the_shared_prefill_is_the_requests() -> None:
    engine = TableEngine.build()
    engine.worker.errors = {0: RequestError("NaN", code="non_finite_logits")}
    bad, good = engine.run([[10], [11]], GREEDY3)
    assert bad.error.code == "non_finite_logits" and [c.finish_reason for c in bad.outputs] == ["error"] * 3
    assert all(c.error.code == "non_finite_logits" for c in bad.outputs)
    assert [c.token_ids for c in good.outputs] == [perm_tokens(11, 8)] * 3
    stats = engine.engine.stats()
    assert (stats.num_requests, stats.num_failed, stats.num_finished) == (2, 1, 1)


def test_a_later_error_of_choice_0_is_its_own() -> None:
    engine = TableEngine.build()

    def poison(plan: object) -> None:
        if len(engine.worker.plans) == 3:
            engine.worker.errors = {0: RequestError("NaN", code="non_finite_logits")}

    engine.worker.on_execute = poison
    (output,) = engine.run([[10]], GREEDY3)
    assert [c.finish_reason for c in output.outputs] == ["error", "length", "length"]
    assert [len(c.token_ids) for c in output.outputs] == [3, 8, 8]
    assert output.error == output.outputs[0].error and output.outputs[1].error is None


@pytest.mark.parametrize(("sizes", "at_step"), [({}, 0), ({}, 1), ({}, 4), ({"max_num_seqs": 1}, 3)])
def test_abort_ends_every_choice(sizes: dict, at_step: int) -> None:
    engine = TableEngine.build(max_prefill_chunk=4, **sizes)

    def abort(plan: object) -> None:
        if len(engine.worker.plans) == at_step:
            thread = threading.Thread(target=engine.loop.abort, args=(["0"],))
            thread.start()
            thread.join()

    engine.worker.on_execute = abort
    prompt = list(range(6))
    output, other = engine.run([prompt, [20]], [GREEDY3.replace(max_tokens=40), GREEDY3])
    assert [c.finish_reason for c in output.outputs] == ["abort"] * 3
    expected = perm_tokens(5, 40)
    assert all(c.token_ids == expected[: len(c.token_ids)] for c in output.outputs)
    assert [c.token_ids for c in other.outputs] == [perm_tokens(20, 8)] * 3
    assert engine.engine.stats().num_aborted == 1


def test_abandoned_calls_and_failed_steps_leave_nothing() -> None:
    engine = TableEngine.build(max_num_seqs=2)
    stream = engine.batch([[10], [11]], GREEDY3, streaming=True).deltas()
    next(stream)
    stream.close()
    engine.assert_idle()

    def fail(plan: object) -> None:
        raise KeyboardInterrupt

    for failing_step in range(5):
        engine.worker.plans.clear()
        engine.worker.on_execute = lambda plan, n=failing_step: fail(plan) if len(engine.worker.plans) == n else None
        with pytest.raises(KeyboardInterrupt):
            list(engine.batch([[10], list(range(9))], GREEDY3).finished())
        engine.assert_idle()
    engine.worker.on_execute = lambda plan: None
    assert [c.token_ids for c in engine.run([[10]], GREEDY3)[0].outputs] == [perm_tokens(10, 8)] * 3


def test_forks_survive_a_failed_step_of_another_call() -> None:
    engine = TableEngine.build()
    stream = engine.batch([[10]], GREEDY3, streaming=True).deltas()
    tokens: dict[int, list[int]] = {0: list(next(stream).token_ids)}

    def fail(plan: object) -> None:
        raise OSError("x")

    engine.worker.on_execute = fail
    with pytest.raises(OSError, match="x"):
        list(engine.batch([[20]], GREEDY3, prefix="other").finished())
    engine.worker.on_execute = lambda plan: None
    for delta in stream:
        tokens.setdefault(delta.choice, []).extend(delta.token_ids)
    assert tokens == dict.fromkeys(range(3), perm_tokens(10, 8))
    engine.assert_idle()
