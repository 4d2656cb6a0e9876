"""Cases 10 and 11: what log-probabilities mean, that they are finite, and what they cost."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from deepinfer import LLM, SamplingParams
from tests.support.table_model import SOFT_IDS, column_table, soft_table

RAW = [-0.4402, -1.4402, -2.4402, -3.4402]
ROOT = Path(__file__).parents[2]
FILTERS = [
    {"temperature": 0},
    {"temperature": 2.0},
    {"temperature": 1e-4},
    {"top_k": 1},
    {"top_p": 0.1},
    {"min_p": 0.9},
    {"logit_bias": {SOFT_IDS[3]: 50.0}},
    {"allowed_token_ids": [SOFT_IDS[1]]},
    {"bad_words": ["x"]},
    {"repetition_penalty": 2.0, "frequency_penalty": 1.0, "presence_penalty": -1.0},
    {"min_tokens": 1, "stop_token_ids": [SOFT_IDS[0]]},
    {"first_n_token_no_eos": 1},
    {"golden_token_ids": [SOFT_IDS[2]]},
]


def test_case_10_raw_values_never_depend_on_filters(table_llm, run):
    llm = table_llm(soft_table())
    prompt = [SOFT_IDS[0], SOFT_IDS[3], 9]
    params = [SamplingParams(max_tokens=1, logprobs=4, prompt_logprobs=4, **filters) for filters in FILTERS]
    outputs = run(llm, [prompt] * len(params), params)
    for output in outputs:
        entry = output.outputs[0].logprobs[0]
        assert [entry[token].logprob for token in SOFT_IDS] == pytest.approx(RAW, abs=1e-4)
        assert [entry[token].rank for token in SOFT_IDS] == [1, 2, 3, 4]
        assert entry.chosen() == entry[output.outputs[0].token_ids[0]]
        assert output.prompt_logprobs == outputs[0].prompt_logprobs
        json.dumps(output.to_dict(), allow_nan=False)
    scores = outputs[0].prompt_logprobs
    assert scores[1][SOFT_IDS[3]].logprob == pytest.approx(RAW[3], abs=1e-4)
    assert scores[2][9].logprob == pytest.approx(-43.4402, abs=1e-3)


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"temperature": 2.0}, [1.5, 1.0, 0.5, 0.0]),
        ({"temperature": 0}, [3.0, 2.0, 1.0, 0.0]),
        ({"top_k": 2}, [3.0, 2.0, -math.inf, -math.inf]),
        ({"top_k": 1}, [3.0, -math.inf, -math.inf, -math.inf]),
        ({"min_p": 0.2}, [3.0, 2.0, -math.inf, -math.inf]),
        ({"temperature": 2.0, "top_p": 0.7}, [1.5, 1.0, -math.inf, -math.inf]),
        ({"logit_bias": {SOFT_IDS[3]: 5.0}}, [3.0, 2.0, 1.0, 5.0]),
        ({"allowed_token_ids": SOFT_IDS[2:]}, [-math.inf, -math.inf, 1.0, 0.0]),
        ({"min_tokens": 1, "stop_token_ids": SOFT_IDS[:1]}, [-math.inf, 2.0, 1.0, 0.0]),
        ({"temperature": 0, "frequency_penalty": 1.0}, [3.0, 2.0, 1.0, 0.0]),
    ],
)
def test_case_10_processed_values_are_of_what_is_drawn_from(table_llm, run, filters, expected):
    fields = {"temperature": 1.0, "max_tokens": 1, "logprobs": -1, "logprobs_mode": "processed", **filters}
    (output,) = run(table_llm(soft_table()), [[9]], **fields)
    entry = output.outputs[0].logprobs[0]
    values = torch.log_softmax(torch.tensor(expected), 0).clamp(min=-9999).tolist()
    assert [entry[token].logprob for token in SOFT_IDS] == pytest.approx(values, abs=1e-4)
    json.dumps(output.to_dict(), allow_nan=False)


@pytest.mark.parametrize("mode", ["raw", "processed"])
def test_case_10_values_beyond_floats_stay_json_safe(table_llm, run, mode):
    llm = table_llm(column_table({20: 1e30, 30: -1e30}, rest=0.0).bfloat16().float())
    params = SamplingParams(max_tokens=2, logprobs=-1, prompt_logprobs=-1, logprobs_mode=mode, ignore_eos=True)
    (output,) = run(llm, [[30, 20, 30]], params)
    text = json.dumps(output.to_dict(), allow_nan=False)
    assert "NaN" not in text and output.outputs[0].token_ids == [20, 20]
    assert output.prompt_logprobs[2][30].logprob == -9999.0
    assert math.isfinite(output.outputs[0].cumulative_logprob)


MEMORY = """
import json, re, resource, sys
from deepinfer import LLM, SamplingParams

