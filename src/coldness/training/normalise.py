"""log Z of a trained model, from examples of its data."""

from __future__ import annotations

from collections.abc import Callable

from coldness.data import Data
from coldness.likelihood import LogZ, log_z
from coldness.model import Model
from coldness.seeds import generators
from coldness.training.settings import Evaluation

EXAMPLES_FOR_AIS = 4000
"""Examples of the data, for the scales of its Gaussian and as starts of reverse chains."""


def log_z_of(
    model: Model,
    data: Data,
    how: Evaluation,
    on_stage: Callable[[str], None] = lambda stage: None,
) -> LogZ:
    """log Z in the model's coordinates, as a bracket.

    Raises:
        NotFinite: potentials of chains became NaN or infinite.
    """
    of_data, of_chains = generators(how.seed + 1, model.device)
    x = data.sample(EXAMPLES_FOR_AIS, of_data).to(model.device)
    compiled = False if model.compile == "never" else None
    return log_z(model.energy, x, of_chains, how.ais, on_stage, compiled)
