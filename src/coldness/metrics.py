"""The registry of metrics: every number that metrics.json can hold has one entry here.

An entry says what a metric is called, its unit, which direction is better, which differences are
too small to count, and which of the five questions of a report it serves. Tables, comparisons,
studies and docs/metrics.md read these entries; nothing else spells them out.

    metric(key)                  the entry of a key; KeyError where there is none
    source_key(name, source)     the key or column of a source
    of_sources(columns, name)    the columns of every source, by its number

Sources. A run may draw its negatives from several sources. Source 0 has the plain name, the others
name_1, name_2 ... in metrics.csv and in metrics.json. `d_lag_1` is a lag, not a source: only
entries that are `per_source` have such keys.

Families. Keys made of parts are entries too: MEASURE_SCORE_SET of out-of-distribution detection,
whose sets may be files of any name, and d_lag_N, r_lag_N, are made when they are looked up.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

Topic = Literal["generation", "long_chains", "density", "ood", "training"]
Better = Literal["lower", "higher", "nearest", "none"]

QUESTIONS: dict[Topic, str] = {
    "generation": "Does it generate from noise?",
    "long_chains": "Do long chains keep the quality?",
    "density": "Is its density right?",
    "ood": "Does it detect out-of-distribution points?",
    "training": "Was training healthy?",
}
"""What people ask of a model, in the order that reports answer it."""


@dataclass(frozen=True)
class Metric:
    """One metric.

    Args:
        key: in metrics.json, without the number of a source.
        label: what it is, for people.
        unit: nats, seconds ...; "fraction" and "count" are said by the label itself.
        better: which direction is better; "none" where there is no better.
        target: what `nearest` is nearest to.
        tolerance: differences up to this count as none.
        relative: the same, as a fraction of the value.
        floor: key of a metric; differences up to its size count as none.
        bracket: keys BRACKET_low and BRACKET_high are bounds of the metric, where there are any.
        by_samples: whether it depends on the number of samples, so that runs with different
            numbers do not compare.
        question: which it serves.
        short: label for narrow tables.
        per_source: whether every source has one.
        source: which source this one is of.
    """

    key: str
    label: str
    unit: str = ""
    better: Better = "none"
    question: Topic | None = None
    tolerance: float = 0.0
    target: float = 0.0
    relative: float = 0.0
    floor: str = ""
    bracket: str = ""
    by_samples: bool = False
    short: str = ""
    per_source: bool = False
    source: int = 0

    @property
    def name(self) -> str:
        """In metrics.json."""
        return source_key(self.key, self.source)

    @property
    def title(self) -> str:
        """The label with its unit, and the source from the second on."""
        of = f", source {self.source}" if self.source else ""
        return _with_unit(self.label + of, self.unit)

    @property
    def short_title(self) -> str:
        """For narrow tables."""
        return _with_unit(self.short or self.label, self.unit)

    def loss(self, value: float) -> float:
        """What should be small.

        Raises:
            ValueError: the metric has no better direction.
        """
        if self.better == "none":
            raise ValueError(f"{self.key} has no better direction")
        if self.better == "nearest":
            return abs(value - self.target)
        return value if self.better == "lower" else -value

    def slack(self, value: float, metrics: Mapping[str, float]) -> float:
        """Differences from this value that count as none, among the metrics of its run."""
        floor = abs(metrics.get(self.floor, 0.0)) if self.floor else 0.0
        return self.tolerance + self.relative * abs(value) + floor  # at most one is set


def _with_unit(label: str, unit: str) -> str:
    return label if unit in ("", "fraction", "count") else f"{label}, {unit}"


# Sources.


def source_key(name: str, source: int) -> str:
    """The key or column `name` of a source: plain for source 0."""
    return f"{name}_{source}" if source else name


def of_sources(columns: Iterable[str], name: str) -> dict[int, str]:
    """Columns name, name_1, name_2 ... that are there, by the number of their source."""
    found = ((_source(column, name), column) for column in columns)
    return dict(sorted((source, column) for source, column in found if source is not None))


def _source(column: str, name: str) -> int | None:
    if column == name:
        return 0
    number = column.removeprefix(f"{name}_")
    return int(number) if number != column and re.fullmatch("[1-9][0-9]*", number) else None


# Entries, in the order of tables.

OF_U = "standard deviations of U on data"

CHAINS: dict[str, tuple[str, Topic]] = {
    "short": ("short-run samples", "generation"),
    "long": ("long-run samples", "long_chains"),
    "data": ("chains from data", "long_chains"),
    "mala": ("Metropolis-adjusted chains", "long_chains"),
}
"""Chains whose samples are compared with data: their name, and the question they serve."""

ELSEWHERE = 0.01
"""Fraction of the model's mass away from the data that is worth a sentence."""

