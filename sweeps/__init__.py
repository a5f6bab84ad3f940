"""Each paper's grids, re-run with Optuna."""
