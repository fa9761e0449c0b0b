"""Backbones: networks that map examples to one number each, or one per class."""

from coldness.nets.convnet import ConvNet
from coldness.nets.mlp import MLP
from coldness.nets.non_local import NonLocalNet
from coldness.nets.wide_resnet import WideResNet

__all__ = ["MLP", "ConvNet", "NonLocalNet", "WideResNet"]
