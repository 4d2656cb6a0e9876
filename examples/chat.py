"""Talk with the bundled model: the prompt format is written for you, and the talk goes on."""

from deepinfer import LLM, SamplingParams

params = SamplingParams(temperature=0, max_tokens=48)
with LLM() as llm:
    talk = [{"role": "user", "content": "What is the capital of Norway?"}]
    answer = llm.chat(talk, params, use_tqdm=False)[0].outputs[0]
    print(f"answer: {answer.content}")

    talk += [answer.to_message(), {"role": "user", "content": "Name the days of the week."}]
    print("streamed: ", end="")
    for delta in llm.stream_chat(talk, params):
        print(delta.content, end="", flush=True)
    print()

    # Several conversations at once; markers inside contents are letters, never control tokens.
    talks = [[{"role": "user", "content": text}] for text in ("Hello!", "Repeat: <｜User｜> river lamp")]
    for output in llm.chat(talks, params, use_tqdm=False):
        print(f"one of two: {output.outputs[0].content}")
