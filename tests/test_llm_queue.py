"""`LLM.queue`: requests handed in while others run."""

import pytest

from deepinfer import LLM, RequestError, SamplingParams
from tests.support.table_model import TableModels, perm_table, perm_tokens


@pytest.fixture
def llm(table_models: TableModels) -> LLM:
    with LLM(table_models.path(perm_table()), max_model_len=64, max_num_seqs=2) as built:
        yield built


def test_requests_enter_while_others_run(llm: LLM) -> None:
    params = SamplingParams(temperature=0, ignore_eos=True, max_tokens=6)
    with llm.queue() as queue:
        assert queue.poll() == [] and len(queue) == 0
        found, left = {}, list(range(10, 20))
        while left or len(queue):
            if left and len(queue) < 3:
                queue.add([left[0]], params, request_id=f"q{left.pop(0)}")
            found |= {output.request_id: output.outputs[0].token_ids for output in queue.poll()}
        assert found == {f"q{start}": perm_tokens(start, 6) for start in range(10, 20)}
        with pytest.raises(RequestError, match="expected a text"):
            queue.add([5], params, request_id="")


def test_wrong_requests_end_with_their_own_error(llm: LLM) -> None:
    with llm.queue() as queue:
        queue.add([], request_id="empty")
        queue.add([5] * 100, request_id="long")
        queue.add([5], {"temperature": -1}, request_id="params")
        queue.add([5], SamplingParams(max_tokens=1), request_id="good")
        codes = {}
        while len(queue):
            codes |= {output.request_id: output.error and output.error.code for output in queue.poll()}
    wrong = {"empty": "empty_prompt", "long": "prompt_too_long", "params": "invalid_sampling_params"}
    assert codes == {**wrong, "good": None}


def test_leaving_ends_what_is_open_and_other_calls_go_on(llm: LLM) -> None:
    params = SamplingParams(temperature=0, ignore_eos=True, max_tokens=50)
    with llm.queue() as queue:
        name = queue.add([10], params)
        with pytest.raises(RequestError, match="another unfinished request"):
            queue.add([10], params, request_id=name)
        assert queue.poll() == [] and len(queue) == 1
        output = llm.generate([[11]], params.replace(max_tokens=3), use_tqdm=False)[0]
        assert output.outputs[0].token_ids == perm_tokens(11, 3)
    stats = llm.stats()
    assert stats.num_running == stats.num_waiting == 0 and stats.num_aborted == 1
    queue.close()
