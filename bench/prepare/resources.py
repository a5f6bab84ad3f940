"""What the machine still has of memory and disk, and what a process has taken, as Linux tells it."""

from __future__ import annotations

import math
import resource
import shutil
from pathlib import Path

import torch


def available(device: torch.device) -> float:
    """Bytes that this process can still take; infinity where the system does not say."""
    if device.type == "cuda":
        return float(torch.cuda.mem_get_info(device)[0])
    limits = [_line(Path("/proc/meminfo"), "MemAvailable:") * 1024]
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit != resource.RLIM_INFINITY:
        limits.append(limit - virtual_memory())
    group = Path("/sys/fs/cgroup")  # of a container; its page cache can be given up
    limits.append(
        _line(group / "memory.max")
        - _line(group / "memory.current", default=0.0)
        + _line(group / "memory.stat", "inactive_file", 0.0)
    )
    return max(0.0, min(limits))


def free_disk(out: Path) -> float:
    place = out.absolute()
    while not place.exists():
        place = place.parent
    usage = shutil.disk_usage(place)
    return float(usage.free) if usage.total else math.inf  # /proc and its like have no size


def virtual_memory() -> float:
    """Bytes of addresses that this process has, which is what ulimit -v limits."""
    return 1024 * _line(Path("/proc/self/status"), "VmSize:", 0.0)


def peak_memory(process: int | str = "self") -> int:
    """Bytes that a process has held at most. Linux knows it exactly; getrusage, of this process only, is not below
    that of the one that started it."""
    known = _line(Path(f"/proc/{process}/status"), "VmHWM:", 0.0)
    return 1024 * (int(known) or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def _line(path: Path, name: str = "", default: float = math.inf) -> float:
    """The number that follows a name in one of the system's files, or the only one in it."""
    try:
        for line in path.read_text(encoding="ascii").splitlines():
            if line.startswith(name):
                return float(line.removeprefix(name).split()[0])
    except (OSError, ValueError, IndexError):
        pass
    return default
