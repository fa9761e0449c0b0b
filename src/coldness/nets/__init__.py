"""Backbones of energies, and encoders.

Backbones map each example to one number, to one number per class, or to a vector. Encoders map each
image to a latent vector; they learn beside an energy.
"""

from coldness.nets.conv_encoders import ResNet18Encoder, SmallEncoder
from coldness.nets.convnet import ConvNet
from coldness.nets.encoder import Encoder
from coldness.nets.headed import Headed
from coldness.nets.mlp import MLP
from coldness.nets.non_local import NonLocalNet
from coldness.nets.residual import ResidualNet
from coldness.nets.vit import ViTEncoder
from coldness.nets.wide_resnet import WideResNet

__all__ = [
    "MLP",
    "ConvNet",
    "Encoder",
    "Headed",
    "NonLocalNet",
    "ResNet18Encoder",
    "ResidualNet",
    "SmallEncoder",
    "ViTEncoder",
    "WideResNet",
]
