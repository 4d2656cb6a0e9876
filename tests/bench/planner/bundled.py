"""The published config and the profile of an H200 that come along."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from pathlib import Path

from deepinfer.bench.planner.kernel_profile import KernelProfile
from deepinfer.config.model_config import DeepSeekV41Config

DATA = Path(str(files("deepinfer") / "data"))
CONFIG = DATA / "configs" / "deepseek-v41-flash.json"
PROFILE = DATA / "curves" / "h200-kernels.json"


@cache
def published() -> DeepSeekV41Config:
    return DeepSeekV41Config.from_path(CONFIG)


@cache
def h200() -> KernelProfile:
    return KernelProfile.read(PROFILE)
