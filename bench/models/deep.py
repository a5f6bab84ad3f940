"""Deep networks: torchvision's definitions where they exist, with GroupNorm for BatchNorm, and CIFAR's ResNet-20."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor, nn

from bench.models.convolutional import Node, Shape, network, scaled

GROUPS = 32


def group_norm(channels: int) -> nn.GroupNorm:
    """At most 32 groups of equal size."""
    return nn.GroupNorm(math.gcd(GROUPS, channels), channels)


def without_batch_norm(module: nn.Module) -> nn.Module:
    """Batch statistics of one device mean nothing to another: every BatchNorm becomes a GroupNorm."""
    for name, child in module.named_children():
        if isinstance(child, nn.BatchNorm2d):
            setattr(module, name, group_norm(child.num_features))
        else:
            without_batch_norm(child)
    return module


def _torchvision() -> Any:
    from datamodules._torchvision import torchvision

    return torchvision.models


def _vgg(letter: str, model: Node, shape: Shape, hidden: list[int], classes: int) -> nn.Module:
    """torchvision's feature layers, averaged to one pixel if there is no hidden layer."""
    vgg = _torchvision().vgg
    channels = [c if c == "M" else scaled([c], model["width"])[0] for c in vgg.cfgs[letter]]
    features = [*vgg.make_layers(channels).children()]
    if any(c.in_channels != shape[0] for c in features[:1]):
        features[0] = nn.Conv2d(shape[0], channels[0], 3, padding=1)
    pool = [] if hidden else [nn.AdaptiveAvgPool2d(1)]
    return network([*features, *pool], shape, scaled(hidden, model["width"]), classes)


def vgg11(model: Node, shape: Shape, classes: int) -> nn.Module:
    """torchvision's VGG-11 features, averaged to 512 numbers, one linear layer: FedAgg, Sec. VI-A."""
    return _vgg("A", model, shape, [], classes)


def vgg16(model: Node, shape: Shape, classes: int) -> nn.Module:
    """13 convolutions, two dense layers of 512 units (ours), output: FedLC, Sec. 5.1."""
    return _vgg("D", model, shape, [512, 512], classes)


class Block(nn.Module):
    """Two 3x3 convolutions around an identity; where the size changes, the shortcut is a 1x1 convolution."""

    def __init__(self, inner: int, outer: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inner, outer, 3, stride, 1, bias=False)
        self.norm1 = group_norm(outer)
        self.conv2 = nn.Conv2d(outer, outer, 3, 1, 1, bias=False)
        self.norm2 = group_norm(outer)
        self.shortcut = nn.Conv2d(inner, outer, 1, stride, bias=False) if inner != outer else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        inner = self.norm1(self.conv1(x)).relu()
        out: Tensor = (self.norm2(self.conv2(inner)) + self.shortcut(x)).relu()
        return out


def resnet20(model: Node, shape: Shape, classes: int) -> nn.Module:
    """CIFAR's ResNet-20 (He et al. 2016) with GroupNorm: FedLGA, Sec. VI-A, after Hsieh et al. 2020."""
    one, two, three = scaled((16, 32, 64), model["width"])
    sizes = [(one, one, 1)] * 3 + [(one, two, 2), (two, two, 1), (two, two, 1)]
    sizes += [(two, three, 2), (three, three, 1), (three, three, 1)]
    stem = [nn.Conv2d(shape[0], one, 3, padding=1, bias=False), group_norm(one), nn.ReLU()]
    features = [*stem, *(Block(*size) for size in sizes), nn.AdaptiveAvgPool2d(1)]
    return network(features, shape, [], classes)


def resnet18(model: Node, shape: Shape, classes: int) -> nn.Module:
    """torchvision's ResNet-18 with GroupNorm: FedAgg, Table VI."""
    return _torchvision().resnet18(num_classes=classes, norm_layer=group_norm)  # type: ignore[no-any-return]


def googlenet(model: Node, shape: Shape, classes: int) -> nn.Module:
    """torchvision's GoogLeNet without auxiliary outputs, with GroupNorm: FedAgg, Table VI."""
    return without_batch_norm(_torchvision().googlenet(num_classes=classes, aux_logits=False, init_weights=False))


def densenet121(model: Node, shape: Shape, classes: int) -> nn.Module:
    """torchvision's DenseNet-121 with GroupNorm: FedAgg, Table VI."""
    return without_batch_norm(_torchvision().densenet121(num_classes=classes))
