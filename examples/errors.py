"""One wrong request harms no other; strict=True raises before any work instead."""

from deepinfer import LLM, RequestError, SamplingParams

with LLM(max_model_len=64) as llm:
    prompts = [
        "Once upon a time",
        "word " * 500,  # too long
        [5, 99999],  # no such token
        {"prompt": "What is this?", "images": ["fox.png"]},  # not built yet
    ]
    for output in llm.generate(prompts, SamplingParams(temperature=0, max_tokens=8), use_tqdm=False):
        if output.error is None:
            print(f"fine: {output.outputs[0].text!r}")
        else:
            print(f"{output.error.code}: {output.error.message}")

    try:
        llm.generate(prompts, SamplingParams(max_tokens=8), strict=True, use_tqdm=False)
    except RequestError as error:
        print(f"strict: {error.code}")

    try:
        SamplingParams(temprature=0)
    except TypeError as error:
        print(f"a wrong name: {error}")
