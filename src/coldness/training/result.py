"""The result of training: the model of a run, with averaged weights if there is an average."""

from __future__ import annotations

from copy import deepcopy

from coldness.data import Data
from coldness.likelihood.ais import NotFinite
from coldness.model import Model
from coldness.progress import Stage
from coldness.schedules import value_at
from coldness.seeds import generators
from coldness.training.loop import Training
from coldness.training.normalise import log_z_of
from coldness.training.settings import Evaluation

EXAMPLES_FOR_SCALE = 1000
"""Examples whose moments are stored where samples start like data."""


def model_of(training: Training) -> Model:
    """An independent copy of the model of a run: further training does not change it."""
    s, n, live = training.settings, training.settings.iterations, training.live
    t = live.stopping.iteration - 1 if live.stopping.weights is not None else n - 1
    with training.averaged():
        energy = deepcopy(training.energy)
    kept = {name: value for term in s.terms for name, value in term.kept().items()}
    if live.stopping.weights is not None:
        kept = deepcopy(kept)
        live.restore(energy, kept)
    energy.eval()
    source = s.sampling
    of_data, _ = generators(s.seed)
    x_data = s.data.sample(EXAMPLES_FOR_SCALE, of_data).to(training.fabric.device)
    sampler = source.sampler(x_data, energy.coordinates, value_at(source.step_scale, t, n))
    sampler.start.bind(energy)
    return Model(
        energy=energy,
        domain=s.data.domain,
        sampler=sampler,
        data_noise=s.data_noise_at(t),
        precision=s.precision,
        at_once=s.at_once,
        compile="never" if s.compile == "never" else "auto",
        kept=kept,
    )


def normalise(model: Model, data: Data, how: Evaluation, on_stage: Stage) -> None:
    """Estimates the model's log Z if configured; if that fails, the model has no log Z."""
    if how.ais is None:
        return
    try:
        model.z = log_z_of(model, data, how, on_stage)
    except NotFinite:
        model.z = None
