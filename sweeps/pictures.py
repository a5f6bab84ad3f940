"""Optuna's plots of a study, as HTML to look into and PNG to show."""

from __future__ import annotations

import math
import os
import warnings
from pathlib import Path
from typing import Any

import optuna
from optuna.trial import TrialState

from bench.output.pictures import pyplot
from bench.record import make_folder
from sweeps.queue import counted


def draw(study: optuna.Study, folder: Path, prefix: str = "") -> list[Path]:
    """history and importance, each twice; fewer if there are too few finished trials to say anything."""
    plain = _plain(study)
    if len(plain.trials) < 2:
        return []
    make_folder(folder)
    os.environ.setdefault("MPLCONFIGDIR", str(folder.parent.absolute() / ".matplotlib"))  # not in the home
    plt = pyplot()
    from optuna.visualization import matplotlib as still

    options: dict[str, Any] = {"target_name": study.user_attrs.get("goal", "best")}
    plots = {"history": ("plot_optimization_history", options)}
    if varying := _varying(plain):
        plots["importance"] = ("plot_param_importances", options | {"params": varying})
    written = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, (function, given) in plots.items():
            page, picture = folder / f"{prefix}{name}.html", folder / f"{prefix}{name}.png"
            figure = getattr(optuna.visualization, function)(plain, **given)
            figure.write_html(page, include_plotlyjs="directory")
            axes = getattr(still, function)(plain, **given)
            axes.figure.set_size_inches(9, 5)
            axes.figure.savefig(picture, dpi=120, bbox_inches="tight")
            plt.close(axes.figure)
            written += [page, picture]
    return written


def _plain(study: optuna.Study) -> optuna.Study:
    """A copy in memory of the trials that have a number: never reached, and diverged, cannot be drawn."""
    copy = optuna.create_study(direction=study.direction, study_name=study.study_name)
    done = [trial for trial in counted(study) if trial.state == TrialState.COMPLETE]
    copy.add_trials([t for t in done if t.value is not None and math.isfinite(t.value)])
    return copy


def _varying(study: optuna.Study) -> list[str]:
    """What all trials set, to more than one value."""
    common = set.intersection(*(set(trial.params) for trial in study.trials))
    return sorted(key for key in common if len({t.params[key] for t in study.trials}) > 1)
