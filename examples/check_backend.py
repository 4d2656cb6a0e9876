"""Every op of a backend beside the reference, on the inputs of a real run; `deepinfer check` is the command."""

from deepinfer.check.check_rows import check_rows
from deepinfer.check.replay_row import ReplayRow

rows = [ReplayRow("<｜User｜>What is 4 + 5?<｜Assistant｜></think>", None), ReplayRow("Once upon a time", None)]
report = check_rows(lambda tokenizer: rows, {"max_model_len": 64, "max_num_seqs": 2}, max_tokens=4)

print(f"{report.backend}: {report.num_rows} rows, {report.num_tokens} tokens")
for seen in sorted(report.ops, key=lambda seen: -seen.worst)[:5]:
    print(f"  {seen.op:22} {seen.calls:4} calls, largest relative error {seen.worst:.1e}")
print("first fault: " + (str(report.faults[0]) if report.faults else "none"))
print(f"whole steps against their ops: log-probabilities differ by {report.largest_difference}")
