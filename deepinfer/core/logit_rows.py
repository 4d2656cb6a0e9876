"""The type of a step's logits, between the model and the sampler of one backend."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import torch

# float32 [n, vocab]: a tensor on the model's device, or an array of a native model, valid until its next call.
LogitRows: TypeAlias = torch.Tensor | np.ndarray
