"""optuna-dashboard on a sweep's study."""

from __future__ import annotations

from bench.errors import UserError
from sweeps.queue import TrialQueue

HOST = "127.0.0.1"  # a study can be changed through it: not for the network


def serve(queue: TrialQueue, port: int) -> int:
    """Until Ctrl-C."""
    try:
        from optuna_dashboard import run_server
    except ImportError:
        raise UserError("The dashboard is not installed: pip install optuna-dashboard.") from None
    for study in queue.studies[:10]:
        print(f"http://{HOST}:{port}/dashboard/studies/{queue.storage.study_id(study)}", flush=True)
    print("Ctrl-C ends it.", flush=True)
    try:
        run_server(queue.storage.optuna, host=HOST, port=port)
    except OSError as error:
        raise UserError(f"Port {port} cannot be used ({error.strerror}): choose another with --port.") from None
    return 0
