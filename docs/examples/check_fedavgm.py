"""FedAvgM against a derivation in numpy, to 1e-9. Run it with: python docs/examples/check_fedavgm.py

Device i has the loss w'A_i w/2 - b_i'w, so that one local step is w <- w - lr (A_i w - b_i), and after K steps
w_i = w_i* + (I - lr A_i)^K (w - w_i*) with A_i w_i* = b_i. The server's v and w follow by hand.
"""

from __future__ import annotations

import sys

import numpy as np
from fedavgm import FedAvgM  # the file beside this one

from bench.testing import quadratic


def derive(A, b, w0, lr, samples, cohorts, steps, beta):
    w, v, found = np.array(w0), np.zeros_like(w0), [w0]
    for t, cohort in enumerate(cohorts):
        dw = np.zeros_like(w)
        for i in cohort:
            best = np.linalg.solve(A[i], b[i])
            end = best + np.linalg.matrix_power(np.eye(len(w)) - lr * A[i], steps[t][i]) @ (w - best)
            dw += samples[i] / sum(samples[j] for j in cohort) * (w - end)
        v = beta * v + dw
        w = w - v
        found.append(w)
    return np.array(found), -v  # the paper subtracts v; ours is added


def main() -> float:
    rng = np.random.default_rng(0)
    roots = rng.normal(size=(4, 3, 3))
    A, b = roots @ roots.transpose(0, 2, 1) / 3 + 0.3 * np.eye(3), rng.normal(size=(4, 3))
    given = {"w0": rng.normal(size=3), "lr": 0.1, "samples": [5, 20, 1, 9]}
    given |= {"cohorts": [[0, 1], [2, 1, 3], [3], [0, 2]], "steps": [[1, 3, 2, 4], [2, 2, 1, 3], [4, 1, 1, 2], [3] * 4]}
    trace = quadratic(FedAvgM(beta=0.7), A, b, rounds=4, **given)
    w, v = derive(A, b, beta=0.7, **given)
    return max(np.abs(trace.w.numpy() - w).max(), np.abs(trace.server["v"].numpy() - v).max())


if __name__ == "__main__":
    error = main()
    print(f"largest difference {error:.1e}")
    sys.exit(int(error > 1e-9))