DENSITY = (
    Metric(
        "kl", "KL(data || model)", "nats", "lower", "density",
        tolerance=0.005, bracket="kl",
    ),
    Metric("kl_low", "KL(data || model), lower end of its bracket", "nats", "lower", "density"),
    Metric("kl_high", "KL(data || model), upper end of its bracket", "nats", "lower", "density"),
    Metric("reverse_kl", "KL(model || data)", "nats", "lower", "density"),
    Metric(
        "reverse_kl_low", "KL(model || data), lower end of its interval", "nats", "lower", "density"
    ),
    Metric(
        "reverse_kl_high", "KL(model || data), upper end of its interval", "nats", "lower",
        "density",
    ),
    Metric("tv", "Total variation", "", "lower", "density", tolerance=0.005),
    Metric(
        "slice_kl", "KL(data || model) on the slice", "nats", "lower", "density",
        short="KL on the slice",
    ),
    Metric("slice_tv", "Total variation on the slice", "", "lower", "density"),
    Metric("kl_gaussian", "KL(data || Gaussian with its moments)", "nats", "none", "density"),
    Metric(
        "mode_share", "Model's mass in the data's largest mode, of that in all its modes",
        "fraction", "none", "density", short="Share of the largest mode",
    ),
    Metric("mode_share_data", "Data's mass in its largest mode", "fraction", "none", "density"),
    Metric(
        "mode_share_error", "Total variation of mode shares between data and model", "fraction",
        "lower", "density", tolerance=0.01, short="Error of mode shares",
    ),
    Metric(
        "mode_share_ess", "Effective fraction of the points that mode shares are estimated from",
        "fraction", "higher", "density",
    ),
    Metric(
        "log_likelihood_test", "Log-likelihood of held-out or fresh points", "nats per point",
        "higher", "density", tolerance=0.005, bracket="log_likelihood", short="Log-likelihood",
    ),
    Metric(
        "log_likelihood_low", "Log-likelihood, lower end of its bracket", "nats per point",
        "higher", "density",
    ),
    Metric(
        "log_likelihood_high", "Log-likelihood, upper end of its bracket", "nats per point",
        "higher", "density",
    ),
    Metric(
        "log_likelihood_train", "Log-likelihood of training points", "nats per point",
        "none", "density",
    ),
    Metric(
        "log_likelihood_gaussian", "Log-likelihood of held-out points under a Gaussian",
        "nats per point", "none", "density",
    ),
    Metric(
        "log_likelihood_kde", "Log-likelihood of held-out points under a kernel density estimate",
        "nats per point", "none", "density",
    ),
    Metric(
        "log_likelihood_mixture", "Log-likelihood of held-out points under a Gaussian mixture",
        "nats per point", "none", "density",
    ),
    Metric("mixture_components", "Components of that mixture, by BIC", question="density"),
    Metric(
        "log_likelihood_kde_cv",
        "Log-likelihood of held-out points under a kernel density estimate, cross-validated",
        "nats per point", "none", "density",
    ),
    Metric(
        "kde_bandwidth", "Bandwidth of the cross-validated kernel density estimate",
        "standard deviations", question="density",
    ),
    Metric(
        "mass_outside", "Fraction of the model's mass outside the data's box", "fraction",
        "lower", "density",
    ),
    Metric(
        "tv_estimate", "Total variation, estimated from data points", "", "lower", "density"
    ),
    Metric(
        "mass_off_grid", "Fraction of the model's mass outside the grid", "fraction", "lower",
        "density",
    ),
    Metric(
        "mass_off_grid_error", "Standard error of the mass outside the grid", "fraction", "none",
        "density",
    ),
    Metric("searched", "Mass away from the data was searched for (1 = yes)", "", "none", "density"),
    Metric(
        "mass_elsewhere", "Fraction of the model's mass away from the data", "fraction", "lower",
        "density",
    ),
    Metric(
        "mass_elsewhere_error", "Standard error of the mass away from the data", "fraction", "none",
        "density",
    ),
    Metric(
        "elsewhere_dimension", "Coordinate in which that mass deviates most (1 = first)",
        question="density",
    ),
    Metric("elsewhere_value", "Mean of that mass in this coordinate", "", "none", "density"),
    Metric(
        "elsewhere_deviation", "The same, as distance from the data's mean",
        "standard deviations of the data", "none", "density",
    ),
    Metric(
        "auroc_elsewhere", "AUROC of log p against the model's own mass away from the data", "",
        "higher", "ood",
    ),
    Metric(
        "mode_weight_error", "Difference of mode weights of model and data, less chance",
        "fraction", "lower", "density",
    ),
    Metric("mode_weight_noise", "Standard error of that difference", "fraction", "none", "density"),
    Metric(
        "tail_flat", "Fraction of directions along which exp(-U) falls too slowly to be normalised",
        "fraction", "lower", "density",
    ),
    Metric("log_z", "log Z", "nats", "none", "density"),
    Metric("log_z_low", "log Z, lower end of its bracket", "nats", "none", "density"),
    Metric("log_z_high", "log Z, upper end of its bracket", "nats", "none", "density"),
    Metric("log_z_forward", "log Z, from the Gaussian (forward)", "nats", question="density"),
    Metric("log_z_forward_error", "Standard error of that, forward", "nats", question="density"),
    Metric("log_z_reverse", "log Z, from data (reverse)", "nats", question="density"),
    Metric("log_z_reverse_error", "Standard error of that, reverse", "nats", question="density"),
    Metric("log_z_wide", "log Z, from a wide Gaussian", "nats", question="density"),
    Metric("log_z_wide_error", "Standard error of that, wide", "nats", question="density"),
    Metric(
        "log_z_crossed", "Reverse estimate of log Z below the forward one, if significant", "nats",
        "lower", "density",
    ),
    Metric(
        "log_z_ess_wide", "Effective fraction of AIS chains, from a wide Gaussian", "fraction",
        "higher", "density",
    ),
    Metric(
        "log_z_ess_forward", "Effective fraction of AIS chains, forward (from the Gaussian)",
        "fraction", "higher", "density", short="Effective AIS chains, forward",
    ),
    Metric(
        "log_z_ess_reverse", "Effective fraction of AIS chains, reverse (from data)",
        "fraction", "higher", "density", short="Effective AIS chains, reverse",
    ),
    Metric(
        "log_z_failed", "AIS failed: potentials became NaN or infinite (1 = yes)", "",
        "lower", "density",
    ),
    Metric(
        "log_z_error", "Change of log Z on a grid with half as many points per side", "nats",
        "lower", "density",
    ),
)  # fmt: skip

