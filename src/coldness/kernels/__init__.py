"""Kernels: transitions that leave, or nearly leave, exp(-U) invariant."""

from coldness.kernels.base import Info, Kernel
from coldness.kernels.compilation import worth_compiling
from coldness.kernels.hmc import HMC
from coldness.kernels.langevin import Langevin
from coldness.kernels.mala import MALA
from coldness.kernels.run import Chains, run
from coldness.kernels.step_size import ConstantSteps, DualAveraging, GeometricSteps, StepSchedule

__all__ = [
    "HMC",
    "MALA",
    "Chains",
    "ConstantSteps",
    "DualAveraging",
    "GeometricSteps",
    "Info",
    "Kernel",
    "Langevin",
    "StepSchedule",
    "run",
    "worth_compiling",
]
