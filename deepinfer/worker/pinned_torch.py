"""Sets torch settings of the calling program aside while the engine computes: they must not change results."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import ContextDecorator, ExitStack
from functools import partial
from types import TracebackType
from typing import Any, Final

import torch

from deepinfer.worker.cpu_threads import threads_here

_EXACT: Final = ("none", "ieee")  # words of torch for "float32 products in float32"


class pinned_torch(ContextDecorator):
    """Inside, torch computes as this library was written for; afterwards the caller's settings are back.

    Autocast and inference mode are off, the default dtype is float32, the default device the CPU, float32 products are
    float32, and the choice of algorithms is torch's default one. Default dtype, precision and algorithms are settings
    of the whole process: other threads see them changed while a step runs. Every step goes through here, so that what
    is already as it should be costs no more than a look.

    Args:
        num_threads: CPU threads of torch's operations inside; None: as they are.
    """

    def __init__(self, num_threads: int | None = None) -> None:
        self._num_threads = num_threads
        self._stack: ExitStack | None = None
        self._is_counted = self._had_grad = False

    def _recreate_cm(self) -> pinned_torch:
        return pinned_torch(self._num_threads)  # a decorated function may run in several threads at once

    def __enter__(self) -> None:
        self._had_grad = torch.is_grad_enabled()
        try:
            _PROCESS.begin()
            self._is_counted = True
            self._set_aside()
        except BaseException:
            self.__exit__(None, None, None)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._stack is not None:
            self._stack.close()
        if self._had_grad:
            torch.set_grad_enabled(True)
        if self._is_counted:
            _PROCESS.end()

    def _set_aside(self) -> None:
        """The settings of this thread."""
        for device_type in ("cpu", "cuda"):
            if torch.is_autocast_enabled(device_type):
                self._undo().enter_context(torch.autocast(device_type, enabled=False))
        if torch.is_inference_mode_enabled():
            self._undo().enter_context(torch.inference_mode(mode=False))
        torch.set_grad_enabled(False)
        if torch.get_default_device().type != "cpu":
            self._undo().enter_context(torch.device("cpu"))
        before = torch.get_num_threads()
        inside = before if self._num_threads is None else threads_here(self._num_threads)
        if inside != before:
            self._undo().callback(torch.set_num_threads, before)
            torch.set_num_threads(inside)

    def _undo(self) -> ExitStack:
        if self._stack is None:
            self._stack = ExitStack()
        return self._stack


class _ProcessSettings:
    """Settings that torch has once per process: set aside by the first step that begins, back with the last that ends.

    Engines may step in several threads at once; each on its own would take another's settings for the caller's.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._num_users = 0
        self._undo: list[Callable[[], Any]] = []

    def begin(self) -> None:
        """A step begins."""
        with self._lock:
            self._num_users += 1
            if self._num_users == 1:
                self._set_aside()

    def end(self) -> None:
        """A step has ended."""
        with self._lock:
            self._num_users -= 1
            while self._num_users == 0 and self._undo:
                self._undo.pop()()

    def forget_other_threads(self) -> None:
        """In a forked child: the steps of other threads are not there, and will not end."""
        self._lock = threading.Lock()
        self._num_users = 1
        self.end()

    def _set_aside(self) -> None:
        if torch.get_default_dtype() is not torch.float32:
            self._undo.append(partial(torch.set_default_dtype, torch.get_default_dtype()))
            torch.set_default_dtype(torch.float32)
        if torch.are_deterministic_algorithms_enabled():
            warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
            self._undo.append(partial(torch.use_deterministic_algorithms, True, warn_only=warn_only))
            torch.use_deterministic_algorithms(False)
        for products in (getattr(torch.backends.mkldnn, "matmul"), torch.backends.cuda.matmul):  # noqa: B009 (no stub)
            if products.fp32_precision not in _EXACT:
                self._undo.append(partial(setattr, products, "fp32_precision", products.fp32_precision))
                products.fp32_precision = "ieee"


_PROCESS: Final = _ProcessSettings()  # torch's own settings are per process, so what sets them aside is too
os.register_at_fork(after_in_child=_PROCESS.forget_other_threads)
