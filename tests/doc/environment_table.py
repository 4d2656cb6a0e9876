"""The tables of doc/environment.md, from deepinfer/envs.py: ``python -m tests.doc.environment_table`` rewrites them."""

from pathlib import Path

from deepinfer.envs import VARIABLES, EnvUse, EnvVariable

FILE = Path(__file__).parents[2] / "doc" / "environment.md"
BEGIN, END = "<!-- table: begin -->\n", "<!-- table: end -->\n"
TITLES = {
    EnvUse.FIELD: "Defaults of engine options",
    EnvUse.SETTING: "Where and how loud",
    EnvUse.REFUSED: "Refused, because they would change results behind the program's back",
    EnvUse.CHECKED: "Must say what the model says",
    EnvUse.IGNORED: "Accepted without effect, with a warning",
}


def values(row: EnvVariable) -> str:
    """What the variable may hold, in the words of its own parse error."""
    try:
        row.parse("?")
    except ValueError as error:
        return str(error).removeprefix("expected ")
    return "any text"


def effect(row: EnvVariable) -> str:
    if row.use is EnvUse.FIELD:
        return f"default of `{row.target}`"
    if row.use is EnvUse.SETTING:
        return f"`{row.target}`"
    if row.use is EnvUse.REFUSED:
        return f"{row.target} (accepted when neutral: `{row.neutral!r}`)"
    if row.use is EnvUse.CHECKED:
        return f"equal to the model's `{row.target}`, else an error (no meaning for a model without it)"
    return row.target


def table() -> str:
    parts = []
    for use, title in TITLES.items():
        rows = sorted((row for row in VARIABLES if row.use is use), key=lambda row: row.name)
        lines = [f"| `{row.name}` | {values(row)} | {effect(row)} |" for row in rows]
        parts.append("\n".join([f"## {title}\n", "| variable | values | effect |", "|---|---|---|", *lines]))
    return "\n\n".join(parts) + "\n"


def rewritten(text: str) -> str:
    head, rest = text.split(BEGIN)
    return head + BEGIN + table() + END + rest.split(END)[1]


if __name__ == "__main__":
    FILE.write_text(rewritten(FILE.read_text(encoding="utf-8")), encoding="utf-8")
