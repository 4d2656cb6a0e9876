"""Speculative decoding with the checkpoint's own draft model: the same tokens in fewer steps."""

from deepinfer import LLM, SamplingParams

PROMPTS = [
    "<｜User｜>Tell me a story about a bear.<｜Assistant｜></think>",
    "<｜User｜>Extract name, job and city as JSON: Vera works as a pilot in Porto.<｜Assistant｜></think>",
    "<｜User｜>Name the months of the year.<｜Assistant｜></think>",
]
PARAMS = SamplingParams(temperature=0, max_tokens=64)

texts = {}
for mode in ("off", {"varlen": False}):  # without drafts; with all five of each step verified
    with LLM(speculative=mode) as llm:
        outputs = llm.generate(PROMPTS, PARAMS, use_tqdm=False)
        stats = llm.stats()
    texts[str(mode)] = [output.outputs[0].text for output in outputs]
    print(f"speculative={mode}: {stats.num_generated_tokens} tokens in {stats.num_decode_steps} decode steps")

assert texts["off"] == texts[str(mode)], "drafts changed a text"
print(f"tokens a verified step: {stats.num_verify_tokens / stats.num_verify_steps:.2f}")
for position, (accepted, verified) in enumerate(zip(stats.accepted_at, stats.verified_at, strict=True), 1):
    print(f"  draft {position}: {accepted} of {verified} accepted")
