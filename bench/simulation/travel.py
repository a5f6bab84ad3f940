"""When devices end and what is lost on its way: known as soon as they are dispatched."""

from __future__ import annotations

import operator
from collections.abc import Callable

from bench.simulation.clock import Event, Kind
from bench.simulation.devices import Devices
from bench.simulation.dispatch import Dispatch, Job


def travel(rows: Dispatch, devices: Devices, timeout: Callable[[int], float], retransmit: bool) -> None:
    """Fills in when the devices have trained and when what they send arrives. A lost upload is sent again after the
    device's `timeout`, as often as needed; without `retransmit` the device gives up after one."""
    rows.finish, sending = devices.times(rows)
    if not devices.population.loss:
        rows.arrival = list(map(operator.add, rows.finish, sending))
        return
    for k, (client, number) in enumerate(zip(rows.client, rows.number, strict=True)):
        rows.attempts[k] = 1
        while retransmit and devices.lost(client, number, "upload", rows.attempts[k] - 1):
            rows.attempts[k] += 1
        rows.lost[k] = not retransmit and devices.lost(client, number, "upload", 0)
        wait = timeout(client)
        rows.arrival[k] = rows.finish[k] + (wait if rows.lost[k] else wait * (rows.attempts[k] - 1) + sending[k])


def mail(job: Job, devices: Devices, message: int) -> list[Event]:
    """Every arrival of its gradient, which has so many bytes, at another device."""
    reached = [to for to in job.recipients if not devices.lost(job.client, job.number, "mail", to)]
    seconds = [devices.peer_seconds(job.client, to, message) for to in reached]
    return [Event(job.finish + time, Kind.MAIL, to, job.id) for to, time in zip(reached, seconds, strict=True)]


def round_trip(job: Job, devices: Devices) -> float:
    """What the device saw between sending and hearing back, waiting at the server apart."""
    return devices.upload_seconds(job.client, job.bytes_up) + devices.download_seconds(job.client, job.bytes_down)
