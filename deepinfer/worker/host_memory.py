"""How much memory this process may still use on the host: the kernel's estimate, capped by its control groups."""

from __future__ import annotations

import os
from pathlib import Path

_UNLIMITED = 1 << 60  # version 1 groups write a huge number for "no limit"


class HostMemoryProbe:
    """Reads /proc and /sys/fs/cgroup (version 1 and 2, nested groups).

    Args:
        root: directory that stands for "/" (tests give a fake one).
    """

    def __init__(self, root: str | Path = "/") -> None:
        self._root = Path(root)

    def free_bytes(self) -> int:
        """Usable bytes: available memory, or what is left of the tightest control group if that is less."""
        return max(0, min([self._meminfo("MemAvailable"), *(limit - used for limit, used in self._groups())]))

    def total_bytes(self) -> int:
        """Installed bytes, or the tightest control group's limit."""
        return min([self._meminfo("MemTotal"), *(limit for limit, _ in self._groups())])

    def _meminfo(self, key: str) -> int:
        try:
            lines = (self._root / "proc/meminfo").read_text().splitlines()
        except OSError:  # no Linux: all memory counts
            return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        values = dict(line.split(":", 1) for line in lines if ":" in line)
        return int(values[key].split()[0]) * 1024

    def _groups(self) -> list[tuple[int, int]]:
        """(limit, used) bytes of every limited group this process is in, outermost last."""
        found: list[tuple[int, int]] = []
        for base, path, names in self._group_paths():
            group = base / path.lstrip("/")
            for directory in (group, *group.parents):
                limit = self._number(directory / names[0])
                if limit is not None and limit < _UNLIMITED:
                    used = self._number(directory / names[1]) or 0
                    found.append((limit, max(0, used - self._reclaimable(directory))))
                if directory == base:
                    break
        return found

    def _group_paths(self) -> list[tuple[Path, str, tuple[str, str]]]:
        try:
            lines = (self._root / "proc/self/cgroup").read_text().splitlines()
        except OSError:
            lines = []
        top = self._root / "sys/fs/cgroup"
        # In a container the group's own directory is often mounted as the top one.
        found = [(top, "", ("memory.max", "memory.current"))]
        found.append((top / "memory", "", ("memory.limit_in_bytes", "memory.usage_in_bytes")))
        for line in lines:
            number, controllers, path = line.split(":", 2)
            if number == "0":
                found.append((top, path, ("memory.max", "memory.current")))
            elif "memory" in controllers.split(","):
                found.append((top / "memory", path, ("memory.limit_in_bytes", "memory.usage_in_bytes")))
        return found

    def _reclaimable(self, directory: Path) -> int:
        """File pages that the group would give back first; they count as used but are not lost."""
        try:
            lines = (directory / "memory.stat").read_text().splitlines()
        except OSError:
            return 0
        values = dict(line.split(" ", 1) for line in lines if " " in line)
        return int(values.get("inactive_file", values.get("total_inactive_file", "0")))

    def _number(self, file: Path) -> int | None:
        try:
            text = file.read_text().strip()
        except OSError:
            return None
        return int(text) if text.isdigit() else None


def resident_bytes() -> int:
    """Memory that this process holds now; 0 where the system does not say (no Linux)."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
