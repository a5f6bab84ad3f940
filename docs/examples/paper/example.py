"""An example, not a paper: copy it to sweeps/<paper>.py, and say here which tables and figures are re-run."""

from __future__ import annotations

from sweeps.plan import Sweep, cells

METHODS = {"fedavg": "algo=fedavg", "scaffold": "algo=scaffold"}  # the claims' word: what bench.py is given

table1 = Sweep(
    name="example/table1",
    source="Table 1, Sec. 3. Ours: the learning rate and three seeds",
    covers=("Table 1",),  # the claims' `where`
    runs=cells("example", ("digits",), {"classes=2": ""}, METHODS),  # the claims' `setting`: its keys
)

SWEEPS = (table1,)
