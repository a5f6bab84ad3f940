"""When a job ends and what is lost on its way: known as soon as it is dispatched."""

from __future__ import annotations

from bench.simulation.clock import Event, Kind
from bench.simulation.devices import Devices
from bench.simulation.jobs import Job


def travel(job: Job, devices: Devices, timeout: float, retransmit: bool, message: int) -> list[Event]:
    """Fills in the job's times and what it sends, and returns its events. A lost upload is sent again after `timeout`,
    as often as needed; without `retransmit` the device gives up after one."""
    client, number = job.client, job.dispatch
    steps = job.epochs * job.steps_per_epoch
    job.finish = job.begins + devices.compute_seconds(client, number, job.version, steps)
    job.attempts = 1
    while retransmit and devices.lost(client, number, "upload", job.attempts - 1):
        job.attempts += 1
    job.lost = not retransmit and devices.lost(client, number, "upload", 0)
    sent = devices.upload_seconds(client, job.bytes_up)
    job.arrival = job.finish + (timeout if job.lost else timeout * (job.attempts - 1) + sent)
    reached = [to for to in job.recipients if not devices.lost(client, number, "mail", to)]
    return [
        Event(job.begins, Kind.START, client, job.id),
        Event(job.arrival, Kind.LOST if job.lost else Kind.UPLOAD, client, job.id),
        *(Event(job.finish + devices.peer_seconds(client, to, message), Kind.MAIL, to, job.id) for to in reached),
    ]


def round_trip(job: Job, devices: Devices) -> float:
    """What the device saw between sending and hearing back, waiting at the server apart."""
    return devices.upload_seconds(job.client, job.bytes_up) + devices.download_seconds(job.client, job.bytes_down)
