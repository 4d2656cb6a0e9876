"""Cost curves through the engine: given ones, when one is measured, the disk; the texts are always the same."""

import dataclasses
import itertools
import json

import pytest
import torch

from deepinfer import LLM, ConfigError, SamplingParams
from deepinfer.config.cost_curves import CostCurves
from deepinfer.config.speculative_config import SpeculativeConfig
from deepinfer.profile import decode_costs
from deepinfer.profile.guessed_costs import guessed_costs
from deepinfer.worker.step_profiler import StepProfiler
from tests.support.golden_case import GOLDEN

PROMPTS = [[7, 11, 30 + i] for i in range(6)]
PARAMS = SamplingParams(temperature=0, max_tokens=14, ignore_eos=True)
OPTIONS = {"numerics": "fp32", "max_model_len": 64, "max_num_seqs": 6, "block_size": 4}
FLAT = {"step": [[64, 1.0]], "draft": [[8, 0.001]]}
STEEP = {"step": [[n, float(n)] for n in range(1, 65)], "draft": [[8, 2.0]]}


def run(speculative, **options):
    with LLM(GOLDEN / "nano-s1", speculative=speculative, **{**OPTIONS, **options}) as llm:
        outputs = llm.generate(PROMPTS, PARAMS, use_tqdm=False)
        return [output.outputs[0].token_ids for output in outputs], llm.stats()


@pytest.fixture
def quick(monkeypatch):
    """Measuring takes no time: the smallest size only."""
    monkeypatch.setattr(decode_costs, "_STEP_SECONDS", 0.0)
    monkeypatch.setattr(decode_costs, "_DRAFT_SECONDS", 0.0)


def test_where_the_curve_comes_from():
    given = SpeculativeConfig.parse({"cost_curve": FLAT}).cost_curve
    assert given == CostCurves(((64, 1.0),), ((8, 0.001),))
    sources = {
        (varlen, curve): SpeculativeConfig(varlen=varlen, cost_curve=curve).curve_source
        for varlen in ("auto", True, False)
        for curve in (None, "measure", "guess", given)
    }
    assert sources[("auto", None)] is None and sources[(True, None)] == "measure"
    assert sources[("auto", "measure")] == sources[(True, "measure")] == "measure"
    assert sources[("auto", "guess")] == sources[(True, "guess")] == "guess"
    assert sources[("auto", given)] == sources[(True, given)] == given
    assert not any(sources[(False, curve)] for curve in (None, "measure", "guess", given))


def test_the_guess_is_the_default_where_tokens_do_not_depend_on_it():
    default = SpeculativeConfig.parse(None)
    assert default.resolve_curve("cpu", "coupled") == "guess"
    assert default.resolve_curve("cpu", "rejection") is None and default.resolve_curve("reference", "coupled") is None
    for value in ({}, {"num_drafts": 2}, {"varlen": True}):
        assert SpeculativeConfig.parse(value).resolve_curve("cpu", "coupled") is None
    assert SpeculativeConfig.parse({"cost_curve": "guess"}).resolve_curve("reference", "rejection") == "guess"
    assert SpeculativeConfig.parse({"varlen": True, "cost_curve": "auto"}).resolve_curve("cuda", "coupled") is None


@pytest.mark.parametrize(("max_rows", "max_seqs"), [(1, 1), (7, 3), (1536, 256), (9000, 1500)])
def test_the_guess_fits_every_size(max_rows, max_seqs):
    costs = guessed_costs(max_rows, max_seqs)
    assert costs.is_guess and costs.step[0] == (1, 1.0)
    assert (costs.step[-1][0], costs.draft[-1][0]) == (max_rows, max_seqs)
    for curve in (costs.step, costs.draft):
        assert all(low[1] < high[1] for low, high in itertools.pairwise(curve))


def test_the_default_begins_with_steps_that_say_what_they_take():
    off, _ = run("off")
    on, stats = run(None)
    assert on == off
    assert stats.num_undrafted_steps >= 5
    guessed, stats = run({"cost_curve": "guess"}, backend="reference")
    assert guessed == off and stats.num_undrafted_steps >= 5
    _, stats = run(None, backend="reference")
    assert stats.num_undrafted_steps == 0


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({}, "step"),
        ({"step": []}, "no point"),
        ({"step": [[4, 1.0], [4, 2.0]]}, "size 4 after 4"),
        ({"step": [[1, 0.0]]}, "positive time"),
        ({"step": [[1.5, 1.0]]}, "whole numbers"),
        ({"step": [[1, 1.0, 2.0]]}, "size, ms"),
        ({"step": "flat"}, "expected"),
        ({"step": [[1, 1.0]], "draft": [[1, float("nan")]]}, "draft"),
        ("no/such/curve.json", "no/such/curve.json"),
        (5, "cost_curve"),
    ],
)
def test_wrong_curves_are_refused(value, message):
    with pytest.raises(ConfigError, match=message):
        SpeculativeConfig.parse({"cost_curve": value})


