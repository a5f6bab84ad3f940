"""Learning curves of the latest multirun on digits in runs/: mean over seeds, and the 95 % t interval of the mean."""

import matplotlib.pyplot as plt
from scipy.stats import t

from bench.record import load

latest = load("runs", status="finished", dataset="digits")[0]["group"].dropna().iloc[-1]
runs, rounds = load("runs", status="finished", group=latest)
print(runs.groupby("algo")["final_accuracy"].agg(["count", "mean", "min", "max"]).round(4))
over_seeds = rounds.groupby(["algo", "round"])["test_accuracy"].agg(["mean", "sem", "count"])
for algo, curve in over_seeds.groupby("algo"):
    x, mean = curve.index.get_level_values("round"), 100 * curve["mean"]
    half = 100 * curve["sem"] * t.ppf(0.975, curve["count"] - 1)
    plt.plot(x, mean, label=f"{algo} ({curve['count'].max()} seeds)")
    plt.fill_between(x, mean - half, mean + half, alpha=0.2)
plt.xlabel("round"), plt.ylabel("test accuracy (%)"), plt.ylim(0, 100), plt.legend(loc="lower right")
plt.savefig("compare.png", dpi=120)
print("Curves: compare.png")
