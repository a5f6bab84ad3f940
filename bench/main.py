"""The command line: check everything, then let Hydra run the jobs. What is heavy is imported once a job starts."""

from __future__ import annotations

import os
import secrets
import sys
import time
import traceback
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import hydra
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra._internal.utils import get_args_parser
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from bench.errors import UserError, guarded, hush, misused, of_machine, refuse
from bench.prepare import check, help, own_files, registry
from bench.prepare.config import GROUPS, SCHEMAS, Keys, in_words, open_twin
from bench.prepare.resolve import CONF, describe, names_of, resolve
from bench.record import make_folder, read, read_all
from datamodules.base import DataError

VERSION_BASE = "1.3"
GROUP = "FEDBENCH_GROUP"  # what the runs of one multirun have in common; in the environment for jobs started elsewhere
ANYWHERE = {"engine.workers", "engine.address"}  # where a run is computed does not change it, so a resume may


def main(argv: Sequence[str] | None = None) -> NoReturn:
    sys.exit(command(sys.argv[1:] if argv is None else list(argv)))


def command(argv: list[str]) -> int:
    """Runs one command line and returns its exit code."""
    return guarded(lambda: _command(argv), DataError)


def _command(argv: list[str]) -> int:
    store()
    with registry.borrowed():
        understood = own_files.arguments(argv)
        args = _parse(understood)
        if args.help:
            print(help.text())
            return 0
        asks_hydra = args.hydra_help or args.shell_completion
        return _launch(understood, argv, args, [] if asks_hydra else plan(args.overrides, args.multirun))


def store() -> None:
    """Registers with Hydra what conf/ does not hold as files."""
    for group in registry.BASES:
        registry.classes(group)
    config_store = ConfigStore.instance()
    config_store.store(name="keys", node=open_twin(Keys, **dict.fromkeys(GROUPS)))
    config_store.store(group="protocol", name="auto", node={"name": "auto"})
    for group in ("model", "devices"):
        config_store.store(group=group, name="auto", node=open_twin(SCHEMAS[group], name="auto"))


def plan(overrides: list[str], multirun: bool) -> list[dict[str, Any]]:
    """The config of every job that a command line means, all of them checked; nothing heavy is imported."""
    with hydra.initialize_config_dir(str(CONF), version_base=VERSION_BASE, job_name="bench"):
        parser = OverridesParser.create(GlobalHydra.instance().config_loader())
        read = [o for text in overrides for o in _read(parser, text)]
        _launcher([o for o in read if o.is_hydra_override()])
        parsed = [o for o in read if not o.is_hydra_override()]
        if multirun:
            if any(o.key_or_group == "out" and o.is_sweep_override() for o in parsed):
                raise UserError("out cannot have several values: the runs of one command go into one folder.")
            try:
                jobs = BasicSweeper.split_arguments(parsed, None)[0]
            except HydraException as error:
                raise UserError(_sentence(error)) from None
            if not jobs:
                raise UserError("Nothing to run: a glob() matches no name, or a range() is empty.")
        else:
            if sweep := next((o for o in parsed if o.is_sweep_override()), None):
                raise UserError(f"{sweep.input_line} means several runs: add -m, or quote a value that has a comma.")
            jobs = [[str(o.input_line) for o in parsed]]
        return [_compose([o for text in job for o in _read(parser, text)]) for job in jobs]


def _read(parser: OverridesParser, text: str) -> list[Override]:
    try:
        return parser.parse_overrides([text])
    except HydraException:
        raise UserError(f"'{text}' is not key=value{_meant(text)}; see python bench.py --help.") from None


def _meant(text: str) -> str:
    """What somebody who types this may have wanted."""
    if "=" in text:
        return ", or its value needs quotes"
    if text in GROUPS:
        return " (without blanks)"
    group = next((group for group in GROUPS if text in names_of(group)), None)
    return "" if group is None else f", as in {group}={text}"


def _launcher(overrides: list[Override]) -> None:
    """Of Hydra's own settings only the launcher may be chosen; Hydra would complain in several lines."""
    for override in overrides:
        if not override.key_or_group.startswith(("hydra/launcher", "hydra.launcher.")):
            raise UserError(f"{override.input_line}: Hydra's own settings are fixed here, hydra/launcher apart.")
    if overrides:
        _hydra([str(o.input_line) for o in overrides], return_hydra_config=True)


def _hydra(overrides: list[str], return_hydra_config: bool = False) -> DictConfig:
    try:
        return hydra.compose("bench", overrides, return_hydra_config=return_hydra_config)
    except (HydraException, OmegaConfBaseException) as error:
        raise UserError(_sentence(error)) from None


def _compose(overrides: list[Override]) -> dict[str, Any]:
    check.names(overrides)
    return finish(_hydra([str(o.input_line) for o in overrides]), overrides)


