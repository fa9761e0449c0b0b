"""Columns that follow from those of a run: how noisy its loss is, for every source.

    d_snr        d / d_std
    d_pairing    Cov[U(x+), U(x-)] / (u_data_std u_model_std)

by their `source_key` for further sources. Where sources share a contrast, the plain d and
u_model_std are of all negatives together and those of the first source have names of their own
(d_source, u_model_std_source); u_data_std is of the batch, the same for all.

References:
    Revisiting Contrastive Divergence for Density Estimation and Sample Generation
    (Abdulsalam, Makin), section 4.2.3 and Fig. 6.
"""

from __future__ import annotations

import numpy as np

from coldness.diagnostics.losses import paired_covariance, signal_to_noise
from coldness.metrics import of_sources, source_key
from coldness.report.figures import Array, Columns


def with_noise(columns: Columns) -> Columns:
    """The columns, and beside them those above, for sources that have what they need."""
    added: dict[str, Array] = {}
    for k, name in of_sources(columns, "d_std").items():
        std = columns[name]
        mean, of_model = _own(columns, "d", k), _own(columns, "u_model_std", k)
        of_data = columns.get(source_key("u_data_std", k), columns.get("u_data_std"))
        if mean is not None:
            added[source_key("d_snr", k)] = signal_to_noise(mean, std)
        if of_data is not None and of_model is not None:
            with np.errstate(divide="ignore", invalid="ignore"):
                covariance = paired_covariance(of_data, of_model, std)
                added[source_key("d_pairing", k)] = covariance / (of_data * of_model)
    return {**columns, **added}


def _own(columns: Columns, name: str, source: int) -> Array | None:
    """The column of one source, not of the contrast that it shares."""
    own = columns.get(source_key(f"{name}_source", source))
    return columns.get(source_key(name, source)) if own is None else own
