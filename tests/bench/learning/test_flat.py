import pytest
import torch
from torch import nn

from bench.learning.flat import Layout, trainable


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3)
        self.dense = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 3))


def test_layers_follow_the_modules_parameters():
    layout = Layout(Net())
    assert layout.layers == ("conv", "dense.0", "dense.2")
    assert layout.sizes.tolist() == [20, 36, 15]
    assert layout.size == 71


def test_without_a_declaration_linear_layers_are_deep_and_the_last_is_the_head():
    layout = Layout(Net())
    assert layout.deep.tolist() == [False, True, True]
    assert layout.head.tolist() == [False, False, True]


def test_a_network_may_declare_deep_and_head_also_inside_a_wrapper():
    net = Net()
    net.deep, net.head = ("dense.2",), "dense"
    wrapper = nn.Module()
    wrapper.net = net
    layout = Layout(wrapper)
    assert layout.deep.tolist() == [False, False, True]
    assert layout.head.tolist() == [False, True, True]
    assert layout.part("head").sum() == 51
    assert layout.part("body").sum() == 20
    assert layout.part("none").sum() == 0


def test_layers_called_deep_and_head_are_no_declaration():
    net = nn.Module()
    net.deep, net.head = nn.Linear(2, 3), nn.Linear(3, 4)
    layout = Layout(net)
    assert layout.deep.tolist() == [True, True]
    assert layout.head.tolist() == [False, True]


def test_views_share_memory_with_the_flat_vector_and_flatten_is_their_inverse():
    net = Net()
    layout = Layout(net)
    flat = layout.flatten(trainable(net))
    for view, p in zip(layout.views(flat), net.parameters(), strict=True):
        assert torch.equal(view, p)
    layout.views(flat)[0].zero_()
    assert not flat[:18].any()
    assert torch.equal(layout.flatten(layout.views(flat)), flat)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_every_row_of_a_batch_begins_on_a_64_byte_boundary(dtype):
    models = torch.randn(5, 71, dtype=dtype)
    rows = Layout(Net()).rows(models)
    assert torch.equal(rows, models)
    assert {row.data_ptr() % 64 for row in rows} == {0}
    assert rows.data_ptr() != models.data_ptr()


def test_layer_masks_expand_to_coordinates():
    layout = Layout(Net())
    expanded = layout.expand(torch.tensor([[True, False, True], [False, True, False]]))
    assert expanded.sum(1).tolist() == [35, 36]
    assert expanded[0, :20].all()
    assert not expanded[0, 20:56].any()


def test_frozen_parameters_are_no_part_of_the_vector_and_nothing_to_train_is_refused():
    net = Net()
    net.conv.requires_grad_(False)
    assert Layout(net).size == 51
    with pytest.raises(ValueError, match="no trainable parameters"):
        Layout(nn.ReLU())
