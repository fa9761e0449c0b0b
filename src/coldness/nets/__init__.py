"""Backbones: networks that map examples to one number each."""

from coldness.nets.mlp import MLP

__all__ = ["MLP"]
