"""The callable for Ray Data: columns in, columns out; once as a function, once inside a local Ray."""

import numpy as np
import pytest

from deepinfer import LLM, ConfigError, SamplingParams
from deepinfer.integrations.ray_data import RayGenerator

GREEDY = {"temperature": 0, "max_tokens": 8}
OPTIONS = {"max_model_len": 64, "max_num_seqs": 8}
PROMPTS = ["Once upon a time", "The capital of", "word " * 100, "<｜User｜>Who are you?<｜Assistant｜></think>"]


@pytest.fixture(scope="module")
def generator() -> RayGenerator:
    return RayGenerator(sampling=GREEDY, options=OPTIONS)


@pytest.fixture(scope="module")
def texts() -> list[str]:
    with LLM(**OPTIONS) as llm:
        outputs = llm.generate(PROMPTS, SamplingParams(**GREEDY), use_tqdm=False)
    return [output.outputs[0].text if output.error is None else "" for output in outputs]


def test_columns_are_kept_and_added(generator: RayGenerator, texts: list[str]) -> None:
    ids = np.arange(len(PROMPTS))
    found = generator({"id": ids, "prompt": np.array(PROMPTS, dtype=object)})
    assert list(found) == ["id", "prompt", "text", "token_ids", "finish_reason", "error"]
    assert found["id"] is ids and found["text"].tolist() == texts
    assert found["finish_reason"].tolist() == ["length", "length", "error", "length"]
    assert found["error"][2].startswith("prompt_too_long: ") and found["error"][[0, 1, 3]].tolist() == [None] * 3
    assert [len(item) for item in found["token_ids"]] == [8, 8, 0, 8]
    empty = generator({"prompt": np.array([], dtype=object)})
    assert {name: len(column) for name, column in empty.items()} == dict.fromkeys([*list(found)[1:]], 0)


def test_wrong_columns(generator: RayGenerator) -> None:
    with pytest.raises(ConfigError, match="no column 'prompt'; the columns are question"):
        generator({"question": np.array(["a"])})
    with pytest.raises(ConfigError, match="'text' is there already"):
        generator({"prompt": np.array(["a"]), "text": np.array(["b"])})
    with pytest.raises(ConfigError, match="n = 2: a row gets one text"):
        RayGenerator(sampling={"n": 2})


@pytest.mark.bridge
def test_in_a_local_ray(texts: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    import ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=80 * 2**20)
    try:
        rows = [{"place": i, "question": PROMPTS[i % len(PROMPTS)]} for i in range(10)]
        options = {"prompt_column": "question", "sampling": GREEDY, "options": OPTIONS, "output_prefix": "new_"}
        done = ray.data.from_items(rows).map_batches(
            RayGenerator, fn_constructor_kwargs=options, concurrency=1, batch_size=4
        )
        found = sorted(done.take_all(), key=lambda row: row["place"])
    finally:
        ray.shutdown()
    assert [row["new_text"] for row in found] == [texts[i % len(PROMPTS)] for i in range(10)]
    assert [row["question"] for row in found] == [row["question"] for row in rows]
    assert [len(row["new_token_ids"]) for row in found] == [0 if i % 4 == 2 else 8 for i in range(10)]