CLASSES = (
    Metric(
        "accuracy", "Accuracy on held-out images", "fraction", "higher", tolerance=0.005,
        short="Accuracy",
    ),
    Metric(
        "ece", "Expected calibration error (ECE)", "fraction", "lower", tolerance=0.005,
        short="ECE",
    ),
    Metric(
        "accuracy_refined", "Accuracy after refinement", "fraction", "higher", tolerance=0.005,
        short="Accuracy, refined",
    ),
    Metric(
        "ece_refined", "ECE after refinement", "fraction", "lower", tolerance=0.005,
        short="ECE, refined",
    ),
    Metric(
        "class_agreement",
        "Fraction of class-conditional samples that a separate classifier assigns to their class",
        "fraction", "higher", tolerance=0.02, short="Class agreement",
    ),
    Metric(
        "judge_accuracy", "Accuracy of that separate classifier on held-out images", "fraction",
    ),
    Metric(
        "accuracy_best", "Best accuracy on the validation part during training", "fraction",
        "higher",
    ),
)  # fmt: skip

OF_ASKED = "Fraction of samples that a separate classifier finds to have"
LATENTS = (
    Metric(
        "alignment", "Cosine between the model's direction and the encoder's latent", "", "higher",
        tolerance=0.01, short="Alignment",
    ),
    Metric(
        "knn_accuracy", "Accuracy of nearest neighbours by the encoder's features", "fraction",
        "higher", tolerance=0.005, short="k-NN accuracy",
    ),
    Metric(
        "probe_accuracy", "Accuracy of a linear classifier on the encoder's features", "fraction",
        "higher", tolerance=0.005, short="Linear probe accuracy",
    ),
    Metric(
        "direction_accuracy", "Accuracy of the class latent nearest to the model's direction",
        "fraction", "higher", tolerance=0.005, short="Accuracy by direction",
    ),
    Metric(
        "like_agreement", "Fraction of samples like an image that are of the class of that image",
        "fraction", "higher", tolerance=0.02, short="Class agreement, like an image",
    ),
    Metric(
        "attribute_agreement", f"{OF_ASKED} the attribute asked for", "fraction", "higher",
        tolerance=0.02, short="Attribute agreement, one",
    ),
    Metric(
        "attribute_agreement_2", f"{OF_ASKED} both attributes asked for", "fraction", "higher",
        tolerance=0.02, short="Attribute agreement, two",
    ),
    Metric(
        "attribute_agreement_3", f"{OF_ASKED} all three attributes asked for", "fraction",
        "higher", tolerance=0.02, short="Attribute agreement, three",
    ),
    Metric(
        "attribute_agreement_not", "Fraction of samples that lack the attribute that was negated",
        "fraction", "higher", tolerance=0.02, short="Attribute agreement, negated",
    ),
    Metric(
        "attribute_judge_accuracy",
        "Accuracy of that separate classifier on held-out images, hardest property", "fraction",
    ),
)  # fmt: skip

