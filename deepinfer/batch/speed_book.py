"""How fast jobs ran on this machine before, so that a plan can say how long another one takes."""

from __future__ import annotations

import json
import socket
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Final

from deepinfer.batch.atomic_file import write_atomically
from deepinfer.batch.job_manifest import JobManifest
from deepinfer.batch.job_speed import JobSpeed
from deepinfer.batch.session_totals import SessionTotals
from deepinfer.config.strict_json import read_json_object
from deepinfer.errors import JobError

DEFAULT_SPEEDS: Final = Path("~/.cache/deepinfer/job_speeds.json")
_LEAST_SECONDS: Final = 1.0


class SpeedBook:
    """A file of speeds by model, backend, numerics and host.

    It is a help and no more: one that cannot be read is as good as empty, one that cannot be written stays as it is.
    """

    def __init__(self, path: Path | None = None) -> None:
        """`path` None: ``~/.cache/deepinfer/job_speeds.json``."""
        self._path = (path or DEFAULT_SPEEDS).expanduser()

    def find(self, manifest: JobManifest) -> JobSpeed | None:
        """Of a job like this one on this machine; None when none ran here."""
        try:
            return JobSpeed(**read_json_object(self._path, JobError)[_key(manifest)])
        except (JobError, KeyError, TypeError):
            return None

    def note(self, manifest: JobManifest, totals: SessionTotals) -> None:
        """Keep the speed of a run that took long enough to tell."""
        speed = _speed(totals)
        if speed is None:
            return
        try:
            known = read_json_object(self._path, JobError)
        except JobError:
            known = {}
        content = json.dumps({**known, _key(manifest): asdict(speed)}, indent=1).encode("utf-8")
        with suppress(OSError, JobError):  # a read-only home
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self._path, content)


def _speed(totals: SessionTotals) -> JobSpeed | None:
    prefill, decode = totals.prefill_seconds, totals.decode_seconds
    if prefill + decode < _LEAST_SECONDS or min(prefill, decode) <= 0 or not totals.num_allowed_tokens:
        return None
    return JobSpeed(
        totals.num_prompt_tokens / prefill,
        totals.num_generated_tokens / decode,
        totals.num_generated_tokens / totals.num_allowed_tokens,
    )


def _key(manifest: JobManifest) -> str:
    model = manifest.model.get("config.json", "")[:12]
    engine = manifest.engine
    return f"{manifest.model_name} {model} {engine['backend']} {engine['numerics']} {socket.gethostname()}"
