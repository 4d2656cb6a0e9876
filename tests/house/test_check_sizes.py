"""The house's own linter finds what it is for, and nothing in this repository."""

from pathlib import Path

from tests.house.check_sizes import function_problems, problems


def test_the_repository_keeps_its_rules() -> None:
    assert problems(Path(__file__).parents[2]) == []


def test_long_functions_and_many_parameters_are_found() -> None:
    body = "\n".join(["        x = 1"] * 40)
    text = f"class A:\n    def run(self, a, b, c, d, e, *, f):\n        '''Doc.'''\n{body}\n"
    long, many = function_problems("deepinfer/engine/a.py", text)
    assert "A.run: 41 lines, at most 40" in long and "A.run: 6 parameters, at most 5" in many
    assert function_problems("deepinfer/ops/cuda/a.py", text) == []
    constructor = "class A:\n    def __init__(self, a, b, c, d, e, f):\n        pass\n"
    assert function_problems("deepinfer/engine/a.py", constructor) == []