FEATURES = {
    "effnet": ("EfficientNet-Lite0", ("Kernel distance", "Fr\u00e9chet distance", "Class score")),
    "inception": ("Inception", ("KID", "FID", "Inception Score")),
}
"""KID, FID and Inception Score are metrics of Inception's features; what those of EfficientNet give
has names of its own."""

IMAGES: dict[str, tuple[str, Topic]] = {
    "short": ("short-run samples", "generation"),
    "long": ("long-run samples", "long_chains"),
    "bank": ("replay buffer (bank)", "training"),
    "from_data": ("chains from data", "long_chains"),
    "floor": ("training against test images (floor)", "generation"),
}
COARSE = {"half": "half", "quarter": "a quarter"}
"""Resolutions of training images whose kernel distance that of samples is graded by."""

VARIES = 0.02
"""Fraction: FIDs, and Inception Scores, that differ by less are not told apart."""


def _quality() -> Iterator[Metric]:
    """Sample quality of images, by measure, features and chains: kid_effnet_short."""
    for features, (network, names) in FEATURES.items():
        for measure, name in zip(("kid", "fid", "is"), names, strict=True):
            better: Better = "higher" if measure == "is" else "lower"
            for chains, (of, question) in IMAGES.items():
                yield Metric(
                    f"{measure}_{features}_{chains}",
                    f"{name} of {network} features, {of}",
                    "",
                    "none" if chains == "floor" else better,
                    question,
                    relative=0.0 if measure == "kid" else VARIES,
                    floor=f"kid_{features}_floor" if measure == "kid" else "",
                    by_samples=measure != "kid",
                    short=f"{name} ({network.partition('-')[0]}), {of.removesuffix(' samples')}",
                )
    for features, (network, names) in FEATURES.items():
        for which, of in COARSE.items():
            yield Metric(
                f"kid_{features}_{which}",
                f"{names[0]} of {network} features, training images at {of} of the resolution",
                question="generation",
            )


def _samples() -> Iterator[Metric]:
    """Samples of chains against data."""
    for chains, (of, question) in CHAINS.items():
        yield Metric(
            f"energy_distance_{chains}", f"Energy distance, {of}", "", "lower", question,
            floor="energy_distance_floor", by_samples=True,
            short=f"Energy distance, {of.removesuffix(' samples')}",
        )  # fmt: skip
    for chains, (of, question) in CHAINS.items():
        yield Metric(
            f"neighbours_{chains}", f"1-NN two-sample test (0.5 = indistinguishable), {of}",
            "fraction", "nearest", question, target=0.5, tolerance=0.02, by_samples=True,
            short=f"1-NN test (0.5 = indistinguishable), {of.removesuffix(' samples')}",
        )  # fmt: skip
    yield Metric(
        "energy_distance_floor", "Energy distance, two samples of the data (floor)",
        question="generation", by_samples=True, short="Energy distance, floor",
    )  # fmt: skip
    lost: dict[str, tuple[str, Topic | None]] = {
        "short": ("Short-run chains", "generation"),
        "long": ("Long-run chains", "long_chains"),
        "data": ("Chains from data", "long_chains"),
        "refined": ("Refined images", None),
        "mala": ("Metropolis-adjusted chains", "long_chains"),
    }
    for chains, (of, serves) in lost.items():
        label = f"{of} that became NaN or infinite"
        yield Metric(f"lost_chains_{chains}", label, "count", "lower", serves)


