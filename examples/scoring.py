"""Choose among given answers by their log-probabilities, without generating anything."""

from deepinfer import LLM

QUESTIONS = {
    "What is the capital of Norway?": ["The capital of Norway is Oslo.", "The capital of Norway is Lima."],
    "Which number is larger, 31 or 87?": ["31", "87"],
    "Repeat: river lamp": ["lamp river", "river lamp"],
}

with LLM() as llm:
    prompts, answers = [], []
    for question, choices in QUESTIONS.items():
        prompts += [f"<｜User｜>{question}<｜Assistant｜></think>"] * len(choices)
        answers += choices
    scores = iter(llm.score(prompts, answers))
    for question, choices in QUESTIONS.items():
        judged = [(next(scores), choice) for choice in choices]
        print(question)
        for (logprob, is_greedy, token_logprobs), choice in judged:
            note = ", what greedy decoding writes" if is_greedy else ""
            print(f"  {logprob:8.2f} over {len(token_logprobs):2} tokens: {choice}{note}")
        print(f"  -> {max(judged)[1]}")
