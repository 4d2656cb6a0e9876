"""Exact answers on the bundled evaluation rows, three of each task; `deepinfer eval` runs all of them."""

from deepinfer import LLM
from deepinfer.bench.answer_rows import answer_rows, first_of_each_task, read_answer_rows, task_counts

rows = first_of_each_task(read_answer_rows(None), 3)
with LLM() as llm:
    results = answer_rows(llm, rows, max_tokens=96)

for task, (exact, total) in task_counts(results).items():
    print(f"{task:15} {exact} of {total}")
wrong = next(result for result in results if not result.is_exact)
print(f"a wrong one: {wrong.row.prompt[-60:]!r}\n  expected {wrong.row.answer!r}\n  written  {wrong.text!r}")
