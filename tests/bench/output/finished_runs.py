"""Runs as bench.py leaves them, with invented numbers."""

from pathlib import Path

from made_result import made_result

from bench.record import Run


def make(algo="fedavg", seed=0, accuracy=0.9, reached=5, rounds=4, status="finished", peer_bytes=0, **changes):
    fields = changes.pop("algo_fields", {})
    config = {
        **{"created": changes.pop("created", "2026-11-16T10:00:00+00:00"), "group": None, "command": "x"},
        "algo": {"name": algo, "_target_": f"algorithms.{algo}", **fields},
        **{"dataset": {"name": "digits"}, "partition": {"name": "dirichlet", "alpha": 0.3}, "model": {"name": "mlp"}},
        **{"protocol": "none", "scale": "paper", "clients": 20, "cohort": 10, "rounds": rounds, "lr": 0.1},
        **{"seed": seed, "out": f"runs{seed}", **changes},
    }
    rows = [
        {
            **{"round": t, "virtual_seconds": 2.0 * t, "test_accuracy": accuracy * t / rounds},
            **{"bytes_up": 10 * t, "bytes_down": 10 * t, "bytes_peer": 0},
        }
        for t in range(1, rounds + 1)
    ]
    result = made_result(
        final=accuracy,
        best=accuracy + 0.01,
        target=0.85,
        rounds_to_target=reached,
        seconds_per_round=0.25,
        virtual_seconds=8.0,
        upload_bytes=3 * 2**20,
        download_bytes=2**20,
        peer_bytes=peer_bytes,
    )
    identity = Path(f"{algo}-{seed}-{accuracy}-{config['created']}-{sorted(fields.items())}")
    return Run(identity, config, rows, result if status == "finished" else None, status)
