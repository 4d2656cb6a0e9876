"""Answers that keep to a JSON schema, an expression, or a list of choices."""

import json

from deepinfer import LLM, SamplingParams

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 20},
        "job": {"enum": ["pilot", "doctor", "baker"]},
        "city": {"type": "string", "maxLength": 20},
    },
    "required": ["name", "job", "city"],
}
CONSTRAINTS = {
    "Extract name, job and city as JSON: Vera works as a pilot in Porto.": {"json": SCHEMA},
    "When does the bakery open?": {"regex": r"at (1?[0-9]):[0-5][0-9] (am|pm)"},
    "Is a fox an animal?": {"choice": ["Yes.", "No."]},
}

with LLM() as llm:
    prompts = [f"<｜User｜>{question}<｜Assistant｜></think>" for question in CONSTRAINTS]
    params = [
        SamplingParams(temperature=0, max_tokens=64, structured_outputs=constraint)
        for constraint in CONSTRAINTS.values()
    ]
    for question, output in zip(CONSTRAINTS, llm.generate(prompts, params, use_tqdm=False), strict=True):
        completion = output.outputs[0]
        print(f"{question}\n  {completion.text} (complete: {completion.grammar_complete})")
        if question.startswith("Extract"):
            print(f"  parsed: {json.loads(completion.text)}")
