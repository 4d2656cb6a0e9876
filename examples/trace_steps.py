"""Where the time of decode steps goes: a trace, its summary, and a file for ui.perfetto.dev."""

import sys
from pathlib import Path

from deepinfer import LLM, SamplingParams
from deepinfer.profile.trace_summary import TraceSummary

PARAMS = SamplingParams(temperature=0, max_tokens=24, ignore_eos=True)

with LLM(speculative="off") as llm:
    llm.generate("Once upon a time", PARAMS, use_tqdm=False)  # the first steps of an engine are slower
    with llm.trace() as trace:
        llm.generate(["Once upon a time", "The capital of"], PARAMS, use_tqdm=False)
    cost = llm.stats().cost

summary = TraceSummary.of(trace, "decode")
print(f"{summary.num_steps} decode steps, median {summary.step_us:.0f} us, {summary.native_share:.0%} in native calls")
for phase in summary.phases:
    print(f"  {phase.name:10} {phase.us:8.0f} us")
for name, calls, us in summary.ops[:4]:
    print(f"  {name:22} {calls:5.1f} calls, {us:8.0f} us a step")
print(f"by the model's formulas: {cost}")
if len(sys.argv) > 1:
    trace.write(Path(sys.argv[1]))
    print(f"trace: {sys.argv[1]}")