def status(name):
    return int(re.search(name + r":\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024

def peak(call):
    open("/proc/self/clear_refs", "w").write("5")  # forget the high-water mark
    before = status("VmRSS")
    call()
    return status("VmHWM") - before

path, chunk, budget = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
prompt = [3 + (7919 * place) % 49000 for place in range(4000)]
options = {"numerics": "fp32", "max_model_len": 4096, "max_num_seqs": 1}
llm = LLM(path, max_prefill_chunk=chunk, max_num_batched_tokens=chunk, **options)
params = SamplingParams(max_tokens=0, prompt_logprobs=1)
plain = params.replace(prompt_logprobs=None)
llm.generate([prompt], plain, use_tqdm=False)  # touches the cache's pages
llm.generate([prompt[:64]], params, use_tqdm=False)
base = peak(lambda: llm.generate([prompt], plain, use_tqdm=False))  # what the layers need
limit = int(status("VmPeak") + budget) << 20  # nothing may even reserve the whole matrix
resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
results = {}
results["generate_mib"] = peak(lambda: results.update(output=llm.generate([prompt], params, use_tqdm=False)[0])) - base
results["score_mib"] = peak(lambda: results.update(score=llm.score([prompt[:1]], [prompt[1:]])[0])) - base
output, score = results.pop("output"), results.pop("score")
values = [entry.chosen().logprob for entry in output.prompt_logprobs[1:]]
results["complete"] = len(values) == 3999 and score[2] == values
json.dump(results, sys.stdout)
"""


@pytest.fixture(scope="module")
def wide_model(tmp_path_factory):
    """One layer, hidden 32, a vocabulary of 50,000."""
    from deepinfer.checkpoint.writer import write_random_checkpoint
    from tests.support.tiny_config import tiny_config

    fields = {
        "vocab_size": 50_000,
        "hidden_size": 32,
        "num_hidden_layers": 1,
        "compress_ratios": [1],
        "kv_source_layer_ids": [0],
        "index_source_layer_ids": [0],
        "candidate_source_layer_id": None,
        "candidate_topk_blocks": None,
        "candidate_block_size": None,
        "engram_layer_ids": [],
        "num_nextn_predict_layers": 0,
        "dspark_target_layer_ids": [],
        "max_position_embeddings": 4096,
        "n_routed_experts": 2,
        "num_attention_heads": 2,
    }
    path = tmp_path_factory.mktemp("wide")
    write_random_checkpoint(tiny_config(**fields), path, seed=1)
    return path


def score_in_subprocess(path, chunk, budget_mib):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    arguments = [sys.executable, "-c", MEMORY, str(path), str(chunk), str(budget_mib)]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=240, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_case_11_the_logits_stage_takes_less_than_64_mib(wide_model):
    """4,000 x 50,000 logits would take 800 MB; beyond the layers' own need, memory may grow by 64 MiB."""
    result = score_in_subprocess(wide_model, 4096, 128)
    assert result["complete"]
    assert result["generate_mib"] < 64 and result["score_mib"] < 64


def test_case_11_scores_do_not_depend_on_chunks(wide_model, run):
    """Bit for bit, and `LLM.score` tells the same values as `prompt_logprobs`."""
    prompt = [3 + (7919 * place) % 49000 for place in range(150)]
    found = []
    for chunk in (2048, 37):
        with LLM(wide_model, numerics="fp32", max_model_len=256, max_num_seqs=2, max_prefill_chunk=chunk) as llm:
            (output,) = run(llm, [prompt], max_tokens=0, prompt_logprobs=1)
            found.append((output.prompt_logprobs, llm.score([prompt[:1]], [prompt[1:]])[0]))
    assert found[0] == found[1]
    values = [entry.chosen().logprob for entry in found[0][0][1:]]
    assert found[0][1][2] == values and found[0][1][0] == pytest.approx(sum(values), rel=1e-6)
