"""What every use of W&B here shares: whether there is a key, its silence, and the axis of its curves."""

from __future__ import annotations

import netrc
import os
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

INIT_SECONDS, FINISH_SECONDS = 10.0, 60.0  # what a server that does not answer may cost at the start, at the end


def has_key() -> bool:
    """Whether wandb would find a key; which one is not looked at."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    host = urlparse(os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")).hostname
    try:
        return netrc.netrc(os.environ.get("NETRC") or Path.home() / ".netrc").authenticators(host or "") is not None
    except (OSError, netrc.NetrcParseError):
        return False


def begin(**given: Any) -> Any:
    """A W&B run that prints nothing, sends nothing of the machine or the code, and draws everything by round."""
    import wandb

    wandb.util.pd_available = False  # frames are known by their name, too; pandas would be imported to compare numbers
    settings = wandb.Settings(
        silent=True,
        show_warnings=False,
        console="off",
        save_code=False,
        disable_git=True,
        disable_job_creation=True,
        x_save_requirements=False,
        x_disable_stats=True,
        x_disable_meta=True,
        x_disable_machine_info=True,
        init_timeout=INIT_SECONDS,
        finish_timeout=FINISH_SECONDS,  # what is not sent by then stays in the folder, for `wandb sync`
    )
    run = wandb.init(**given, reinit="finish_previous", settings=settings)
    run.define_metric("round")
    run.define_metric("*", step_metric="round")
    return run


def give_up() -> None:
    """Forgets wandb's helper process, which may be dead, so that the next run gets a new one."""
    import wandb

    with suppress(Exception):
        wandb.teardown(exit_code=1)
