"""The progress bar: standard error only, exact totals, silent when off."""

import pytest

from deepinfer.engine.progress import Progress


def run(use_tqdm: object, total: int) -> None:
    with Progress(use_tqdm, total, "Work") as progress:
        for _ in range(total):
            progress.advance()


def test_case_43_two_clean_bars_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        run(True, 4)
        captured = capsys.readouterr()
        assert captured.out == ""
        lines = [line for line in captured.err.replace("\n", "\r").split("\r") if line]
        assert "100%" in lines[-1] and "4/4" in lines[-1]
        assert len(lines) <= 2  # not a terminal: one line per interval


def test_silent_when_off_or_empty(capsys: pytest.CaptureFixture[str]) -> None:
    run(False, 4)
    run(True, 0)
    assert capsys.readouterr() == ("", "")


def test_own_bar() -> None:
    class Bar:
        def __init__(self, **options: object) -> None:
            self.options, self.count, self.closed = options, 0, False
            bars.append(self)

        def update(self, n: int = 1) -> None:
            self.count += n

        def close(self) -> None:
            self.closed = True

    bars: list[Bar] = []
    run(Bar, 3)
    assert bars[0].options["total"] == 3 and bars[0].count == 3 and bars[0].closed
