"""The tensors of a loaded model by name, for native code."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, Final

import torch

_PACKAGE: Final = __name__.rpartition(".")[0]


def named_tensors(component: Any, prefix: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """Every public tensor of a component and of what it is made of.

    Names are the attributes' and the places in lists, joined by points: ``layers.3.attention.projections.wq_a.codes``.

    Args:
        component: an object of this package, or what such an object holds: tensors, values made of tensors
            (`QuantizedWeight`), lists of components. Anything else is no tensor and is passed over.
        prefix: name of the component itself, with a point behind it; empty for the whole model.
    """
    if isinstance(component, torch.Tensor):
        yield prefix.removesuffix("."), component
        return
    for name, value in _parts(component):
        if not name.startswith("_"):
            yield from named_tensors(value, f"{prefix}{name}.")


def _parts(component: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(component, list | tuple):
        yield from ((str(place), item) for place, item in enumerate(component))
    elif is_dataclass(component):
        yield from ((field.name, getattr(component, field.name)) for field in fields(component))
    elif type(component).__module__.startswith(_PACKAGE):
        yield from vars(component).items()
