"""``python -m deepinfer``: the command line."""

from __future__ import annotations

from deepinfer.cli.main import app

if __name__ == "__main__":
    app(prog_name="deepinfer")
