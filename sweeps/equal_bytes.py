"""Fed2A's partial upload beside other ways to send less, on GTSRB at scale=cpu, with as many bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sweeps.plan import PlannedRun, Sweep, cells, merged

SETTING = "R=300;scale=cpu;bytes={}"
FEDAVG = "algo=fedavg upload="
# of what everything in every round would be, 300 times 80,795 numbers, by PLU's D; what no key can reach is the nearest
AT = {
    "82 %": (8, {"topk": "topk upload.fraction=0.7845"}),
    "26 %": (2, {"topk": "topk upload.fraction=0.232", "quantise(8)": "quantise upload.bits=8"}),
    "17 %": (
        1,
        {
            "topk": "topk upload.fraction=0.1399",
            "quantise(5)": "quantise upload.bits=5",
            "topk+quantise(8)": "topk+quantise upload.fraction=0.5597 upload.bits=8",
        },
    ),
}


def runs(plu: Mapping[int, str]) -> tuple[PlannedRun, ...]:
    """FedAvg's server throughout; `plu` has the words of Fed2A's partial upload by D."""
    found = cells("fed2a", ("gtsrb",), {SETTING.format("100 %"): ""}, {"fedavg": "algo=fedavg"})
    for share, (deep, others) in AT.items():
        methods = {f"plu(300,10,{deep})": plu[deep]}
        methods |= {f"fedavg, {name}": f"{FEDAVG}{words}" for name, words in others.items()}
        methods["fedavg, topk without feedback"] = f"{methods['fedavg, topk']} upload.error_feedback=false"
        found += cells("fed2a", ("gtsrb",), {SETTING.format(share): ""}, methods)
    return tuple(replace(run, overrides=merged(run.overrides, "scale=cpu")) for run in found)


def against_plu(plu: Mapping[int, str]) -> Sweep:
    return Sweep(
        name="fed2a/uploads",
        source="Ours: Sec. 3.3.1's partial upload (layers by rounds) against the largest numbers and fewer bits, at "
        "the bytes of PLU(300, 10, 8), PLU(300, 10, 2) and PLU(300, 10, 1); docs/uploads.md",
        runs=runs(plu),
    )