def test_given_curves_decide_how_much_is_verified(tmp_path):
    off, _ = run("off")
    fixed, all_stats = run({"varlen": False, "cost_curve": STEEP})
    file = tmp_path / "curve.json"
    file.write_text(json.dumps({**STEEP, "note": "as if every row cost the same"}))
    steep, few_stats = run({"cost_curve": str(file)})
    flat, flat_stats = run({"cost_curve": FLAT})
    assert off == fixed == steep == flat
    assert all_stats.num_undrafted_steps == flat_stats.num_undrafted_steps == 0
    assert flat_stats.num_drafts_verified == all_stats.num_drafts_verified
    assert few_stats.num_drafts_verified < all_stats.num_drafts_verified / 2
    assert few_stats.num_undrafted_steps > few_stats.num_decode_steps / 2


def test_measured_curve_is_used_and_corrected(quick, monkeypatch):
    seen = []
    original = StepProfiler.step_ms
    monkeypatch.setattr(StepProfiler, "step_ms", lambda self, size: seen.append(size) or original(self, size))
    off, _ = run("off")
    assert not seen
    on, _ = run(None)
    assert on == off and not seen  # nothing is measured unless asked for
    measured, stats = run({"varlen": True})
    assert measured == off and seen == [1, 1]
    assert stats.num_decode_steps > 0


def test_measured_curve_is_kept_on_disk(quick, monkeypatch, tmp_path):
    monkeypatch.setenv("DEEPINFER_DECODE_PERF_CACHE_DIR", str(tmp_path))
    _, stats = run({"cost_curve": "measure"})
    (file,) = tmp_path.iterdir()
    curves = CostCurves.read(file)
    assert curves.step[-1][0] == 6 * (1 + len(stats.verified_at)) and curves.draft[-1][0] == 6
    monkeypatch.setattr(decode_costs, "_measured", None)  # would fail
    run({"cost_curve": "measure"})
    with pytest.raises(TypeError):
        run({"cost_curve": "measure", "num_drafts": 2})  # another key
    with pytest.raises(TypeError):
        run({"cost_curve": "measure", "cost_cache_seconds": 0})  # too old


def test_steps_are_timed_as_they_run(monkeypatch, tmp_path):
    """With the engine's threads and torch settings, not the calling program's; the key knows the threads."""
    seen = []
    curves = CostCurves.parse(FLAT, "")
    note = lambda worker: seen.append((torch.get_num_threads(), torch.get_default_dtype())) or curves  # noqa: E731
    monkeypatch.setattr(decode_costs, "_measured", note)
    monkeypatch.setenv("DEEPINFER_DECODE_PERF_CACHE_DIR", str(tmp_path))
    torch.set_default_dtype(torch.float64)
    try:
        for num_threads in (1, 2, 2):
            LLM(GOLDEN / "nano-s1", speculative={"cost_curve": "measure"}, num_threads=num_threads, **OPTIONS).close()
    finally:
        torch.set_default_dtype(torch.float32)
    assert seen == [(1, torch.float32), (2, torch.float32)] and len(list(tmp_path.iterdir())) == 2


def test_an_empty_directory_name_keeps_nothing(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DEEPINFER_DECODE_PERF_CACHE_DIR", "")
    monkeypatch.setattr(decode_costs, "_measured", lambda worker: CostCurves.parse(FLAT, ""))
    LLM(GOLDEN / "nano-s1", speculative={"cost_curve": "measure"}, **OPTIONS).close()
    assert not list(tmp_path.iterdir())


def test_every_size_can_be_timed():
    with LLM(GOLDEN / "nano-s1", **OPTIONS) as llm:
        profiler = llm._runtime.worker.profiler
        for size in (1, 2, profiler.max_rows - 1, profiler.max_rows):
            assert profiler.step_ms(size) > 0
        for size in (1, profiler.max_seqs):
            assert profiler.draft_ms(size) > 0
        texts = [output.outputs[0].token_ids for output in llm.generate(PROMPTS, PARAMS, use_tqdm=False)]
    assert texts == run("off")[0]  # scratch use of the caches leaves no trace


def test_statistics_of_drafts():
    _, stats = run({"varlen": False})
    assert sum(stats.verified_at) == stats.num_drafts_verified and sum(stats.accepted_at) == stats.num_drafts_accepted
    assert stats.verified_per_step == stats.num_drafts_verified / stats.num_verify_steps
    calibration = stats.draft_calibration
    assert 0 < calibration.num_judged <= stats.num_drafts_verified
    assert calibration.accepted.sum() >= stats.num_drafts_accepted
    values = json.loads(json.dumps(stats.to_dict()))
    assert sum(part["drafts"] for part in values["draft_calibration"]["bins"]) == calibration.num_judged
    assert set(values) == {field.name for field in dataclasses.fields(stats)}
    _, off = run("off")
    assert off.verified_at == () and off.verified_per_step is None and off.draft_calibration.expected_error() is None
