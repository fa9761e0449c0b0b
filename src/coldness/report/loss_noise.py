"""Columns that follow from those of a run: how noisy its loss is, for every source.

    d_snr        d / d_std
    d_pairing    Cov[U(x+), U(x-)] / (u_data_std u_model_std)

with suffixes _1, _2 ... of further sources. Where sources share a contrast, the plain d and
u_model_std are of all negatives together and those of the first source have names of their own
(d_source, u_model_std_source); u_data_std is of the batch, the same for all.

References:
    Revisiting Contrastive Divergence for Density Estimation and Sample Generation
    (Abdulsalam, Makin), section 4.2.3 and Fig. 6.
"""

from __future__ import annotations

import numpy as np

from coldness.diagnostics.losses import paired_covariance, signal_to_noise
from coldness.report.figures import Array, Columns


def with_noise(columns: Columns) -> Columns:
    """The columns, and beside them those above, for sources that have what they need."""
    found = [name.removeprefix("d_std") for name in columns if _is_std(name)]
    added: dict[str, Array] = {}
    for suffix in found:
        std = columns[f"d_std{suffix}"]
        mean, of_model = _own(columns, "d", suffix), _own(columns, "u_model_std", suffix)
        of_data = columns.get(f"u_data_std{suffix}", columns.get("u_data_std"))
        if mean is not None:
            added[f"d_snr{suffix}"] = signal_to_noise(mean, std)
        if of_data is not None and of_model is not None:
            with np.errstate(divide="ignore", invalid="ignore"):
                covariance = paired_covariance(of_data, of_model, std)
                added[f"d_pairing{suffix}"] = covariance / (of_data * of_model)
    return {**columns, **added}


def _is_std(name: str) -> bool:
    head, _, suffix = name.rpartition("_")
    return name == "d_std" or (head == "d_std" and suffix.isdigit())


def _own(columns: Columns, name: str, suffix: str) -> Array | None:
    """The column of one source, not of the contrast that it shares."""
    return columns.get(f"{name}_source{suffix}", columns.get(f"{name}{suffix}"))
