"""The contrast against the equations of the beta paper, written out again here.

Energies are drawn by hypothesis, in float64. With f = -U, the paper's gradient with respect to
f(x+_i) is the weight a_i, and with respect to f(x-_j) it is -b_j.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from coldness.objectives import Contrast

VARIANTS = ("default", "no_positive", "batch_corrected", "true_objective")
every_variant = pytest.mark.parametrize("variant", VARIANTS)

potentials = st.lists(st.floats(-20, 20), min_size=1, max_size=7)
at_least_two = st.lists(st.floats(-20, 20), min_size=2, max_size=7)
betas = st.floats(0.01, 2).flatmap(lambda b: st.sampled_from([b, -b]))
many = settings(max_examples=60, deadline=None, database=None, derandomize=True)


def tensor(values: Sequence[float]) -> Tensor:
    return torch.tensor(list(values), dtype=torch.float64, requires_grad=True)


def gradient(
    contrast: Contrast,
    u_data: Sequence[float],
    u_model: Sequence[Sequence[float]],
    beta: float,
    source_weights: Sequence[float] = (1.0,),
) -> tuple[list[float], list[float]]:
    """Of the loss: with respect to U of the data, and to U of all negatives."""
    data, model = tensor(u_data), [tensor(u) for u in u_model]
    loss, *_ = contrast(data, model, beta, source_weights)
    loss.backward()
    return data.grad.tolist(), [g for u in model for g in u.grad.tolist()]


def paper(
    variant: str,
    u_data: Sequence[float],
    u_model: Sequence[float],
    beta: float,
    times: Sequence[float] | None = None,
) -> tuple[list[float], list[float]]:
    """a and b by the equations, number by number; negative j counts times[j] times."""
    times = [1.0] * len(u_model) if times is None else times
    n = len(u_data)
    f_data, f_model = [-u for u in u_data], [-u for u in u_model]
    relative = [t * math.exp(beta * f) for t, f in zip(times, f_model, strict=True)]
    w = [r / sum(relative) for r in relative]  # Eq. 5
    if variant == "no_positive":  # Eq. 7
        return [1 / n] * n, w
    w_plus = [math.exp(beta * f) / (math.exp(beta * f) + sum(relative)) for f in f_data]
    if variant == "default":  # Eq. 8
        a = [(1 - p) / n for p in w_plus]
        return a, [sum((1 - p) * w_j for p in w_plus) / n for w_j in w]
    if variant == "batch_corrected":  # Eq. 33
        scale = sum(1 - p for p in w_plus) / n
        return [scale / n] * n, [scale * w_j for w_j in w]
    half = n // 2  # Eq. 34 for both parts, averaged
    of_a, of_b = w_plus[:half], w_plus[half:]
    scale_of_a = sum(1 - p for p in of_b) / len(of_b)
    scale_of_b = sum(1 - p for p in of_a) / len(of_a)
    a = [scale_of_a / len(of_a) / 2] * len(of_a) + [scale_of_b / len(of_b) / 2] * len(of_b)
    return a, [(scale_of_a + scale_of_b) / 2 * w_j for w_j in w]


def close(seen: Sequence[float], expected: Sequence[float], **tolerance: float) -> bool:
    return list(seen) == pytest.approx(list(expected), **(tolerance or {"rel": 1e-9, "abs": 1e-13}))


# Against the equations


@every_variant
@many
@given(u_data=at_least_two, u_model=potentials, beta=betas)
def test_gradients_are_those_of_the_equations(
    variant: str, u_data: list[float], u_model: list[float], beta: float
) -> None:
    a, b = paper(variant, u_data, u_model, beta)
    of_data, of_model = gradient(Contrast(variant=variant), u_data, [u_model], beta)
    assert close(of_data, a)
    assert close(of_model, [-b_j for b_j in b])


@many
@given(u_data=potentials, u_model=potentials, beta=betas)
def test_default_is_the_gradient_of_algorithm_1(
    u_data: list[float], u_model: list[float], beta: float
) -> None:
    """L = stack(fp * beta, (fn * beta).LSE().expand(N)).LSE().mean() / beta - fp.mean()."""
    data, model = tensor(u_data), tensor(u_model)
    fp, fn = -data, -model
    rows = torch.stack([fp * beta, torch.logsumexp(fn * beta, 0).expand(len(fp))])
    (torch.logsumexp(rows, 0).mean() / beta - fp.mean()).backward()
    of_data, of_model = gradient(Contrast(), u_data, [u_model], beta)
    assert close(of_data, data.grad.tolist(), rel=1e-7, abs=1e-13)
    assert close(of_model, model.grad.tolist(), rel=1e-7, abs=1e-13)


@every_variant
@many
@given(u_data=potentials, u_model=potentials)
def test_beta_zero_is_the_standard_loss(
    variant: str, u_data: list[float], u_model: list[float]
) -> None:
    data, model = tensor(u_data), tensor(u_model)
    loss, figures, _ = Contrast(variant=variant)(data, [model], 0.0)
    assert loss.item() == pytest.approx((data.mean() - model.mean()).item(), abs=1e-12)
    of_data, of_model = gradient(Contrast(variant=variant), u_data, [u_model], 0.0)
    assert close(of_data, [1 / len(u_data)] * len(u_data))
    assert close(of_model, [-1 / len(u_model)] * len(u_model))
    assert float(figures["weight_ess"]) == pytest.approx(1)
    assert float(figures["grad_scale"]) == 1


# Limits


@every_variant
@pytest.mark.parametrize("beta", [1e-8, -1e-8])
@settings(max_examples=20, deadline=None, database=None, derandomize=True)
@given(u_data=at_least_two, u_model=potentials)
def test_small_beta(variant: str, beta: float, u_data: list[float], u_model: list[float]) -> None:
    """Eq. 36: M / (M + 1) times the standard loss; Eq. 7 becomes the standard loss itself."""
    n, m = len(u_data), len(u_model)
    factor = 1.0 if variant == "no_positive" else m / (m + 1)
    of_data, of_model = gradient(Contrast(variant=variant), u_data, [u_model], beta)
    if variant == "true_objective":
        # Each half counts a half, whatever its size.
        half = n // 2
        shares = [1 / (2 * half)] * half + [1 / (2 * (n - half))] * (n - half)
    else:
        shares = [1 / n] * n
    assert close(of_data, [factor * share for share in shares], rel=1e-5)
    assert close(of_model, [-factor / m] * m, rel=1e-5)


def test_large_beta_trusts_the_best_negative_alone() -> None:
    contrast = Contrast(variant="no_positive")
    _, of_model = gradient(contrast, [0.0], [[5.0, 1.0, 3.0]], 200.0)
    assert of_model == pytest.approx([0, -1, 0], abs=1e-12)
    # Eq. 8: positives far better than every negative switch the update off ...
    of_data, of_model = gradient(Contrast(), [0.0, 0.1], [[50.0, 60.0]], 1.0)
    assert max(map(abs, of_data + of_model)) < 1e-20
    # ... and positives far worse leave Eq. 7.
    of_data, of_model = gradient(Contrast(), [50.0, 60.0], [[0.0, 1.0]], 1.0)
    assert of_data == pytest.approx([0.5, 0.5])
    assert of_model == pytest.approx([-1 / (1 + math.exp(-1)), -1 / (1 + math.exp(1))])


def test_negative_beta_prefers_high_potentials() -> None:
    _, of_model = gradient(Contrast(variant="no_positive"), [0.0], [[0.0, math.log(3)]], -1.0)
    assert of_model == pytest.approx([-0.25, -0.75])


# Invariance


@every_variant
@many
@given(
    u_data=at_least_two, first=potentials, second=potentials, beta=betas, shift=st.floats(-50, 50)
)
def test_a_constant_added_to_the_potential_changes_nothing(
    variant: str,
    u_data: list[float],
    first: list[float],
    second: list[float],
    beta: float,
    shift: float,
) -> None:
    contrast, weights = Contrast(variant=variant), (1.0, 3.0)

    def moved(values: list[float]) -> list[float]:
        return [u + shift for u in values]

    here = gradient(contrast, u_data, [first, second], beta, weights)
    there = gradient(contrast, moved(u_data), [moved(first), moved(second)], beta, weights)
    assert close(here[0] + here[1], there[0] + there[1], rel=1e-9, abs=1e-12)
    assert sum(here[0]) == pytest.approx(-sum(here[1]))
    losses = [
        contrast(tensor(d), [tensor(m), tensor(k)], beta, weights)[0].item()
        for d, m, k in (
            (u_data, first, second),
            (moved(u_data), moved(first), moved(second)),
        )
    ]
    assert losses[0] == pytest.approx(losses[1], abs=1e-9)


@every_variant
def test_huge_potentials_give_finite_weights_in_single_precision(variant: str) -> None:
    """Coldness 20,000 makes potentials of 1e5, whose exponentials are not numbers."""
    u_data = torch.tensor([3e5, -1e5, 2e5, 1e5])
    u_model = torch.tensor([-2e5, 4e5, 1e5])
    for beta in (0.9, -0.9, 1e-6):
        weights = Contrast(variant=variant).weights(u_data, u_model, beta)
        assert all(part.isfinite().all() for part in weights)
        assert weights.a.dtype == weights.b.dtype == torch.float32
        assert float(weights.w.sum()) == pytest.approx(1)


def test_weights_are_detached() -> None:
    data, model = tensor([0.1, 0.5]), tensor([0.3, 0.2, 0.9])
    for variant in VARIANTS:
        for beta in (0.0, 0.5):
            weights = Contrast(variant=variant).weights(data, model, beta)
            assert not any(part.requires_grad for part in weights)


# Several sources


def counts(sizes: Sequence[int], weights: Sequence[float]) -> list[float]:
    """How often a negative of each source counts: M l_s / (M_s sum l)."""
    m, whole = sum(sizes), sum(weights)
    return [
        m * w / (size * whole) for size, w in zip(sizes, weights, strict=True) for _ in range(size)
    ]


@every_variant
@many
@given(
    u_data=at_least_two, first=potentials, second=potentials, weight=st.floats(0.1, 30), beta=betas
)
def test_sources_are_weighted_over_their_union(
    variant: str,
    u_data: list[float],
    first: list[float],
    second: list[float],
    weight: float,
    beta: float,
) -> None:
    sizes = (len(first), len(second))
    a, b = paper(variant, u_data, first + second, beta, counts(sizes, (1.0, weight)))
    of_data, of_model = gradient(
        Contrast(variant=variant), u_data, [first, second], beta, (1.0, weight)
    )
    assert close(of_data, [(1 + weight) * v for v in a])
    assert close(of_model, [-(1 + weight) * v for v in b])


@every_variant
@many
@given(u_data=potentials, noise=potentials, data=potentials, weight=st.floats(0.1, 30))
def test_beta_zero_with_two_sources_is_the_hybrid_loss(
    variant: str, u_data: list[float], noise: list[float], data: list[float], weight: float
) -> None:
    """[U(x+) - U(noise-started)] + lambda [U(x+) - U(data-started)]."""
    loss, *_ = Contrast(variant=variant)(
        tensor(u_data), [tensor(noise), tensor(data)], 0.0, (1.0, weight)
    )
    mean = sum(u_data) / len(u_data)
    expected = mean - sum(noise) / len(noise) + weight * (mean - sum(data) / len(data))
    assert loss.item() == pytest.approx(expected, rel=1e-9, abs=1e-9)
    of_data, of_model = gradient(
        Contrast(variant=variant), u_data, [noise, data], 0.0, (1.0, weight)
    )
    assert close(of_data, [(1 + weight) / len(u_data)] * len(u_data))
    assert close(of_model, [-1 / len(noise)] * len(noise) + [-weight / len(data)] * len(data))


@every_variant
@pytest.mark.parametrize("beta", [0.0, 0.7])
def test_a_source_cut_in_two_is_the_same_source(variant: str, beta: float) -> None:
    """With weights in proportion to the numbers of chains, and sum 1."""
    u_data, u_model = [0.3, -1.0, 2.0], [0.1, 0.5, -0.7, 1.2]
    contrast = Contrast(variant=variant)
    whole = gradient(contrast, u_data, [u_model], beta)
    parts = gradient(contrast, u_data, [u_model[:1], u_model[1:]], beta, (0.25, 0.75))
    assert close(whole[0] + whole[1], parts[0] + parts[1])


def test_every_source_needs_a_weight() -> None:
    with pytest.raises(ValueError, match="2 sources with 1 weights"):
        Contrast()(tensor([0.0]), [tensor([0.0]), tensor([1.0])], 0.0)


# True objective


def test_true_objective_needs_two_examples() -> None:
    with pytest.raises(ValueError, match="at least two"):
        Contrast(variant="true_objective")(tensor([0.0]), [tensor([0.0])], 0.5)
    # With beta = 0 the variants do not differ.
    loss, *_ = Contrast(variant="true_objective")(tensor([2.0]), [tensor([0.5])], 0.0)
    assert loss.item() == 1.5


def test_each_half_is_scaled_by_the_other() -> None:
    """Moving an example of the second half does not change how the second half is weighed."""
    contrast, u_model = Contrast(variant="true_objective"), [[0.2, 0.4]]
    here, _ = gradient(contrast, [0.0, 1.0, 0.5, 0.3, 0.1], u_model, 0.8)
    there, _ = gradient(contrast, [0.0, 1.0, 0.5, -3.0, 0.1], u_model, 0.8)
    assert here[2:] == there[2:]
    assert here[0] != there[0]
    assert len({*here[:2]}) == len({*here[2:]}) == 1


# Weights that chains carry


log_weights = st.lists(st.floats(-8, 8), min_size=7, max_size=7)


@every_variant
@many
@given(u_data=at_least_two, u_model=potentials, beta=betas, carried=log_weights)
def test_carried_weights_multiply_negatives(
    variant: str, u_data: list[float], u_model: list[float], beta: float, carried: list[float]
) -> None:
    """w = softmax(A - beta U); Eq. 8 with exp(A) divided by its mean; A + 100 is the same."""
    n = len(u_model)
    mean = sum(math.exp(c) for c in carried[:n]) / n
    times = [math.exp(c) / mean for c in carried[:n]]
    a, b = paper(variant, u_data, u_model, beta, times)
    for shift in (0.0, 100.0):
        data, model = tensor(u_data), tensor(u_model)
        log_w = torch.tensor(carried[:n], dtype=torch.float64) + shift
        found = Contrast(variant=variant)(data, [model], beta, log_weights=[log_w])
        found.loss.backward()
        assert close(data.grad.tolist(), a, rel=1e-7, abs=1e-12)
        assert close(model.grad.tolist(), [-b_j for b_j in b], rel=1e-7, abs=1e-12)
        w = torch.softmax(log_w - beta * model.detach(), 0)
        torch.testing.assert_close(found.weights.w, w)
        assert float(found.metrics["weight_ess"]) == pytest.approx(
            float(1 / (n * w.square().sum()))
        )


@many
@given(u_data=potentials, u_model=potentials, beta=betas, carried=log_weights)
def test_carried_weights_have_the_gradient_of_algorithm_1(
    u_data: list[float], u_model: list[float], beta: float, carried: list[float]
) -> None:
    """Algorithm 1 with log weights A - log mean exp A added to beta f of the negatives."""
    data, model = tensor(u_data), tensor(u_model)
    log_w = torch.tensor(carried[: len(u_model)], dtype=torch.float64)
    centred = log_w - torch.logsumexp(log_w, 0) + math.log(len(u_model))
    rows = torch.stack(
        [-beta * data, torch.logsumexp(centred - beta * model, 0).expand(len(u_data))]
    )
    (torch.logsumexp(rows, 0).mean() / beta + data.mean()).backward()
    of_data, of_model = tensor(u_data), tensor(u_model)
    Contrast()(of_data, [of_model], beta, log_weights=[log_w]).loss.backward()
    assert close(of_data.grad.tolist(), data.grad.tolist(), rel=1e-7, abs=1e-12)
    assert close(of_model.grad.tolist(), model.grad.tolist(), rel=1e-7, abs=1e-12)


@every_variant
def test_carried_weights_without_beta_and_beside_another_source(variant: str) -> None:
    """Only the first of two sources carries weights; each source keeps its own total weight."""
    log_w = torch.tensor([0.3, -2.0, 1.0], dtype=torch.float64)
    data, first, second = tensor([0.4, -1.0]), tensor([1.0, 2.0, 0.0]), tensor([0.5, -0.5])
    found = Contrast(variant=variant)(data, [first, second], 0.0, (2.0, 0.5), [log_w, None])
    found.loss.backward()
    torch.testing.assert_close(first.grad, -2.0 * torch.softmax(log_w, 0))
    assert second.grad.tolist() == pytest.approx([-0.25, -0.25])
    assert data.grad.tolist() == pytest.approx([1.25, 1.25])
    # With beta, the union of both: times are exp(A) / mean of its source, times those of sources.
    data, first, second = tensor([0.4, -1.0]), tensor([1.0, 2.0, 0.0]), tensor([0.5, -0.5])
    found = Contrast(variant=variant)(data, [first, second], 0.7, (2.0, 0.5), [log_w, None])
    found.loss.backward()
    carried = (3 * torch.softmax(log_w, 0)).tolist()
    times = [5 * 2.0 / (3 * 2.5) * c for c in carried] + [5 * 0.5 / (2 * 2.5)] * 2
    a, b = paper(variant, [0.4, -1.0], [1.0, 2.0, 0.0, 0.5, -0.5], 0.7, times)
    assert close([*first.grad.tolist(), *second.grad.tolist()], [-2.5 * b_j for b_j in b])
    assert close(data.grad.tolist(), [2.5 * a_i for a_i in a])


def test_potentials_of_negatives_are_averaged_with_carried_weights() -> None:
    log_w = torch.tensor([0.3, -2.0, 1.0], dtype=torch.float64)
    u_data, u = tensor([0.4, -1.0]), tensor([1.0, 2.0, 0.0])
    metrics = Contrast()(u_data, [u], 0.5, log_weights=[log_w]).metrics
    w = torch.softmax(log_w, 0)
    mean = float((w * u.detach()).sum())
    assert float(metrics["u_model_mean"]) == pytest.approx(mean)
    assert float(metrics["d"]) == pytest.approx(-0.3 - mean)
    assert float(metrics["u_model_std"]) == pytest.approx(
        math.sqrt(float((w * (u.detach() - mean) ** 2).sum()))
    )


# Figures


@every_variant
@many
@given(u_data=at_least_two, u_model=potentials, beta=betas)
def test_figures_are_what_they_say(
    variant: str, u_data: list[float], u_model: list[float], beta: float
) -> None:
    _, figures, _ = Contrast(variant=variant)(tensor(u_data), [tensor(u_model)], beta)
    a, b = paper(variant, u_data, u_model, beta)
    _, w = paper("no_positive", u_data, u_model, beta)

    def moments(values: list[float]) -> tuple[float, float]:
        mean = sum(values) / len(values)
        return mean, math.sqrt(sum((v - mean) ** 2 for v in values) / len(values))

    (mean_data, std_data), (mean_model, std_model) = moments(u_data), moments(u_model)
    expected = {
        "d": mean_data - mean_model,
        "u_data_mean": mean_data,
        "u_data_std": std_data,
        "u_model_mean": mean_model,
        "u_model_std": std_model,
        "weight_ess": 1 / (len(w) * sum(v * v for v in w)),
        "largest_weight": max(w),
        "grad_scale": sum(b),
    }
    assert {k: float(v) for k, v in figures.items()} == pytest.approx(expected, rel=1e-7, abs=1e-7)
    assert sum(a) == pytest.approx(sum(b))
    assert not any(value.requires_grad for value in figures.values())
