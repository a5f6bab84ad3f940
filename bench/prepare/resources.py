"""What the machine still has of memory and disk, and what a process has taken, as Linux tells it."""

from __future__ import annotations

import math
import os
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


class Neighbours:
    """Other processes, from now on: what they take of the machine is missing from a run's seconds."""

    def __init__(self) -> None:
        self._began = _processor_ticks()

    def share(self) -> float | None:
        """Of the processor time that there was; None where the system does not say."""
        if self._began is None or (now := _processor_ticks()) is None:
            return None
        there, busy, ours = (after - before for after, before in zip(now, self._began, strict=True))
        return min(1.0, max(0.0, (busy - ours) / there)) if there > 0 else None


def _processor_ticks() -> tuple[int, int, int] | None:
    """Of all cores together: all there were, those not idle (stolen ones too), those of this process and what it has
    started."""
    try:
        with Path("/proc/stat").open(encoding="ascii") as file:
            user, nice, system, idle, waiting, *more = map(int, file.readline().split()[1:9])
    except (OSError, ValueError):
        return None
    busy = user + nice + system + sum(more)
    return busy + idle + waiting, busy, _family_ticks(os.getpid())


def _family_ticks(oldest: int) -> int:
    """Of a process, its descendants that live, and those that ended and were waited for."""
    parents, ticks = dict[int, int](), dict[int, int]()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        number = int(stat.parent.name)
        parents[number], ticks[number] = int(fields[1]), sum(map(int, fields[11:15]))

    def is_family(number: int) -> bool:
        while number != oldest and number in parents:
            number = parents[number]
        return number == oldest

    return sum(count for number, count in ticks.items() if is_family(number))


def _line(path: Path, name: str = "", default: float = math.inf) -> float:
    """The number that follows a name in one of the system's files, or the only one in it."""
    try:
        for line in path.read_text(encoding="ascii").splitlines():
            if line.startswith(name):
                return float(line.removeprefix(name).split()[0])
    except (OSError, ValueError, IndexError):
        pass
    return default
