"""Follow completions while they are written, end one early, and take finished ones as they come."""

from deepinfer import LLM, SamplingParams

with LLM() as llm:
    story = "<｜User｜>Tell me a story about a fox.<｜Assistant｜></think>"
    for delta in llm.stream(story, SamplingParams(temperature=0, max_tokens=60)):
        print(delta.text, end="", flush=True)
    print()

    # An abort ends a request between two steps; what it wrote so far is its result.
    pieces = []
    for delta in llm.stream(story, SamplingParams(temperature=0, max_tokens=200), request_ids=["story"]):
        pieces.append(delta.text)
        if len(pieces) == 5:
            llm.abort("story")
    print(f"aborted after {len(pieces)} pieces: {delta.finish_reason}")

    # generate_iter yields whole outputs in the order in which they finish.
    prompts = [story, "<｜User｜>What is 4 + 5?<｜Assistant｜></think>"]
    for output in llm.generate_iter(prompts, SamplingParams(temperature=0, max_tokens=200)):
        print(f"finished: {output.outputs[0].text[:40]!r}")
