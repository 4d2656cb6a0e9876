"""A durable job: a file of prompts in, a file of results out. Killed at any moment, it goes on where it was."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

QUESTIONS = ["What is 12 + 7?", "Reverse this list: lamp, fox, river", "What is the capital of France?"]

with tempfile.TemporaryDirectory() as folder:
    source, job = Path(folder) / "rows.jsonl", Path(folder) / "job"
    rows = [
        {"custom_id": f"q{i}", "prompt": f"<｜User｜>{text}<｜Assistant｜></think>", "asked": text}
        for i, text in enumerate(QUESTIONS)
    ]
    source.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    command = [sys.executable, "-m", "deepinfer", "batch"]
    subprocess.run([*command, "run", str(source), "-o", str(job), "--max-tokens", "24"], check=True)
    subprocess.run([*command, "status", str(job)], check=True)
    for line in (job / "results.jsonl").read_text(encoding="utf-8").splitlines():
        result = json.loads(line)
        print(f"{result['custom_id']} {result['asked']!r}: {result['completions'][0]['text']!r}")
