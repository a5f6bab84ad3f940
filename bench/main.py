"""The command line: every run is composed and checked first, then they run. What is heavy is imported by the first."""

from __future__ import annotations

import os
import shlex
import sys
import traceback
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

import hydra
from omegaconf import OmegaConf

from bench import multirun
from bench.errors import INSTALLED, Parser, UserError, guarded, misused, of_machine, program, refuse
from bench.multirun import Multirun
from bench.prepare import compose, help, own_files, plugins, registry
from bench.prepare.compose import ComposedRun
from bench.prepare.resolve import describe
from bench.record import read_all
from datamodules.base import DataError

GROUP = "FEDBENCH_GROUP"  # what the runs of several commands have in common, from the environment


def main(argv: Sequence[str] | None = None) -> NoReturn:
    sys.exit(command(sys.argv[1:] if argv is None else list(argv)))


def command(argv: list[str]) -> int:
    """Runs one command line and returns its exit code."""
    return guarded(lambda: _command(argv), DataError)


def _command(argv: list[str]) -> int:
    args = parse(argv)
    if args.shell_completion:
        return _complete(args.words)
    with registry.borrowed():
        if args.help:
            own_files.arguments(args.words)
            print(help.text())
            return 0
        runs = compose.plan(args.words, args.multirun)
        if args.cfg:
            print(OmegaConf.to_yaml(OmegaConf.create(dict(runs[0].given))), end="")
            return 0
        typed = f"{program()} {shlex.join(argv)}".strip()
        return _multirun(runs, typed) if args.multirun else job(runs[0], typed, os.environ.get(GROUP))


def parse(argv: Sequence[str]) -> Namespace:
    """The options of the command, and its words."""
    parser = Parser(program(), add_help=False)
    parser.add_argument("words", nargs="*")
    parser.add_argument("-h", "--help", action="store_true")
    parser.add_argument("-m", "--multirun", action="store_true")
    parser.add_argument("-c", "--cfg", choices=["job"])
    parser.add_argument("-sc", "--shell-completion", action="store_true")
    args, unknown = parser.parse_known_intermixed_args(argv)
    if unknown:
        raise misused(
            program(),
            f"unrecognized arguments: {' '.join(unknown)} (keys have no dashes: algo=scaffold), and options other than "
            f"-m, --cfg job, --shell-completion and --help are not supported",
        )
    if args.multirun and (args.cfg or args.shell_completion):
        raise UserError("-m runs several jobs: it cannot be combined with --cfg or --shell-completion.")
    return args


def _complete(words: Sequence[str]) -> int:
    """What a shell needs to complete keys and values, which Hydra knows."""
    verb, _, shell = words[0].partition("=") if words else ("", "", "")
    if verb not in ("install", "uninstall", "query") or shell not in ("bash", "zsh", "fish"):
        raise UserError("--shell-completion needs install=SHELL or uninstall=SHELL, with bash, zsh or fish for SHELL.")
    compose.store()
    before, sys.argv = sys.argv, [program().split()[-1], "--shell-completion", words[0]]
    try:
        hydra.main(None, "bench", compose.VERSION_BASE)(lambda _: None)()
    finally:
        sys.argv = before
    return 0


def _multirun(runs: Sequence[ComposedRun], typed: str) -> int:
    """One run after the other, whatever becomes of the one before; what a stopped start of it has done is kept."""
    code, runs = 0, compose.of_many(runs)
    if sentence := _unpaired(runs):
        print(sentence, flush=True)
    with multirun.opened(runs, typed, os.environ.get(GROUP)) as opened:
        if opened.earlier:
            print(f"Going on with {opened.group}: {opened.finished} of {len(runs)} runs are finished.", flush=True)
        for number, composed in enumerate(runs, start=1):
            print(f"\n--- job {number} of {len(runs)}: {' '.join(composed.words)}", flush=True)
            earlier = opened.earlier.get(number)
            if earlier is not None and earlier.result is not None:
                print(f"finished before: {earlier.folder}", flush=True)
                continue
            try:
                code = max(code, _one_of_many(composed, typed, opened, number))
            except KeyboardInterrupt:
                print(f"Stopped in job {number} of {len(runs)}. To go on with all of them: {typed}", flush=True)
                raise
    summary(Path(runs[0].config["out"]), opened.group)
    return code


def _unpaired(runs: Sequence[ComposedRun]) -> str | None:
    """Runs on one data set under different protocols differ in more than their words: said before they are run."""
    for dataset in dict.fromkeys(run.config["dataset"]["name"] for run in runs):
        methods: dict[str, list[str]] = {}
        for run in runs:
            if run.config["dataset"]["name"] == dataset and "protocol" not in run.keys:
                methods.setdefault(run.config["protocol"], []).append(run.config["algo"]["name"])
        if len(methods) > 1:
            which = "; ".join(f"{name}: {', '.join(dict.fromkeys(algos))}" for name, algos in methods.items())
            return (
                f"note: these runs on {dataset} have different protocols ({which}), so that they differ in more than "
                f"the words typed; protocol={next(iter(methods))} or another for all makes them comparable."
            )
    return None


def _one_of_many(composed: ComposedRun, typed: str, opened: Multirun, number: int) -> int:
    earlier = opened.earlier.get(number)
    if earlier is not None:
        try:
            composed = compose.plan([f"resume={earlier.folder}"], multirun=False)[0]
        except UserError as error:
            return refuse(error)
    return job(composed, typed, opened.group, lambda folder: opened.begun(number, folder))


def job(
    composed: ComposedRun, typed: str, group: str | None, on_record: Callable[[Path], None] = lambda folder: None
) -> int:
    """One run, and its exit code; `typed` and `group` are for its record."""
    try:
        print("\n".join(describe(composed.config)), flush=True)
        plugins.require(composed.config["dataset"])  # before what is heavy is imported
        from bench.run import run

        if composed.resume is not None:
            run(composed.config, resume=composed.resume, on_record=on_record)
        else:
            config = composed.config | {"group": group, "command": typed}
            run(config, smaller=lambda: composed.smaller, on_record=on_record)
    except BrokenPipeError:
        raise
    except Exception as error:
        known = error if isinstance(error, DataError) else of_machine(error)
        if known is not None:
            return refuse(known)
        traceback.print_exc()
        return 1
    return 0


def summary(out: Path, group: str) -> None:
    """The table and the plot at the end of a multirun."""
    runs = [run for run in read_all(out, group) if run.result is not None]
    if not any(run.rows for run in runs):
        return
    os.environ.setdefault("MPLCONFIGDIR", str(out.absolute() / ".matplotlib"))  # its font cache would go to the home
    from bench.output.curves import learning_curves
    from bench.output.tables import leaderboard

    picture = out / f"curves-{group}.png"
    learning_curves(runs, picture)
    print(f"\n{leaderboard(runs)}\n\nLearning curves: {picture}\nRecords: {out}/<id>/")
    at_first = ". .venv/bin/activate, then " * (program() != INSTALLED)
    print(f"To go on: {at_first}{program()} --help, or {program()} algo=... dataset=...")


if __name__ == "__main__":
    main()
