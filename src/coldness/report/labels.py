"""What figures are called in tables, in their order there."""

from __future__ import annotations

from collections.abc import Iterable

from coldness.report.image_labels import IMAGE_LABELS
from coldness.trust.ood_answer import NAMES, OTHER_SCORES

LABELS = {
    "kl": "KL(data || model), nats",
    "kl_low": "KL(data || model), lower end of its bracket",
    "kl_high": "KL(data || model), upper end of its bracket",
    "reverse_kl": "KL(model || data), nats",
    "tv": "Total variation",
    "slice_kl": "KL(data || model) on the slice, nats",
    "slice_tv": "Total variation on the slice",
    "kl_gaussian": "KL(data || Gaussian of the same moments), nats",
    "log_likelihood_test": "Log-likelihood of held-out or fresh points, nats a point",
    "log_likelihood_low": "Log-likelihood, lower end of its bracket",
    "log_likelihood_high": "Log-likelihood, upper end of its bracket",
    "log_likelihood_train": "Log-likelihood of training points",
    "log_likelihood_gaussian": "Log-likelihood of held-out points, Gaussian",
    "log_likelihood_kde": "Log-likelihood of held-out points, kernel estimate",
    "mass_outside": "Model's mass outside the data's box",
    "log_z": "log Z",
    "log_z_low": "log Z, lower end of its bracket",
    "log_z_high": "log Z, upper end of its bracket",
    "log_z_ess_forward": "Effective share of chains from the Gaussian (AIS forward)",
    "log_z_ess_reverse": "Effective share of chains from data (AIS in reverse)",
    "log_z_failed": "AIS met numbers that are not finite",
    "log_z_error": "Change of log Z on a grid of half as many points a side",
    **IMAGE_LABELS,
    "energy_distance_short": "Energy distance, short-run samples",
    "energy_distance_long": "Energy distance, long-run samples",
    "energy_distance_data": "Energy distance, chains from data",
    "energy_distance_mala": "Energy distance, chains with the Metropolis test",
    "neighbours_short": "Nearest neighbours of their own kind, short-run samples",
    "neighbours_long": "Nearest neighbours of their own kind, long-run samples",
    "neighbours_data": "Nearest neighbours of their own kind, chains from data",
    "neighbours_mala": "Nearest neighbours of their own kind, chains with the Metropolis test",
    "energy_distance_floor": "Energy distance, two samples of the data (floor)",
    "lost_chains_short": "Short-run chains lost to numbers that are not finite",
    "lost_chains_long": "Long-run chains lost to numbers that are not finite",
    "lost_chains_data": "Chains from data lost to numbers that are not finite",
    "lost_chains_refined": "Refined images lost to numbers that are not finite",
    "lost_chains_mala": "Chains with the Metropolis test lost",
    "u_shift": "Mean U of long-run chains less that of data, in the data's standard deviations",
    "u_drift": "Change of their median U over the second half, in the same",
    "rhat": "R-hat of long chains, the worst of U and coordinates",
    "chain_ess": "Effective share of their draws, the worst of the same",
    "acceptance": "Acceptance of the training's step under a Metropolis test",
    "mala_acceptance": "Acceptance of chains with the Metropolis test",
    "mala_step": "Their step, adapted",
    "entropy": "Entropy of the data, nats",
    "coldness": "Coldness",
    "samples": "Samples compared",
    "short_steps": "Steps of short-run chains",
    "long_steps": "Steps of long-run chains",
    "data_steps": "Steps of chains from data",
    "iterations": "Iterations",
    "seconds": "Seconds of training",
}

TRAINING = {
    "health_window": "Iterations at the end that the following are of",
    "beta": "beta at the end",
    "expansion_share": "Share of updates that expand",
    "contraction_share": "Share of updates that contract",
    "d_size": "Median of |d|, nats",
    "d_growth": "Growth of |d|",
    "variance_ratio": "Variance ratio of d",
    "variance_ratio_limit": "Below which oscillation is strong",
    "d_lowest": "Lowest autocorrelation of d, lags 1 to 15",
    "r_lowest": "Lowest autocorrelation of r, lags 1 to 15",
    "d_then_r": "Correlation of d and the next r",
    "d_with_r": "Correlation of d and r",
    "loss_variance": "Variance of the loss over pairs",
    "loss_snr": "Signal to noise of the loss",
    "weight_ess_median": "Effective share of the weights, median",
    "weight_ess_least": "Effective share of the weights, least",
    "largest_weight_median": "Largest weight, median",
    "grad_scale_median": "Gradient scale, median",
    "starved_share": "Share of starved updates",
    "bank_age": "Mean steps of a bank's chains",
    "bank_untouched": "Share of a bank that never ran",
    "bank_near_start": "Share of a bank nearer to fresh starts than to data",
    "bank_near_start_data": "The same share of data",
    "bank_saturated": "Share of a bank with U below the data's lowest hundredth",
    "bank_duplicates": "Share of a bank that is there twice",
    "bank_spacing": "Spacing of a bank over that of data",
    "bank_lost": "Chains of a bank that are not finite",
    "bank_outside": "Share of a bank far outside of the data",
    "guard_alarms": "Alarms of the guard",
    "guard_rollbacks": "Rollbacks of the guard",
    "guard_warnings": "Warnings of the guard",
    "guard_stopped": "Given up by the guard",
}

OTHERS = {"auroc": "AUROC", "aupr": "AUPR", "fpr95": "FPR95"}
SCORES = {"logp": "log p", **OTHER_SCORES}
BESIDE = {"_best": ", the true density", "_plain": ", the better of two plain models"}


def label(key: str) -> str:
    """Of a figure in metrics.json, by number for further sources; its own name if it has none."""
    figure, _, rest = key.partition("_")
    score, found, name = rest.partition("_")
    if found and figure in OTHERS and score in SCORES:
        of = next((end for end in BESIDE if name.endswith(end)), "")
        what = f"{OTHERS[figure]} of {SCORES[score]}"
        name = name.removesuffix(of)
        return f"{what} against {NAMES.get(name, name)}{BESIDE.get(of, '')}"
    head, _, tail = key.rpartition("_")
    if head in ("d_lag", "r_lag"):
        return f"Autocorrelation of {head[0]}, lag {tail}"
    if tail.isdigit() and head in TRAINING:
        return f"{TRAINING[head]}, source {tail}"
    return {**LABELS, **TRAINING}.get(key, key)


def in_order(keys: Iterable[str]) -> list[str]:
    """Keys that have a place first, in its order."""
    keys = list(keys)
    return [key for key in LABELS if key in keys] + [key for key in keys if key not in LABELS]
