"""Finds calls that wait for the GPU where none may: while a step is being handed over to it."""

from __future__ import annotations

import threading
import traceback
import warnings
from contextlib import ContextDecorator
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol

import torch

from deepinfer.errors import DeviceSyncError

_TORCH_DIRECTORY: Final = str(Path(torch.__file__).parent)


class SyncMode(Protocol):
    """Torch's switch: what an operation does that waits for the GPU. One for the whole process."""

    def get(self) -> str:
        """ "default" (it waits), "warn" or "error"."""
        ...

    def set(self, mode: str) -> None: ...


class SyncGuard:
    """Scopes of several threads over one switch.

    Each thread has a stack of intents, and the switch follows the topmost ones: without any scope it stands where it
    stood before the first was opened; "default" as long as any thread's top allows; else "error". So nobody inside an
    allowing scope is ever stopped, and a wait goes unnoticed while another thread is inside one.

    The switch is the whole process's: meanwhile a thread without any scope, the caller's own perhaps, may not wait
    either. So the guard is a tool for tests and for whoever changes a launch phase, and off until it is enabled.

    Only operations that torch counts as synchronizing are found. Waiting for an event is none: deliberate waits pass.

    Attributes:
        enabled: while False, `forbid` does nothing.
    """

    def __init__(self, mode: SyncMode) -> None:
        self.enabled = False
        self._mode = mode
        self._lock = threading.Lock()
        self._stacks: dict[int, list[bool]] = {}  # by thread; whether a scope allows
        self._baseline = "default"

    def forbid(self) -> _Scope:
        """Context manager or decorator: inside, what would wait raises DeviceSyncError with the place of the call."""
        return _Scope(self, allows=False)

    def allow(self) -> _Scope:
        """Context manager or decorator: inside, waiting is right."""
        return _Scope(self, allows=True)

    def enter(self, allows: bool) -> None:
        """Open a scope of this thread."""
        with self._lock:
            if not self._stacks:
                self._baseline = self._mode.get()
            self._stacks.setdefault(threading.get_ident(), []).append(allows)
            self._follow()

    def exit(self) -> None:
        """Close the newest scope of this thread."""
        with self._lock:
            stack = self._stacks[threading.get_ident()]
            stack.pop()
            if not stack:
                del self._stacks[threading.get_ident()]
            self._follow()

    def _follow(self) -> None:
        tops = [stack[-1] for stack in self._stacks.values()]
        mode = self._baseline if not tops else "default" if any(tops) else "error"
        self._mode.set(mode)


class _Scope(ContextDecorator):
    """One scope; a decorated function opens one of its own for every call, in any number of threads."""

    def __init__(self, guard: SyncGuard, allows: bool) -> None:
        self._guard = guard
        self._allows = allows
        self._is_open = False

    def _recreate_cm(self) -> _Scope:
        return _Scope(self._guard, self._allows)

    def __enter__(self) -> None:
        self._is_open = self._allows or self._guard.enabled
        if self._is_open:
            self._guard.enter(self._allows)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._is_open:
            return
        self._guard.exit()
        if not self._allows and type(error) is RuntimeError and "synchronizing" in str(error):  # torch's word
            raise DeviceSyncError(
                f"{_place(trace)} waits for the GPU while a step is handed over to it: move it behind the launch, or "
                "wrap it in allow_device_sync() if it has to wait"
            ) from error


def _place(trace: TracebackType | None) -> str:
    """File, line and text of the innermost call outside torch."""
    frames = traceback.extract_tb(trace)
    own = [frame for frame in frames if not frame.filename.startswith(_TORCH_DIRECTORY)]
    frame = (own or frames)[-1]
    return f"{frame.filename}:{frame.lineno} ({frame.line})"


class _TorchMode:
    """The switch itself; without a GPU in use there is none to turn."""

    _NAMES: Final = ("default", "warn", "error")

    def __init__(self) -> None:
        self._was_turned = False

    def get(self) -> str:
        return self._NAMES[torch.cuda.get_sync_debug_mode()] if torch.cuda.is_initialized() else "default"

    def set(self, mode: str) -> None:
        if not torch.cuda.is_initialized():
            return
        if self._was_turned:
            torch.cuda.set_sync_debug_mode(mode)
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch says once that the switch does not find everything
            torch.cuda.set_sync_debug_mode(mode)
        self._was_turned = True


SYNC_GUARD: Final = SyncGuard(_TorchMode())  # torch's switch is one per process, so what turns it is too
forbid_device_sync: Final = SYNC_GUARD.forbid
allow_device_sync: Final = SYNC_GUARD.allow
