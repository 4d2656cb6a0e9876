"""A package of kernels by others that may be installed, and why it is not used."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class OptionalKernel:
    """Described in `vendor/README.md`; nothing needs it.

    Attributes:
        name: of the module.
        package: that has it; the package index also has empty ones named like the module.
        symbol: what the module must offer; packages without it are of no use.
        load: imports the module: the only place that does.
    """

    name: str
    package: str
    symbol: str
    load: Callable[[], object]

    def why_unused(self) -> str:
        """Why no op uses it, in the order in which things may fail. Imports the module if it is installed."""
        if importlib.util.find_spec(self.name) is None:
            return f"not installed (pip install {self.package})"
        try:
            module = self.load()
        except Exception as error:  # a library may fail to load in any way
            first = (str(error).splitlines() or [""])[0]
            return f"fails to load with torch {torch.__version__}: {type(error).__name__}: {first}"
        if not hasattr(module, self.symbol):
            return f"installed without {self.symbol}, an old placeholder: pip install {self.package} instead"
        return "loadable, not used: no measurement shows a gain yet"
