"""How many CPU threads a forward pass uses."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Final

import torch

_MOST_BY_DEFAULT: Final = 4
_SMALLEST_WIDTH: Final = 1024  # hidden size from which one product is worth splitting
# A forked child has none of the parent's OpenMP threads and would wait for them for ever: it works with one thread.
_IS_FORKED: Final = threading.Event()


def _note_fork() -> None:
    _IS_FORKED.set()
    torch.set_num_threads(1)


os.register_at_fork(after_in_child=_note_fork)


def choose_num_threads(wanted: int | None, hidden_size: int) -> int:
    """Threads of an engine's forward passes; results do not depend on it.

    Args:
        wanted: the user's number; None: one for a small model, else the usable cores, at most 4 and at most the
            number that torch has been set to (``OMP_NUM_THREADS``, ``torch.set_num_threads``).
        hidden_size: of the model.

    A small model's products are over before other threads have woken up; and where another process has the second
    core, two threads that wait for each other at every product are ten times slower than one.
    """
    if wanted is not None:
        return wanted
    if hidden_size < _SMALLEST_WIDTH:
        return 1
    return max(1, min(usable_cores(), _MOST_BY_DEFAULT, torch.get_num_threads()))


def threads_here(num_threads: int) -> int:
    """`num_threads`, or 1 in a forked child."""
    return 1 if _IS_FORKED.is_set() else num_threads


def usable_cores(root: str | Path = "/") -> int:
    """Cores that this process may run on, capped by its control group's CPU time.

    Args:
        root: directory that stands for "/" (tests give a fake one).
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    top = Path(root) / "sys/fs/cgroup"
    quota = _quota(top / "cpu.max") or _quota(top / "cpu/cpu.cfs_quota_us", top / "cpu/cpu.cfs_period_us")
    return cores if quota is None else max(1, min(cores, quota))


def _quota(*files: Path) -> int | None:
    """Whole cores of a limit "quota period" in microseconds; None without a limit."""
    try:
        quota, period = " ".join(file.read_text() for file in files).split()
    except (OSError, ValueError):
        return None
    return max(1, int(quota) // int(period)) if quota.isdigit() and period.isdigit() and int(period) else None