def finish(cfg: DictConfig, overrides: list[Override]) -> dict[str, Any]:
    """From what Hydra composed to what a run takes: resolved and checked, or the recorded one with `resume`."""
    try:
        plain: Any = OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        raise UserError(_sentence(error)) from None
    given = {o.key_or_group for o in overrides}
    if plain["resume"] is None:
        config = resolve(plain, given)
        check.config(config)
        check.writable(Path(config["out"]))
        return config
    run = read(Path(plain["resume"]))
    check.resumable(run)
    check.writable(run.folder, "resume")
    elsewhere = given & ANYWHERE
    check.agrees(run, plain, given - {"resume"} - elsewhere)
    config = run.config | {
        "engine": run.config["engine"] | {key: plain["engine"][key] for key in map(_field, elsewhere)}
    }
    check.config(config)
    return config


def _field(key: str) -> str:
    return key.rpartition(".")[2]


def _launch(argv: list[str], typed: list[str], args: Namespace, jobs: list[dict[str, Any]]) -> int:
    codes = [0]
    count = iter(range(1, len(jobs) + 1))

    def task(cfg: DictConfig) -> None:
        overrides = list(HydraConfig.get().overrides.task)
        sys.argv = ["bench.py", *typed]  # for the record; Hydra has read its own
        # caught here, since Hydra would end a multirun with the first job that fails
        try:
            if args.multirun:
                print(f"\n--- job {next(count)} of {len(jobs)}: {' '.join(overrides)}", flush=True)
            job(cfg, overrides)
        except (UserError, DataError) as error:
            codes.append(refuse(error))
        except KeyboardInterrupt:
            raise SystemExit(130) from None
        except BrokenPipeError:
            raise SystemExit(hush()) from None
        except Exception as error:
            if known := of_machine(error):
                codes.append(refuse(known))
            else:
                traceback.print_exc()
                codes.append(1)

    before, sys.argv = sys.argv, ["bench.py", *argv]
    group = os.environ.get(GROUP)
    try:
        if args.multirun:
            make_folder(Path(jobs[0]["out"]))  # Hydra would fail with a traceback
            os.environ[GROUP] = group or f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"
        hydra.main(str(CONF), "bench", VERSION_BASE)(task)()
        if args.multirun:
            summary(Path(jobs[0]["out"]), os.environ[GROUP])
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 1
    finally:
        sys.argv = before
        if group is None:
            os.environ.pop(GROUP, None)
    return max(codes)


def job(cfg: DictConfig, overrides: list[str]) -> None:
    """One run, from what Hydra composed."""
    config = finish(cfg, OverridesParser.create().parse_overrides(overrides))
    print("\n".join(describe(config)), flush=True)
    registry.create(config["dataset"]).require()  # before the seconds that Lightning takes
    from bench.run import run

    if cfg.resume is not None:
        run(config, resume=Path(cfg.resume))
    else:
        run(config | {"group": os.environ.get(GROUP)}, smaller=_smaller(cfg, config, overrides))


def _smaller(cfg: DictConfig, config: dict[str, Any], overrides: list[str]) -> dict[str, Any] | None:
    """The config of the same command at scale=cpu, if that makes a difference."""
    small = cfg.copy()
    small.scale = "cpu"
    other = finish(small, OverridesParser.create().parse_overrides(overrides))
    return None if {**other, "scale": config["scale"]} == config else other


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
    print("To go on: . .venv/bin/activate, then python bench.py --help, or python bench.py algo=... dataset=...")


def _parse(argv: list[str]) -> Namespace:
    parser = get_args_parser()

    def fail(message: str) -> NoReturn:
        dashes = " (keys have no dashes: algo=scaffold)" if message.startswith("unrecognized") else ""
        raise misused("python bench.py", message + dashes)

    parser.error = fail  # type: ignore[method-assign]
    args = parser.parse_args(argv)
    if args.config_name or args.config_path or args.config_dir or args.package or args.experimental_rerun:
        raise UserError("--config-name, -path, -dir, --package and --experimental-rerun are not supported: give keys.")
    if args.resolve and not args.cfg:
        raise UserError("--resolve belongs to --cfg, as in --cfg job --resolve.")
    if args.shell_completion and not args.overrides:
        raise UserError("--shell-completion needs install=SHELL or uninstall=SHELL; see python bench.py --hydra-help.")
    if args.multirun and (args.cfg or args.info or args.hydra_help or args.shell_completion):
        raise UserError("-m runs several jobs: it cannot be combined with --cfg, --info or --hydra-help.")
    return args


def _sentence(error: BaseException) -> str:
    """Hydra's and OmegaConf's messages have several lines, and the reason is often in the cause."""
    reason = error.__cause__ if isinstance(error.__cause__, OmegaConfBaseException) else None
    lines = [
        str(e).strip().partition("\n")[0].rstrip(".").removeprefix("Error merging override ")
        for e in (error, reason)
        if e is not None
    ]
    return in_words(": ".join(line for line in lines if line)) + "."
