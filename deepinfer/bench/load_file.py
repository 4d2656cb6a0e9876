"""Expert loads on disk: a NumPy archive with one array, ``loads``."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import numpy.typing as npt

from deepinfer.config.strict_json import shown_path
from deepinfer.errors import ConfigError


def write_loads(path: Path, loads: npt.NDArray[np.int64]) -> None:
    """int64 [steps, layers, experts], compressed, in the smallest integers that hold it."""
    with path.open("wb") as file:
        np.savez_compressed(file, loads=loads.astype(np.min_scalar_type(int(loads.max(initial=0)))))


def read_loads(path: Path) -> npt.NDArray[np.int64]:
    """What `write_loads` wrote: int64 [steps, layers, experts], none of the sizes 0. ConfigError for anything else."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            loads = archive["loads"]
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise ConfigError(
            f"{shown_path(path)}: no expert loads ({error}); expected an .npz file with 'loads'"
        ) from error
    if loads.ndim != 3 or not np.issubdtype(loads.dtype, np.integer) or 0 in loads.shape or loads.min() < 0:
        expectation = "tokens of each expert, whole numbers [steps, layers, experts]"
        raise ConfigError(f"{shown_path(path)}: loads is {loads.dtype} {list(loads.shape)}; expected {expectation}")
    return loads.astype(np.int64)
