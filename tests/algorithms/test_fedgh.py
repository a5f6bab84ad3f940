import pytest
import torch

from bench.prepare import compose
from bench.prepare.assemble import build


def parts(*overrides):
    small = ["dataset=digits", "clients=6", "cohort=3", "rounds=2", "test_samples=64", "algo=fedgh"]
    return build(compose.config([*small, *overrides]))


def descend(weight, bias, x, y, steps, lr):
    """Softmax regression by gradient descent, with the gradient written out."""
    weight, bias = weight.clone(), bias.clone()
    for _ in range(steps):
        error = torch.softmax(x @ weight.T + bias, 1)
        error[torch.arange(len(y)), y] -= 1
        weight -= lr * error.T @ x / len(y)
        bias -= lr * error.mean(0)
    return torch.cat([weight.flatten(), bias])


@pytest.mark.parametrize("steps", [None, 7])
def test_without_a_body_the_header_learns_from_the_devices_mean_images(steps):
    loop = parts("model=linear", "algo.eta_theta=0.3", f"algo.steps={'null' if steps is None else steps}").loop
    before, batches = loop.server["w"], loop.engine.batches
    loop._dispatch(loop.first())
    cohort = sorted(job.client for job in loop.jobs.values())
    loop.advance()
    x, y = [], []
    for client in cohort:
        images, labels = batches.load(torch.cat(batches.whole(client)))
        for label in labels.unique():
            x.append(images[labels == label].flatten(1).mean(0))
            y.append(label)
    x, y = torch.stack(x), torch.stack(y)
    weight, bias = before[:640].view(10, 64), before[640:]
    expected = descend(weight, bias, x, y, steps or len(y), 0.3)
    torch.testing.assert_close(loop.server["w"], expected, rtol=0, atol=1e-5)
    assert torch.equal(loop.deployed(), loop.server["w"])


def test_bodies_stay_on_the_devices_and_the_header_is_shared():
    loop = parts().loop
    before, head = loop.server["w"], loop.fed.layout.expand(loop.fed.layout.head)
    while not loop.finished:
        loop.advance()
    assert torch.equal(loop.server["w"][~head], before[~head])
    assert not torch.equal(loop.server["w"][head], before[head])
    models, memory = loop.deployed(), loop.memory.rows("w")
    assert models.shape == (6, loop.fed.layout.size)
    assert torch.equal(models[:, ~head], memory[:, ~head])
    assert torch.equal(models[:, head], loop.server["w"][head].expand(6, -1))
    seen = {
        client
        for client, times in loop.dispatches.items()
        if times > (client in {j.client for j in loop.jobs.values()})
    }
    assert {k for k in range(6) if not torch.equal(models[k, ~head], before[~head])} == seen


def test_traffic_is_class_means_up_and_the_header_down():
    loop = parts().loop
    loop.advance()
    assert loop.traffic.up == 3 * 4 * 10 * (64 + 1)  # ten classes of 64 features, and how many samples each has
    assert loop.traffic.down == 3 * 4 * 10 * (64 + 1)
