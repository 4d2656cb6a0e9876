"""Why a worker came to its end."""

from __future__ import annotations

from enum import Enum


class WorkerEnd(Enum):
    """Why a worker came to its end."""

    NOTHING_LEFT = "nothing left"
    STOPPED = "stopped"
    BUDGET = "budget"
