"""Backbones: networks that map each example to one number, or to one number per class."""

from coldness.nets.convnet import ConvNet
from coldness.nets.mlp import MLP
from coldness.nets.non_local import NonLocalNet
from coldness.nets.residual import ResidualNet
from coldness.nets.wide_resnet import WideResNet

__all__ = ["MLP", "ConvNet", "NonLocalNet", "ResidualNet", "WideResNet"]
