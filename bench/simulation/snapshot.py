"""The state of a loop as a checkpoint holds it: tensors, numbers, strings, dicts and lists only (weights_only)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from bench.simulation.clock import RoundTrip
from bench.simulation.flight import InFlight
from bench.simulation.jobs import Job

if TYPE_CHECKING:
    from bench.simulation.loop import FederatedLoop

COUNTERS = ("version", "round", "arrivals", "evaluations", "next_job", "dropped", "out_of_time")
PARTS = ("clock", "traffic", "memory", "cache")


def take(loop: FederatedLoop) -> dict[str, Any]:
    return {
        **{name: getattr(loop, name) for name in COUNTERS},
        "dispatches": dict(loop.dispatches),
        "server": dict(loop.server),
        **{name: getattr(loop, name).state_dict() for name in PARTS},
        "jobs": [job.state_dict(with_result=False) for job in loop.jobs.values()],
        "arrived": [job.state_dict(with_result=True) for job in loop.arrived],
        "mail": loop.mail.state_dict(loop.jobs, loop.gradient),
        "trips": {client: [trip.smoothed, trip.variation] for client, trip in loop.trips.items()},
        "sent": {version: dict(state) for version, state in loop.sent.items()},
    }


def restore(loop: FederatedLoop, state: dict[str, Any]) -> None:
    for name in COUNTERS:
        setattr(loop, name, state[name])
    loop.dispatches = Counter(state["dispatches"])
    loop.server, loop.sent = state["server"], state["sent"]
    loop.trips = {client: RoundTrip(*values) for client, values in state["trips"].items()}
    for name in PARTS:
        getattr(loop, name).load_state_dict(state[name])
    loop.arrived = [Job.from_state(job) for job in state["arrived"]]
    loop.filled = sum(job.count for job in loop.arrived)
    loop.jobs = InFlight()
    for job in state["jobs"]:
        loop.jobs.add(Job.from_state(job))
    for job in loop.arrived:  # their versions are needed until the aggregation
        loop.jobs.add(job)
        loop.jobs.end(job.id)
    in_use = {job["version"] for job in (*state["jobs"], *state["arrived"])}
    loop.sent = {version: sent for version, sent in state["sent"].items() if version in in_use}
    loop.mail.load_state_dict(state["mail"], loop.jobs)