COLUMNS = (
    Metric(
        "column_distance", "Kolmogorov-Smirnov distance of samples to held-out rows, worst column",
        "", "lower", "generation", by_samples=True, short="Distance, worst column",
    ),
    Metric(
        "pairs_differ", "Pairs of columns in which samples differ from held-out rows", "count",
        "lower", "generation", by_samples=True,
    ),
    Metric("pairs_tested", "Pairs of columns that were tested", "count", question="generation"),
    Metric(
        "pairs_rows", "Rows on either side of the tests of pairs", "count", question="generation"
    ),
)  # fmt: skip

LONG_CHAINS = (
    Metric(
        "u_shift", "Mean U of long-run chains minus that of data", OF_U, "nearest",
        "long_chains", tolerance=0.05, short="Shift of U, long-run",
    ),
    Metric(
        "u_drift", "Change of the median U of long-run chains over their second half", OF_U,
        "nearest", "long_chains", short="Drift of U, long-run",
    ),
    Metric(
        "rhat", "R-hat of long-run chains, the worst of U and coordinates", "", "nearest",
        "long_chains", target=1.0,
    ),
    Metric(
        "chain_ess", "Effective sample size per draw of long-run chains, the worst of the same",
        "fraction", "higher", "long_chains",
    ),
    Metric(
        "acceptance", "Acceptance rate of the training step under a Metropolis test", "fraction",
        "higher", "long_chains", short="Acceptance rate of the step",
    ),
    Metric(
        "mala_acceptance", "Acceptance rate of Metropolis-adjusted chains", "fraction",
        question="long_chains",
    ),
    Metric(
        "mala_step", "Adapted step size of Metropolis-adjusted chains", question="long_chains",
    ),
)  # fmt: skip

RUN = (
    Metric("entropy", "Entropy of the data", "nats", question="density"),
    Metric("coldness", "Coldness"),
    Metric("samples", "Number of samples compared", "count"),
    Metric("short_steps", "Steps of short-run chains", "count", question="generation"),
    Metric("long_steps", "Steps of long-run chains", "count", question="long_chains"),
    Metric("data_steps", "Steps of chains from data", "count", question="long_chains"),
    Metric("iterations", "Iterations", "count"),
    Metric("seconds", "Training time", "seconds", "lower"),
)


