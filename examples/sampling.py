"""Several samples of one prompt, seeds, log-probabilities, and rules that forbid tokens."""

from deepinfer import LLM, SamplingParams

PROMPT = "<｜User｜>Tell me a story about an owl.<｜Assistant｜></think>"

with LLM() as llm:
    params = SamplingParams(n=3, temperature=0.9, top_p=0.95, max_tokens=24, seed=7)
    (output,) = llm.generate(PROMPT, params, use_tqdm=False)
    for completion in output.outputs:
        print(f"choice {completion.index}: {completion.text!r}")

    # A seed and a prompt give the same text again, whatever else runs beside it.
    neighbours = llm.generate([PROMPT, "Once upon a time", "In Python"], params, use_tqdm=False)
    same = [item.token_ids for item in neighbours[0].outputs] == [item.token_ids for item in output.outputs]
    print(f"the same among neighbours: {same}")

    (output,) = llm.generate(PROMPT, SamplingParams(temperature=0, max_tokens=3, logprobs=2), use_tqdm=False)
    for token, position in zip(output.outputs[0].token_ids, output.outputs[0].logprobs, strict=True):
        best = ", ".join(f"{entry.decoded_token!r} {entry.logprob:.2f}" for entry in position.values())
        print(f"token {token}: {best}")

    rules = SamplingParams(temperature=0, max_tokens=24, bad_words=["owl"], stop=["."], repetition_penalty=1.1)
    (output,) = llm.generate(PROMPT, rules, use_tqdm=False)
    print(f"no owl: {output.outputs[0].text!r} (stopped by {output.outputs[0].stop_reason!r})")
