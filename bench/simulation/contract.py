"""A method behind its interface: what its hooks raise is told by their names, what they return is looked at once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, replace
from numbers import Real
from typing import Any, cast

import torch
from torch import Tensor

from algorithms.base import REFILL, Algorithm, Fed, Jobs, LocalRule, Schedule, State, Trained, Updates, Upload
from algorithms.views import Clients
from bench import own_code
from bench.errors import UserError, unknown
from bench.simulation.inputs import Inputs
from bench.simulation.returned import Returned, described

REPEATS = 10_000  # of one round, after which it will not end
MODERATE = 1e18  # numbers whose squares float32 can hold
PARTS = ("none", "body", "head", "all")
FILLED = {f.name for f in fields(Trained) if f.default is None} | {"trace", "step_means"}  # what a method may require
# of metrics.csv, which are the loop's, the evaluation's and the record's
COLUMNS = {
    *("round", "version", "virtual_seconds", "wall_seconds", "train_seconds", "aggregate_seconds", "dropped"),
    *("bytes_up", "bytes_down", "bytes_peer", "upload_gb_every_round", "gradient_evaluations", "train_loss"),
    *("staleness_mean", "staleness_max", "test_loss"),
    *("personal_own", "personal_all", "personal_own_tuned", "personal_all_tuned"),
}
_NAME = re.compile(r"[\w.:/-]+")


def _decayed(rule: LocalRule, jobs: Jobs, fed: Fed) -> LocalRule:
    """With the rate of the version that a device downloaded."""
    if fed.lr_decay == 1:
        return rule
    factor = fed.lr_decay ** jobs.version.double()
    return replace(rule, lr=factor * (fed.lr if rule.lr is None else rule.lr))


def checked(algo: Algorithm) -> Checked:
    return algo if isinstance(algo, Checked) else Checked(algo)


class Checked(Algorithm):
    """The method `method` as the loop and the engines call it. A hook's answer is looked at when it is first given:
    `local` until the first upload, since worker processes are sent a copy of this."""

    method: Algorithm
    _seen: set[str]
    _requires: frozenset[str]
    _remembers: dict[str, tuple[tuple[int, ...], torch.dtype]] | None  # shapes and types of a device's memory
    _reports: frozenset[str] | None
    _repeats: int

    def __init__(self, method: Algorithm) -> None:
        vars(self).update(method=method, _seen=set(), _remembers=None, _reports=None, _repeats=0)
        try:
            found = method.requires
        except (Exception, SystemExit) as error:
            own_code.tell(method, "requires", error)
            raise
        vars(self).update(_requires=found)
        names = ("broadcast", "unicast", "mail", "personal", "extra_vectors", "retransmit", "cacheable")
        vars(self).update({name: getattr(method, name) for name in names})
        self._declared()

    @property
    def requires(self) -> frozenset[str]:
        return self._requires

    @property
    def chooses_on_arrival(self) -> bool:
        return self.method.chooses_on_arrival

    @property
    def keeps_unsent(self) -> bool:
        return self.method.keeps_unsent

    @property
    def dates_on_arrival(self) -> bool:
        return self.method.dates_on_arrival

    def schedule(self, fed: Fed) -> Schedule:
        found = self._ask("schedule", fed)
        numbers = (found.concurrency, found.buffer) if isinstance(found, Schedule) else ()
        if not numbers or not all(type(n) is int and n >= 1 for n in numbers):
            raise self._wrong("schedule", "returned", found, "a Schedule of two whole numbers of at least 1")
        if found.refill not in REFILL:
            raise self._wrong("schedule", "returned", found, f"a Schedule with refill {' or '.join(REFILL)}")
        return cast(Schedule, found)

    def init_server(self, w: Tensor, fed: Fed) -> State:
        before = Inputs(w=w)
        found = self._ask("init_server", w, fed)
        look = self._look("init_server")
        before.unchanged(look)
        look.mapping("", found)
        for name in dict.fromkeys(("w", *self.broadcast, *self.unicast)):
            if name not in found:
                raise look.wrong(f"a state of {', '.join(map(repr, found)) or 'nothing'}", f"one with {name!r}, too")
        look.tensor('["w"]', found["w"], w.shape, w.dtype, w.device)
        for name, value in found.items():
            look.tensor(f'["{name}"]', value, None, None, w.device, finite=True)
        for name in self.unicast:
            look.tensor(f'["{name}"]', found[name], (fed.clients, ...), None, w.device)
        if self.mail:
            look.tensor(f'["{self.mail}"]', found[self.mail], (fed.clients, fed.clients), torch.bool, w.device)
        return dict(found)

    def init_client(self, w: Tensor, fed: Fed) -> State:
        before = Inputs(w=w)
        found = self._ask("init_client", w, fed)
        look = self._look("init_client")
        before.unchanged(look)
        look.mapping("", found)
        for name, value in found.items():
            look.tensor(f'["{name}"]', value, None, None, w.device, finite=True)
        if self.personal != "none" and "w" in found:
            raise look.wrong(
                'a state with "w"', f"another name: personal={self.personal!r} keeps the device's w itself"
            )
        vars(self)["_remembers"] = {name: (tuple(value.shape), value.dtype) for name, value in found.items()}
        return dict(found)

    def sends(self, version: int, fed: Fed) -> Tensor:
        found = self._ask("sends", version, fed)
        if self._first("sends"):
            self._look("sends").tensor("", found, fed.layout.head.shape, torch.bool, fed.samples.device)
        return cast(Tensor, found)

    def extra_up(self, fed: Fed) -> int:
        found = self._ask("extra_up", fed)
        if type(found) is not int or found < 0:
            raise self._wrong("extra_up", "returned", found, "a whole number of at least 0")
        return found

    def vectors(self, fed: Fed) -> tuple[str, ...]:
        """The extra vectors that are sent at all."""
        return self.extra_vectors if self.extra_up(fed) >= len(self.extra_vectors) * fed.layout.size else ()

    def local(self, jobs: Jobs, w: Tensor, epoch: int, fed: Fed) -> LocalRule:
        if "upload" in self._seen:
            return _decayed(cast(LocalRule, self._ask("local", jobs, w, epoch, fed)), jobs, fed)
        before = Inputs(jobs=jobs, w=w, fed=fed.samples)
        found = self._ask("local", jobs, w, epoch, fed)
        look = self._look("local")
        before.unchanged(look)
        look.rule(found, w)
        return _decayed(cast(LocalRule, found), jobs, fed)

    def upload(self, jobs: Jobs, trained: Trained, fed: Fed) -> Upload:
        if not self._first("upload"):
            return cast(Upload, self._ask("upload", jobs, trained, fed))
        before = Inputs(jobs=jobs, trained=trained, fed=fed.samples)
        found = self._ask("upload", jobs, trained, fed)
        look, like, trains = self._look("upload"), jobs.received, bool(trained.end.isfinite().all())
        before.unchanged(look)
        if not isinstance(found, Upload):
            raise look.wrong(described(found), "an Upload")
        look.tensor(".delta", found.delta, like.shape, like.dtype, like.device, finite=trains)
        if found.gradient is not None or self.mail:
            look.tensor(".gradient", found.gradient, like.shape, like.dtype, like.device, finite=trains)
        look.mapping(".extra", found.extra)
        look.mapping(".memory", found.memory)
        for name, value in found.extra.items():
            look.tensor(f'.extra["{name}"]', value, (len(like), ...), None, like.device, finite=trains)
        beside, said = sum(value[0].numel() for value in found.extra.values()), self.extra_up(fed)
        if beside > said:
            raise look.wrong(f"{beside} numbers beside the model", f"at most {said}, which extra_up says are sent")
        for name in self.vectors(fed):
            if name not in found.extra:
                raise look.wrong(f"no {name!r} in extra", "what extra_vectors names")
            look.tensor(f'.extra["{name}"]', found.extra[name], like.shape, like.dtype, like.device)
        known = self._remembers or {}
        for name, value in found.memory.items():
            if name not in known:
                names = ", ".join(map(repr, known)) or "nothing"
                raise look.wrong(f"a memory of {name!r}", f"what init_client knows, {names}")
            shape, dtype = known[name]
            look.tensor(f'.memory["{name}"]', value, (len(like), *shape), dtype, like.device, finite=trains)
        return found

    def aggregate(self, server: State, updates: Updates, fed: Fed) -> State:
        if not self._first("aggregate"):
            return cast(State, self._ask("aggregate", server, updates, fed))
        before = Inputs(server=server, updates=updates, fed=fed.samples)
        found = self._ask("aggregate", server, updates, fed)
        look = self._look("aggregate")
        before.unchanged(look)
        look.mapping("", found)
        if found.keys() != server.keys():
            listed = [", ".join(map(repr, keys)) or "nothing" for keys in (found, server)]
            raise look.wrong(f"a state of {listed[0]}", f"one of {listed[1]}, as init_server made it")
        moderate = bool(updates.delta.abs().max() < MODERATE)  # else it diverged, which the loop says
        for name, old in server.items():
            look.tensor(f'["{name}"]', found[name], old.shape, old.dtype, old.device, finite=moderate)
        return cast(State, found)

    def repeat_round(self, server: State, fed: Fed) -> bool:
        found = self._ask("repeat_round", server, fed)
        if type(found) is not bool:
            raise self._wrong("repeat_round", "returned", found, "True or False")
        vars(self)["_repeats"] = self._repeats + 1 if found else 0
        if self._repeats >= REPEATS:
            raise UserError(f"{self._name('repeat_round')} has asked for one round {REPEATS:,} times: it must end.")
        return found

    def deployed(self, server: State, clients: Clients, fed: Fed) -> Tensor:
        found = self._ask("deployed", server, clients, fed)
        if self._first("deployed"):
            w, look = server["w"], self._look("deployed")
            many = isinstance(found, Tensor) and found.dim() == 2
            look.tensor("", found, (fed.clients, len(w)) if many else w.shape, w.dtype, w.device)
        return cast(Tensor, found)

    def personal_rule(self, fed: Fed) -> tuple[LocalRule, int] | None:
        found = self._ask("personal_rule", fed)
        if found is None:
            return None
        if not (isinstance(found, tuple) and len(found) == 2 and type(found[1]) is int and found[1] >= 1):
            raise self._wrong("personal_rule", "returned", found, "None, or a LocalRule and a number of epochs")
        self._look("personal_rule").rule(found[0], fed.samples.new_empty(1, fed.layout.size))
        return found

    def report(self, server: State, fed: Fed) -> Mapping[str, float]:
        found = self._ask("report", server, fed)
        look = self._look("report")
        look.mapping("", found)
        for name, value in found.items():
            if name in COLUMNS or str(name).startswith("test_"):
                raise look.wrong(f"{name!r}", "names that metrics.csv does not have already")
            if not (isinstance(name, str) and _NAME.fullmatch(name)):
                raise look.wrong(f"the name {name!r}", "names of letters, digits and _ . : / -")
            if isinstance(value, bool) or not isinstance(value, Real):
                raise look.wrong(described(value), "a number (float(...) makes one)", f'["{name}"]')
        if self._reports not in (None, found.keys()):
            raise look.wrong(f"{', '.join(found) or 'nothing'}", f"{', '.join(sorted(self._reports or ()))}, as before")
        vars(self)["_reports"] = frozenset(found)
        return cast(Mapping[str, float], found)

    def _ask(self, hook: str, *given: Any) -> Any:
        try:
            return getattr(self.method, hook)(*given)
        except (Exception, SystemExit) as error:
            own_code.tell(self.method, hook, error)
            raise

    def _first(self, hook: str) -> bool:
        """Whether this is the first answer of a hook."""
        if hook in self._seen:
            return False
        self._seen.add(hook)
        return True

    def _name(self, hook: str) -> str:
        return f"{hook} of {own_code.target(type(self.method))}"

    def _look(self, hook: str) -> Returned:
        return Returned(self._name(hook), finite=own_code.is_own(self.method))

    def _wrong(self, hook: str, verb: str, found: object, expected: str) -> UserError:
        return Returned(self._name(hook), verb=verb).wrong(described(found), expected)

    def _declared(self) -> None:
        """What the class itself says."""
        for kind in ("broadcast", "unicast", "extra_vectors"):
            names = getattr(self, kind)
            if not (isinstance(names, tuple) and all(isinstance(name, str) for name in names)):
                raise self._wrong(kind, "is", names, 'a tuple of names, such as ("w",)')
        if "w" not in self.broadcast:
            raise self._wrong("broadcast", "is", self.broadcast, 'a tuple with "w": every device downloads the model')
        if self.mail is not None and self.mail not in self.unicast:
            raise self._wrong("mail", "is", self.mail, "None or one of `unicast`")
        if self.personal not in PARTS:
            raise self._wrong("personal", "is", self.personal, " or ".join(PARTS))
        for kind in ("retransmit", "cacheable"):
            if not isinstance(getattr(self, kind), bool):
                raise self._wrong(kind, "is", getattr(self, kind), "True or False")
        if not isinstance(self._requires, frozenset | set):
            raise self._wrong("requires", "returned", self._requires, "a frozenset of names")
        for name in self._requires - FILLED:
            raise unknown(f"name in {self._name('requires')}", str(name), FILLED)