def _training() -> Iterator[Metric]:
    """Of the series of a training and of what the guard did."""

    def entry(
        key: str, label: str, unit: str = "", better: Better = "none", target: float = 0.0
    ) -> Metric:
        return Metric(key, label, unit, better, "training", target=target)

    yield entry("health_window", "Iterations at the end of training that are looked at", "count")
    yield entry("beta", "beta at the end of training")
    yield entry("expansion_share", "Fraction of updates that expand", "fraction", "nearest", 0.5)
    yield entry(
        "contraction_share", "Fraction of updates that contract", "fraction", "nearest", 0.5
    )
    yield entry("updates_made", "Fraction of iterations with an update", "fraction", "higher")
    yield entry("d_size", "Median of |d|", "nats", "lower")
    yield entry("d_growth", "Growth of |d| (1 = none)", "", "nearest", 1.0)
    yield entry("variance_ratio", "Variance ratio of d (1 = no oscillation)", "", "nearest", 1.0)
    yield entry("variance_ratio_limit", "Variance ratio below which oscillation is strong")
    yield entry("d_lowest", "Lowest autocorrelation of d, lags 1 to 15")
    yield entry("r_lowest", "Lowest autocorrelation of r, lags 1 to 15")
    yield entry("d_then_r", "Correlation of d with the next r")
    yield entry("d_with_r", "Correlation of d with r")
    for each in (
        entry("loss_variance", "Variance of the loss over pairs", "nats squared", "lower"),
        entry("loss_snr", "Signal-to-noise ratio of the loss", "", "higher"),
        entry(
            "weight_ess_median", "Effective fraction of the weights, median", "fraction", "higher"
        ),
        entry(
            "weight_ess_least", "Effective fraction of the weights, lowest", "fraction", "higher"
        ),
        entry("largest_weight_median", "Largest weight, median", "fraction", "lower"),
        entry("grad_scale_median", "Gradient scale, median", "fraction"),
    ):
        yield replace(each, per_source=True)
    yield entry("starved_share", "Fraction of starved updates", "fraction", "lower")
    bank = "Replay buffer (bank):"
    for each in (
        entry("bank_age", f"{bank} mean steps per chain", "count"),
        entry("bank_untouched", f"{bank} fraction of chains that never ran", "fraction", "lower"),
        entry(
            "bank_near_start", f"{bank} fraction of chains nearer to fresh starts than to data",
            "fraction", "lower",
        ),
        entry("bank_near_start_data", f"{bank} the same fraction of data", "fraction"),
        entry(
            "bank_saturated", f"{bank} fraction of chains with U below the data's lowest 1%",
            "fraction", "nearest", 0.01,
        ),
        entry("bank_duplicates", f"{bank} fraction of duplicate chains", "fraction", "lower"),
        entry(
            "bank_spacing", f"{bank} spacing of chains relative to that of data", "",
            "nearest", 1.0,
        ),
        entry("bank_lost", f"{bank} chains that became NaN or infinite", "count", "lower"),
        entry(
            "bank_outside", f"{bank} fraction of chains far outside of the data", "fraction",
            "lower",
        ),
    ):  # fmt: skip
        yield replace(each, per_source=True)
    live = "while training, last measured"
    yield entry("live_log_z", f"log Z of walkers {live}", "nats")
    yield entry("live_log_z_error", f"Standard error of log Z of walkers {live}", "nats", "lower")
    yield entry("live_ess", f"Effective fraction of walkers {live}", "fraction", "higher")
    yield entry(
        "live_log_likelihood", f"Log-likelihood of validation points {live}", "nats per point",
        "higher",
    )  # fmt: skip
    yield entry(
        "live_log_likelihood_error", f"Standard error of that log-likelihood {live}",
        "nats per point", "lower",
    )  # fmt: skip
    yield entry("kept_iteration", "Iteration whose weights were kept by early stopping", "count")
    yield entry("guard_alarms", "Guard: alarms", "count", "lower")
    yield entry("guard_rollbacks", "Guard: rollbacks", "count", "lower")
    yield entry("guard_warnings", "Guard: warnings", "count", "lower")
    yield entry("guard_stopped", "Guard: run stopped (1 = yes)", "", "lower")


# Out-of-distribution detection.

SCORES = {
    "logp": "log p",
    "maxp": "the largest class probability",
    "grad": "the gradient norm",
    "typical": "typicality",
    "joint": "the joint score of energy and latent",
}
"""What ranks data above other points (evaluation/scores.py)."""

SETS = {
    "uniform": "uniform noise",
    "gaussian": "a Gaussian",
    "shuffled": "shuffled coordinates",
    "model": "samples of the model",
    "noise": "uniform noise",
    "interpolated": "averages of two images",
    "constant": "images of one colour",
}
"""Sets of out-of-distribution points; others are called by the names of their files."""

MEASURES: dict[str, tuple[str, Better]] = {
    "auroc": ("AUROC", "higher"),
    "aupr": ("AUPR", "higher"),
    "fpr95": ("FPR95", "lower"),
}
BASELINES = {"best": "the true density", "plain": "the better of two plain models"}
"""What the same points were ranked by for comparison."""

_OOD = re.compile(
    rf"({'|'.join(MEASURES)})_({'|'.join(SCORES)})_(.+?)(?:_({'|'.join(BASELINES)}))?"
)
_LAG = re.compile("([dr])_lag_([1-9][0-9]*)")


def set_names(keys: Iterable[str], score: str = "logp") -> list[str]:
    """The sets that there is an AUROC of this score of."""
    found = (_OOD.fullmatch(key) for key in keys)
    return [m[3] for m in found if m and (m[1], m[2], m[4]) == ("auroc", score, None)]


