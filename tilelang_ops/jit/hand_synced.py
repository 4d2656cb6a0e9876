"""A mark of kernel factories that place every barrier themselves."""

from collections.abc import Callable
from typing import Any

import tilelang


def hand_synced(factory: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a factory whose kernels keep all accesses in bounds and order shared memory by themselves.

    The compiler then adds neither bounds checks, which cost registers and keep loads apart, nor barriers where it
    cannot see that buffers alternate.
    """
    keys = tilelang.PassConfigKey
    factory.pass_configs = {
        keys.TL_DISABLE_SAFE_MEMORY_ACCESS: True,
        keys.TL_DISABLE_THREAD_STORAGE_SYNC: True,
        keys.TL_DISABLE_WARP_SPECIALIZED: True,
    }
    return factory
