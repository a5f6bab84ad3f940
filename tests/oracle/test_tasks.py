"""The losses and metrics of tasks, and a federation of linear regressions, derived in double precision by numpy."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bench.prepare import compose
from bench.prepare.assemble import build

LR, ROUNDS, EPOCHS = 0.1, 3, 2
WHOLE = ["rounds=3", "epochs=2", "lr=0.1", "batch_size=100000", "clients=4", "cohort=4", "logger=none"]


def parts(*words):
    torch.set_default_dtype(torch.float64)
    try:
        return build(compose.config([*words, "engine=eager", "engine.workers=1", "engine.device=cpu"]))
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.fixture(scope="module")
def patients():
    """As scikit-learn reads them, one in five for testing in the order of their labels; inputs standardised, and a 1
    for the constant."""
    from sklearn.datasets import load_diabetes

    x, y = load_diabetes(return_X_y=True, scaled=False)
    order = sorted(range(len(y)), key=lambda i: y[i])
    test = np.isin(np.arange(len(y)), order[2::5])
    x = (x - x[~test].mean(0)) / x[~test].std(0)
    return np.column_stack([x, np.ones(len(y))]), y, test


def rmse(w, x, y, mean, std):
    return np.sqrt(np.mean((mean + std * x @ w - y) ** 2))


def test_a_federation_of_linear_regressions_is_the_mean_of_descents_on_squared_errors(patients):
    x, y, test = patients
    mean, std = y[~test].mean(), y[~test].std()
    made = parts("dataset=diabetes", "model=linear", *WHOLE)
    loop = made.loop
    held = [(x[~test][rows], (y[~test][rows] - mean) / std) for rows in loop.engine.batches.samples]
    w = loop.server["w"].numpy().copy()
    assert made.evaluate(True)["test_rmse"] == pytest.approx(rmse(w, x[test], y[test], mean, std), rel=1e-6)
    for _ in range(ROUNDS):
        ends = []
        for own, labels in held:
            end = w.copy()
            for _ in range(EPOCHS):
                end -= LR * 2 / len(own) * own.T @ (own @ end - labels)
            ends.append(end)
        w = np.average(ends, axis=0, weights=[len(own) for own, _ in held])
        loop.advance()
        np.testing.assert_allclose(loop.server["w"].numpy(), w, rtol=1e-5, atol=1e-7)
    figures = made.evaluate(True)
    assert figures["test_rmse"] == pytest.approx(rmse(w, x[test], y[test], mean, std), rel=1e-6)
    assert figures["test_loss"] == pytest.approx((figures["test_rmse"] / std) ** 2, rel=1e-6)


def test_personal_models_are_judged_one_by_one_and_without_classes_on_all_samples(patients):
    x, y, test = patients
    made = parts("dataset=diabetes", "model=linear", "algo=local_only", *WHOLE)
    made.loop.advance()
    own = [rmse(w, x[test], y[test], y[~test].mean(), y[~test].std()) for w in made.loop.deployed().numpy()]
    figures = made.evaluate(True)
    assert len(own) == 4 and figures["test_rmse"] == pytest.approx(np.mean(own), rel=1e-6)
    assert figures.keys() == {"test_loss", "test_rmse", "personal_all"}
    assert figures["personal_all"] == figures["test_rmse"]
    assert made.evaluate._test(made.loop.deployed()) == pytest.approx(
        {k: figures[k] for k in ("test_loss", "test_rmse")}
    )


def test_the_best_blind_answers_are_the_mean_and_the_frequencies(patients):
    _, y, test = patients
    evaluate = parts("dataset=diabetes", *WHOLE).evaluate.evaluate
    words, score = evaluate.task.blind(evaluate.y)
    assert words == "the mean" and float(evaluate.value(score)) == pytest.approx(y[test].std(), rel=1e-6)

    made = parts("dataset=characters", "model=linear", *WHOLE)
    loop, evaluate = made.loop, made.evaluate.evaluate
    share = np.bincount(evaluate.y, minlength=95) / len(evaluate.y)
    blind = float(evaluate.value(evaluate.task.blind(evaluate.y)[1]))
    assert blind == pytest.approx(-sum(p * np.log2(p) for p in share if p > 0))
    w = loop.server["w"].zero_()
    assert made.evaluate(True)["test_bits"] == pytest.approx(np.log2(95))  # nothing is known
    w[-95:] = torch.from_numpy(np.log(np.maximum(share, 1e-300)))  # the constants of the last layer
    figures = made.evaluate(True)
    assert figures["test_bits"] == pytest.approx(blind, rel=1e-9)
    assert figures["test_loss"] == pytest.approx(blind * np.log(2), rel=1e-9)
