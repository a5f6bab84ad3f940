"""Tables of what devices learned: rows of one and of several, and what diverged."""

import math

import torch

from bench.simulation.learned import Learned, Outcomes


def table(rows, memory, delta=None):
    numbers = torch.arange(float(rows))
    delta = numbers[:, None].expand(-1, 2).clone() if delta is None else delta
    return Learned(
        delta=delta,
        extra={"c": -delta},
        memory={"h": delta} if memory else {},
        gradient=None,
        end=None,
        steps=numbers + 10,
        effective_steps=numbers + 20,
        lr_sum=numbers + 30,
        loss=numbers + 40,
        evaluations=numbers.long() + 50,
    )


def test_an_upload_that_was_stored_without_its_memory_is_merged_with_one_that_has_it():
    fresh, stored = table(3, memory=True), Learned(**table(2, memory=True).state_dict(1))
    assert stored.memory == {}
    for places in ([(fresh, 2), (stored, 0)], [(stored, 0), (fresh, 2)]):
        found, (first, second) = Learned.uploads(places), [t.steps[k].item() - 10 for t, k in places]
        assert found.delta.tolist() == [[first] * 2, [second] * 2]
        assert found.extra["c"].tolist() == [[-first] * 2, [-second] * 2]
        columns = (found.steps, found.effective_steps, found.lr_sum, found.loss)
        assert [c.tolist() for c in columns] == [[first + n, second + n] for n in (10, 20, 30, 40)]
        assert all(c.dtype == torch.float32 for c in columns)


def test_outcomes_of_rows_are_those_of_their_tables():
    one, two = table(3, memory=True), table(4, memory=True)
    two.delta[2, 0] = math.nan
    found = Outcomes.of([(two, 2), (one, 1), (two, 0)])
    assert (found.losses, found.computed) == ([42, 41, 40], [52, 51, 50])
    assert found.not_finite == {0: "its update is not finite"}
    assert [row[1].item() for row in found.memory["h"]] == [2, 1, 0]


def test_a_whole_table_is_not_copied_and_a_part_of_it_is():
    whole = table(3, memory=False)
    assert Learned.uploads([(whole, k) for k in range(3)]) is whole
    part = Learned.uploads([(whole, 1)])
    part.delta.zero_()
    assert whole.delta[1].tolist() == [1, 1]


def test_what_diverged_is_named_and_a_sum_that_only_overflows_is_not():
    delta = torch.tensor([[1.0, 2.0], [3e38, 3e38], [math.inf, 0.0], [0.0, 0.0]])
    learned = table(4, memory=False, delta=delta)
    learned.loss[3] = math.nan
    assert learned.not_finite == {2: "its update is not finite", 3: "its loss is nan"}