def _ood(key: str) -> Metric | None:
    found = _OOD.fullmatch(key)
    if found is None:
        return None
    measure, score, name, baseline = found.groups()
    label, better = MEASURES[measure]
    label = f"{label} of {SCORES[score]} against {SETS.get(name, name)}"
    if baseline:
        return Metric(key, f"{label}, {BASELINES[baseline]}", "", "none", "ood")
    return Metric(key, label, "", better, "ood", tolerance=0.005)


LOWEST = {"lowest_auroc" if s == "logp" else f"lowest_auroc_{s}": s for s in SCORES}
"""Derived where runs are compared: the lowest AUROC of a score over all sets."""


def _lowest() -> Iterator[Metric]:
    for key, score in LOWEST.items():
        label = f"AUROC of {SCORES[score]}, hardest set"
        yield Metric(key, label, "", "higher", "ood", tolerance=0.005)


def _lag(key: str) -> Metric | None:
    found = _LAG.fullmatch(key)
    return found and Metric(
        key, f"Autocorrelation of {found[1]}, lag {found[2]}", "", "none", "training"
    )


REGISTRY: dict[str, Metric] = {
    entry.key: entry
    for entry in (
        *DENSITY,
        *CLASSES,
        *LATENTS,
        *_quality(),
        Metric(
            "nearest_ratio",
            "Distance of samples to the nearest training image, relative to that of test images",
            "", "nearest", "generation", target=1.0,
            short="Distance to training images (1 = as test images)",
        ),
        *_samples(),
        *COLUMNS,
        *LONG_CHAINS,
        *RUN,
        *_training(),
        *_lowest(),
    )
}  # fmt: skip
"""Entries by key, in the order of tables; those of families are made by `metric`."""


# Lookup.


def find(key: str) -> Metric | None:
    """The entry of a key of metrics.json, with its source; None where there is none."""
    if key in REGISTRY:
        return REGISTRY[key]
    head, _, _ = key.rpartition("_")
    entry, source = REGISTRY.get(head), _source(key, head)
    if entry is not None and entry.per_source and source is not None:
        return replace(entry, source=source)
    return _ood(key) or _lag(key)


def metric(key: str) -> Metric:
    """The entry of a key of metrics.json, with its source.

    Raises:
        KeyError: there is none.
    """
    found = find(key)
    if found is None:
        raise KeyError(f"there is no metric {key!r}")
    return found


def title(key: str) -> str:
    """What tables call a key: the key itself where it has no entry, as of another version."""
    found = find(key)
    return key if found is None else found.title


def in_order(keys: Iterable[str]) -> list[str]:
    """Keys in the order of tables; families and those without an entry last, as they come."""
    places = {key: place for place, key in enumerate(REGISTRY)}

    def place(key: str) -> tuple[int, int]:
        found = find(key)
        if found is None or found.key not in places:
            return len(places), 0
        return places[found.key], found.source

    return sorted(keys, key=place)


# Groups: which metrics a table has, in the order of its columns or rows.

COMPARED = (
    *("accuracy", "ece", "accuracy_refined", "ece_refined", "class_agreement"),
    *("knn_accuracy", "probe_accuracy", "direction_accuracy", "like_agreement"),
    *("attribute_agreement", "attribute_agreement_2", "attribute_agreement_3"),
    "attribute_agreement_not",
    *(entry.key for entry in _quality() if entry.better != "none"),
    *("energy_distance_short", "neighbours_short", "energy_distance_long", "neighbours_long"),
    *("u_shift", "kl", "tv", "log_likelihood_test"),
    *LOWEST,
    "seconds",
)
"""Runs side by side (trust/comparison.py). Not `alignment`: it is 1 for an encoder that has
collapsed to one direction, so that it does not compare runs with different encoders."""

