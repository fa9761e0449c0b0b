"""The contrast: the weighted difference of potentials between data and negatives.

With U = -f, relative weights w~(x) = exp(-beta U(x)), chains drawn from p^(1 - beta), N positives
x+ and M negatives x-:

    w_j  = w~(x-_j) / sum_k w~(x-_k)                                       (Eq. 5)
    w+_i = w~(x+_i) / (w~(x+_i) + sum_k w~(x-_k))                          (Eq. 8)
    loss = sum_i a_i U(x+_i) - sum_j b_j U(x-_j)

    standard (beta = 0)    a_i = 1/N               b_j = 1/M               (Eq. 3)
    no_positive            a_i = 1/N               b_j = w_j               (Eq. 7)
    default                a_i = (1 - w+_i)/N      b_j = w_j g             (Eq. 8)
    batch_corrected        a_i = g/N               b_j = w_j g             (Eq. 33)
    true_objective         a_i = g_other/N         b_j = w_j g             (Eq. 34)

GradScale is g = mean_i (1 - w+_i) (Eq. 30), and g_other is that of the half of the batch that does
not contain i. a and b are detached, so that the gradient of the loss is exactly that of the
equation and the weights can be inspected. Eqs. 30, 33 and 34 as printed lack the factor 1/N on the
positive sum.

Adding a constant to U changes nothing. As beta -> 0, the default becomes M/(M+1) times the standard
loss (Eq. 36); at beta = 0 it is the standard loss itself, as in Algorithm 1.

Several sources: with weight l_s and M_s chains in source s, each of its negatives is multiplied by
M l_s / (M_s sum l) in the sums over w~, and the loss is multiplied by sum l. With beta = 0 this is
sum_s l_s (mean U(x+) - mean U(x-_s)), the hybrid loss (Revisiting Contrastive Divergence, Eq. 6).

Chains may carry log weights A of their own (chains/weighted_bank.py). Each negative of such a
source is also multiplied by exp(A_j) over the mean of exp(A) in its source, so that the importance
weights of one source are w_j = exp(A_j - beta U_j) / sum_k exp(A_k - beta U_k), and Eq. 8 does not
depend on a constant added to A. With beta = 0 they are exp(A_j) / sum_k exp(A_k).

References:
    Energy-Based Model Training Objective Robust to Inaccurate SGLD Samples, Eqs. 3 to 8, 30 to 36,
    Algorithm 1; Appendix G for tempering and beta that do not sum to one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from coldness.schedules import Schedule, value_at

Variant = Literal["default", "no_positive", "batch_corrected", "true_objective"]


class Contrasted(NamedTuple):
    """The loss on potentials U, metrics to log, and the weights."""

    loss: Tensor
    metrics: dict[str, Tensor]
    weights: Weights


class Weights(NamedTuple):
    """Detached weights: a (N,) of data, b (M,) of negatives, w (M,) with sum 1, and GradScale g."""

    a: Tensor
    b: Tensor
    w: Tensor
    g: Tensor


@dataclass(frozen=True)
class Contrast:
    """The beta family of objectives.

    Args:
        beta: exponent of the importance weights exp(-beta U) of negatives, any real number or a
            schedule over training: 0 is standard training, values near 1 rely least on the
            chains, and negative values are for samplers that are too cold.
        variant: how positives are weighted: `default`, `no_positive`, `batch_corrected` or
            `true_objective`. The variants differ only if beta is not 0.
        tempering: t; chains sample exp(-t U); None (null in YAML) for 1 - beta.
    """

    beta: float | Schedule = 0.0
    variant: Variant = "default"
    tempering: float | Schedule | None = None

    def tempering_at(self, beta: float | Schedule, t: int, n: int) -> float:
        """Returns the tempering of the chains at iteration t of n: 1 - beta unless it is set."""
        if self.tempering is not None:
            return value_at(self.tempering, t, n)
        return 1 - value_at(beta, t, n)

    def weights(
        self, u_data: Tensor, u_model: Tensor, beta: float, shares: Tensor | None = None
    ) -> Weights:
        """Returns the weights of the equations above.

        `shares` (M,) are the factors of negatives due to the weights of sources and to the weights
        that chains carry; their mean is 1.
        """
        u_data, u_model = u_data.detach(), u_model.detach()
        n = len(u_data)
        even = u_data.new_full((n,), 1 / n)
        if beta == 0:
            w = u_model.new_full((len(u_model),), 1 / len(u_model))
            w = w if shares is None else w * shares
            return Weights(even, w, w, u_data.new_ones(()))
        log_w = -beta * u_model if shares is None else shares.log() - beta * u_model
        log_sum = torch.logsumexp(log_w, 0)
        w = (log_w - log_sum).exp()
        if self.variant == "no_positive":
            return Weights(even, w, w, u_data.new_ones(()))
        kept = torch.sigmoid(log_sum + beta * u_data)  # 1 - w+
        if self.variant == "default":
            g = kept.mean()
            return Weights(kept / n, w * g, w, g)
        if self.variant == "batch_corrected":
            g = kept.mean()
            return Weights(even * g, w * g, w, g)
        if n < 2:
            raise ValueError(
                "the variant true_objective needs at least two data examples per batch"
            )
        half = n // 2
        first, second = kept[:half].mean(), kept[half:].mean()
        a = torch.cat(
            [(second / (2 * half)).expand(half), (first / (2 * (n - half))).expand(n - half)]
        )
        g = (first + second) / 2
        return Weights(a, w * g, w, g)

    def __call__(
        self,
        u_data: Tensor,
        u_model: Sequence[Tensor],
        beta: float,
        source_weights: Sequence[float] = (1.0,),
        log_weights: Sequence[Tensor | None] | None = None,
    ) -> Contrasted:
        """Returns the loss on potentials U, metrics to log, and the weights, all as tensors.

        Args:
            u_data: U of the data, (N,).
            u_model: U of the negatives, one tensor (M_s,) per source.
            beta: value of beta at this iteration.
            source_weights: l_s, one number per source.
            log_weights: A of the chains, (M_s,) per source, or None for a source whose chains carry
                none; None if no chains do.
        """
        together = u_model[0] if len(u_model) == 1 else torch.cat(list(u_model))
        whole = float(sum(source_weights))
        shares, carried = _shares(u_model, source_weights), _carried(u_model, log_weights)
        if carried is not None:
            shares = carried if shares is None else shares * carried
        weights = self.weights(u_data, together, beta, shares)
        loss = whole * ((weights.a * u_data).sum() - (weights.b * together).sum())
        metrics = _metrics(u_data.detach(), together.detach(), weights, carried)
        return Contrasted(loss, metrics, weights)


def _shares(u_model: Sequence[Tensor], source_weights: Sequence[float]) -> Tensor | None:
    if len(u_model) != len(source_weights):
        raise ValueError(
            f"got {len(u_model)} sources with {len(source_weights)} weights: give one per source"
        )
    if len(u_model) == 1:
        return None
    chains, whole = sum(len(u) for u in u_model), sum(source_weights)
    return torch.cat(
        [
            u.new_full((len(u),), chains * weight / (len(u) * whole))
            for u, weight in zip(u_model, source_weights, strict=True)
        ]
    )


def normalised(log_weights: Tensor) -> Tensor:
    """exp(A) divided by its mean, (M,)."""
    return torch.softmax(log_weights, 0) * len(log_weights)


def _carried(
    u_model: Sequence[Tensor], log_weights: Sequence[Tensor | None] | None
) -> Tensor | None:
    """Factors (M,) of negatives due to the weights that chains carry; None if no chains do."""
    if log_weights is None or all(a is None for a in log_weights):
        return None
    return torch.cat(
        [
            torch.ones_like(u) if a is None else normalised(a).to(u)
            for u, a in zip(u_model, log_weights, strict=True)
        ]
    ).detach()


def moments(u: Tensor, carried: Tensor | None) -> tuple[Tensor, Tensor]:
    """Standard deviation and mean of potentials (M,), with the weights that chains carry."""
    if carried is None:
        std, mean = torch.std_mean(u, correction=0)
        return std, mean
    mean = (carried * u).mean()
    return (carried * (u - mean).square()).mean().sqrt(), mean


def _metrics(
    u_data: Tensor, u_model: Tensor, weights: Weights, carried: Tensor | None
) -> dict[str, Tensor]:
    """Returns metrics to log.

    d is that of the Anatomy paper: the mean U of the data minus the mean U of the negatives. The
    moments of negatives are weighted by what chains carry, not by exp(-beta U).
    """
    std_data, mean_data = torch.std_mean(u_data, correction=0)
    std_model, mean_model = moments(u_model, carried)
    return {
        "d": mean_data - mean_model,
        "u_data_mean": mean_data,
        "u_data_std": std_data,
        "u_model_mean": mean_model,
        "u_model_std": std_model,
        "weight_ess": 1 / (weights.w.square().sum() * len(weights.w)),
        "largest_weight": weights.w.max(),
        "grad_scale": weights.g,
    }
