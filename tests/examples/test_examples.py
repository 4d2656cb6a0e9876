"""Every example runs on a CPU with the bundled model and says what it promises."""

import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
EXPECTED = {
    "batch_job": ["job: complete", "The capital of France is Paris."],
    "chat": ["answer: The capital of Norway is Oslo.", "streamed: Monday, Tuesday,", "one of two: Hello!"],
    "check_backend": ["first fault: none", "log-probabilities differ by 0.0"],
    "drafts": ["tokens a verified step: ", "draft 5: "],
    "errors": ["prompt_too_long: ", "token_id_out_of_range: ", "image input is not built yet", "did you mean"],
    "evaluate": ["capital_seen    3 of 3", "a wrong one: "],
    "look_inside": ["layers.5.index.picks: torch.int64 [22, 32]", "without the experts of layer 7: "],
    "offline_inference": ["The capital of Norway is Oslo.", "tokens/s"],
    "sampling": ["choice 2: ", "the same among neighbours: True", "(stopped by '.')"],
    "scoring": ["-> The capital of Norway is Oslo.", "-> 87", "-> river lamp"],
    "streaming": ["aborted after ", "pieces: abort", "finished: '9'"],
    "structured_output": ["parsed: {'name': 'Vera'", "(complete: True)"],
    "trace_steps": ["23 decode steps", "trace: "],
    "yoco_equivalence": ["compact against mask: equal to the bit"],
}
ARGUMENTS = {"trace_steps": ["trace.json"], "yoco_equivalence": ["--limit", "1", "--max-tokens", "2"]}
TOOLS = {"yoco_equivalence"}  # with options of their own, so longer


def test_all_are_known_and_short() -> None:
    found = {path.stem for path in EXAMPLES.glob("*.py")} - {"__init__"}
    assert found == set(EXPECTED) and len(found - TOOLS) >= 10
    lengths = {name: len((EXAMPLES / f"{name}.py").read_text("utf-8").splitlines()) for name in found - TOOLS}
    assert max(lengths.values()) < 60, lengths


@pytest.mark.parametrize("name", EXPECTED)
def test_example(name: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(EXAMPLES.parent))
    monkeypatch.setattr(sys, "argv", [f"{name}.py", *ARGUMENTS.get(name, [])])
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    output = capfd.readouterr().out
    for part in EXPECTED[name]:
        assert part in output