STUDIED = (
    *("kl", "kl_low", "kl_high", "reverse_kl", "tv", "slice_kl", "slice_tv", "mass_outside"),
    *("kl_gaussian", "log_z_ess_forward", "log_z_ess_reverse"),
    *("mode_share", "mode_share_error", "mode_share_ess"),
    *("energy_distance_short", "energy_distance_long", "energy_distance_data"),
    *("energy_distance_mala", "energy_distance_floor"),
    *("neighbours_short", "neighbours_long", "neighbours_data", "neighbours_mala"),
    *("acceptance", "u_shift", "u_drift", "lost_chains_short", "lost_chains_long"),
    *("log_z_failed", "rhat", "chain_ess", "expansion_share", "variance_ratio"),
    *("variance_ratio_limit", "d_lag_1", "d_lag_2", "d_lag_3", "r_lag_1", "r_lag_2", "r_lag_3"),
    *("d_lowest", "r_lowest", "d_then_r", "d_with_r"),
    *("accuracy", "accuracy_best", "ece", "class_agreement"),
    *("kid_effnet_short", "kid_effnet_long", "kid_effnet_from_data", "kid_effnet_bank"),
    *("kid_effnet_floor", "auroc_logp_svhn", "auroc_grad_svhn", "auroc_typical_svhn"),
    *("auroc_joint_svhn", "auroc_logp_dtd", "auroc_joint_dtd", "auroc_logp_interpolated"),
    *("like_agreement", "alignment"),
    *("nearest_ratio", "weight_ess_median", "weight_ess_least", "d_size"),
)
"""Columns of a study's table."""

STUDY_PAGE = (
    *("accuracy", "ece"),
    *(entry.key for entry in _quality() if entry.short),
    *("auroc_logp_svhn", "kl", "reverse_kl", "tv", "slice_kl", "slice_tv"),
    *("mode_share", "mode_share_error"),
    *("energy_distance_short", "energy_distance_long", "energy_distance_data"),
    *("energy_distance_mala", "energy_distance_floor", "neighbours_short", "neighbours_long"),
    *("acceptance", "u_shift", "u_drift", "log_z_ess_forward", "log_z_ess_reverse", "seconds"),
)
"""Means over seeds on the page of a study."""


# Documentation.

ABOUT = """# Metrics

Every number in `metrics.json`, from the registry in `coldness.metrics`. The page is generated by
`coldness.metrics.reference()`.

*Better* is the direction that is better; "none" where there is no better. *Tolerance* is the
difference up to which two runs count as equal when `coldness compare` marks the best. Keys marked
with `[_k]` exist for every source: the plain key is of source 0, `_1` of source 1 and so on.
"""


def reference() -> str:
    """docs/metrics.md: a table of all metrics for every question, in Markdown."""
    lines = [ABOUT]
    headings: list[tuple[Topic | None, str]] = [*QUESTIONS.items(), (None, "Beside the questions")]
    for topic, heading in headings:
        lines += [
            f"## {heading}\n",
            "| key | metric | unit | better | tolerance |",
            "|---" * 5 + "|",
        ]
        lines += [_row(each) for each in REGISTRY.values() if each.question == topic]
        lines += [_row(each) for each in FAMILIES if each.question == topic]
        lines.append("")
    names = [f"`{name}` ({label})" for name, label in SCORES.items()]
    sets = [f"`{name}` ({label})" for name, label in SETS.items()]
    lines.append(
        f"SCORE is one of {', '.join(names)}. SET is one of {', '.join(sets)}, or the name of a "
        "file given with `--ood`. `lowest_auroc` and its variants are derived when runs are "
        "compared and are not in `metrics.json`."
    )
    return "\n".join(lines) + "\n"


FAMILIES = (
    *(
        Metric(f"{key}_SCORE_SET", f"{label} of a score against a set", "", better, "ood", 0.005)
        for key, (label, better) in MEASURES.items()
    ),
    *(
        Metric(f"MEASURE_SCORE_SET_{key}", f"The same for {label}", "", "none", "ood")
        for key, label in BASELINES.items()
    ),
    Metric("d_lag_N, r_lag_N", "Autocorrelation of d and of r at lag N", question="training"),
)
"""What stands for open families in the reference."""


def _row(entry: Metric) -> str:
    better = f"nearest to {entry.target:g}" if entry.better == "nearest" else entry.better
    key = f"`{entry.key}{'[_k]' * entry.per_source}`"
    label = entry.label.replace("|", "\\|")
    return f"| {key} | {label} | {entry.unit or '-'} | {better} | {_tolerance(entry)} |"


def _tolerance(entry: Metric) -> str:
    if entry.better == "none":
        return "-"
    if entry.floor:
        return f"`{entry.floor}`"
    if entry.relative:
        return f"{entry.relative:.0%} of the value"
    return f"{entry.tolerance:g}" if entry.tolerance else "-"
