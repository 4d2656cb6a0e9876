"""Complete a few prompts with the bundled model, or with a checkpoint given on the command line."""

import sys
import time

from deepinfer import LLM, SamplingParams
from deepinfer.envs import read_environment

PROMPTS = [
    "<｜begin▁of▁sentence｜><｜User｜>Who are you?<｜Assistant｜></think>",
    "<｜begin▁of▁sentence｜><｜User｜>What is the capital of Norway?<｜Assistant｜></think>",
    "<｜begin▁of▁sentence｜><｜User｜>Tell me a story about an owl.<｜Assistant｜></think>",
    "Once upon a time",
]

model = sys.argv[1] if len(sys.argv) > 1 else read_environment().settings.get("hf_model_dir")
with LLM(model) as llm:
    start = time.perf_counter()
    outputs = llm.generate(PROMPTS, SamplingParams(temperature=0, max_tokens=48))
    seconds = time.perf_counter() - start

for output in outputs:
    completion = output.outputs[0]
    print(f"prompt:       {output.prompt!r}")
    print(f"continuation: {completion.text!r} ({completion.finish_reason})\n")

num_tokens = sum(len(output.outputs[0].token_ids) for output in outputs)
print(f"{num_tokens} tokens in {seconds:.2f} s: {num_tokens / seconds:.1f} tokens/s")
