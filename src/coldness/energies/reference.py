"""A density fitted to the rows of a table, which a network then corrects (exponential tilting).

    q(y) = sum_i w_i N(y; m_k + L_k c_i, h^2 L_k L_k^T),     k = the group of component i

Rows are divided into K groups with means m_k and covariances C_k = L_k L_k^T, found by EM. Every
row of group k is a kernel of the group's own shape. With z_i = L_k^-1 (y_i - m_k) of a row,

    c_i = sqrt(1 - h^2) z_i

so that the kernels of a group together keep its mean and covariance. h -> 0 is a kernel estimate at
the rows, and h = 1 is the Gaussian mixture, with one component per group. In between, q has the
local scales of the mixture and the details that a few Gaussians lack.

Covariances are shrunk towards the pooled one, P, as if each group had `kappa` more rows of that
shape, and get a ridge:

    C_k = (S_k + kappa P) / (n_k + kappa) + ridge I,     S_k = scatter of the group about its mean

A broad Gaussian with the mean and `BROAD` times the standard deviations of all rows may have a
small weight: rows far from all others then cost fewer nats.

Number of groups, kappa, ridge and h are chosen by the log-likelihood of rows that are held out
while choosing; the chosen density is then fitted to all rows. q integrates to one and can be
sampled exactly, so log Z of U = c F - log q is 0 before F has learned anything.

References:
    Bayesian Regularization for Normal Mixture Estimation and Model-Based Clustering (Fraley,
    Raftery, 2007), Table 1 and Eq. 9, for shrunk covariances.
    Approximating Posterior Distributions by Mixtures (West, 1993), section 2.2, for kernels that
    are shrunk to keep the covariance.
    Manifold Parzen Windows (Vincent, Bengio, 2002), for kernels of local shape.
    A Theory of Generative ConvNet (Xie et al., 2016), Eq. 1, for tilting a reference.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

HELD_OUT = 0.2
"""Fraction of the rows on which the choice is made."""

ROWS_PER_GROUP = 10
"""Smallest mean number of rows per group that is tried."""

EM_ITERATIONS = 25

KMEANS_STARTS = 4
"""Starts of k-means, of which the best begins EM: from a single one a group of eight was missed in
one of three samples, which costs half a nat."""

BROAD = 3.0
"""Standard deviations of the broad component, as a multiple of those of all rows."""

RIDGE_OF_EM = 1e-3
"""Ridge while groups are being found, in squared standard deviations."""


@dataclass(frozen=True)
class Groups:
    """Groups of rows: sizes (K,), means (K, D), scatter (K, D, D) about them, and kappa."""

    size: Tensor
    means: Tensor
    scatter: Tensor
    kappa: float

    def covariances(self, ridge: float) -> Tensor:
        """C_k, (K, D, D)."""
        pooled = self.scatter.sum(0) / self.size.sum()
        n = self.size[:, None, None] + self.kappa
        eye = torch.eye(self.means.shape[1], dtype=self.means.dtype)
        return (self.scatter + self.kappa * pooled) / n + ridge * eye

    def whole(self) -> Groups:
        """All rows as one group."""
        n = self.size.sum()
        mean = self.size @ self.means / n
        apart = self.means - mean
        between = (self.size[:, None] * apart).T @ apart
        return Groups(n[None], mean[None], (self.scatter.sum(0) + between)[None], self.kappa)


@dataclass(frozen=True)
class Choice:
    """Number of groups, kappa as a multiple of the columns, ridge, and bandwidth h."""

    groups: int
    shrinkage: float
    ridge: float = RIDGE_OF_EM
    bandwidth: float = 1.0


class FittedMixture(nn.Module):
    """-log q(y) of a mixture fitted to the training part, (B,).

    Args:
        groups: numbers of groups K to choose from.
        bandwidths: values of h to choose from, in (0, 1].
        ridges: values of the ridge to choose from, > 0, in squared units of the coordinates.
        shrinkages: values of kappa to choose from, as multiples of the number of columns, > 0.
        kernels: largest number of rows that become kernels, and that the choice is made with.
        background: weight of the broad component, in [0, 1).
    Shapes: y (B, D).
    """

    means: Tensor
    factors: Tensor
    centres: Tensor
    group: Tensor
    log_weights: Tensor
    bandwidth: Tensor

    def __init__(
        self,
        groups: Sequence[int] = (1, 2, 4, 8, 16, 32),
        bandwidths: Sequence[float] = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
        ridges: Sequence[float] = (1e-5, 1e-4, 1e-3, 1e-2),
        shrinkages: Sequence[float] = (1.0, 30.0),
        kernels: int = 4000,
        background: float = 0.005,
    ) -> None:
        super().__init__()
        if not groups or min(groups) < 1 or kernels < 2:
            raise ValueError("groups must be >= 1 and kernels >= 2")
        if not bandwidths or not all(0 < h <= 1 for h in bandwidths):
            raise ValueError(f"bandwidths must be in (0, 1], got {list(bandwidths)}")
        if not ridges or not min(ridges) > 0 or not shrinkages or not min(shrinkages) > 0:
            raise ValueError("ridges and shrinkages must be > 0")
        if not 0 <= background < 1:
            raise ValueError(f"background must be in [0, 1), got {background}")
        self.groups, self.bandwidths = tuple(groups), tuple(bandwidths)
        self.ridges, self.shrinkages = tuple(ridges), tuple(shrinkages)
        self.kernels, self.background = kernels, background
        for name in NAMES:
            self.register_buffer(name, torch.empty(0))
        for name in DERIVED:
            self.register_buffer(name, torch.empty(0), persistent=False)
        self.register_load_state_dict_post_hook(_after_loading)

    def fit(self, x: Tensor, seed: int, whiten: Callable[[Tensor], Tensor] = lambda x: x) -> None:
        """Chooses groups, ridge and bandwidth, and fits to the rows x (N, D).

        Args:
            x: rows.
            seed: of the held-out rows, the rows that become kernels and the first groups.
            whiten: takes rows into the coordinates of the model. It is called with the rows that
                are used, so that a large table is not copied.
        """
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
        rows = whiten(x[order[: self.kernels].to(x.device)]).detach().cpu().double()
        held = max(1, round(HELD_OUT * len(rows)))
        choice = self._choose(rows[held:], rows[:held], seed)
        self._set(self._groups(rows, choice, seed), rows, choice)
        self.to(x)

    def _choose(self, train: Tensor, held_out: Tensor, seed: int) -> Choice:
        """What has the highest held-out log-likelihood."""
        most = max(1, len(train) // ROWS_PER_GROUP)
        counts = [k for k in self.groups if k <= most] or [min(min(self.groups), most)]
        best, chosen = -math.inf, Choice(1, self.shrinkages[0], max(self.ridges), 1.0)
        for count, shrinkage in product(counts, self.shrinkages):
            found = self._groups(train, Choice(count, shrinkage), seed)
            for ridge, bandwidth in product(self.ridges, self.bandwidths):
                choice = Choice(count, shrinkage, ridge, bandwidth)
                self._set(found, train, choice)
                value = -float(self(held_out).mean())
                if value > best:
                    best, chosen = value, choice
        return chosen

    def _groups(self, y: Tensor, choice: Choice, seed: int) -> Groups:
        """Groups of rows (N, D), by EM from k-means."""
        from sklearn.cluster import KMeans

        count = choice.groups
        first = KMeans(count, n_init=KMEANS_STARTS, random_state=seed).fit(y.numpy()).labels_
        share = nn.functional.one_hot(torch.from_numpy(first).long(), count).double()
        kappa = choice.shrinkage * y.shape[1]
        for _ in range(EM_ITERATIONS if count > 1 else 1):
            size = share.sum(0)
            means = share.T @ y / size.clamp_min(1e-9)[:, None]
            pairs = zip(means, share.T, strict=True)
            scatter = torch.stack([_scatter(y - mean, weight) for mean, weight in pairs])
            found = Groups(size, means, scatter, kappa)
            share = self._log_joint(y, found, RIDGE_OF_EM).softmax(1)
        return found

    def _log_joint(self, y: Tensor, found: Groups, ridge: float) -> Tensor:
        """log n_k N(y; m_k, C_k), up to a constant, (N, K)."""
        factors = torch.linalg.cholesky(found.covariances(ridge))
        log_det = factors.diagonal(dim1=1, dim2=2).log().sum(1)
        squares = [  # a group at a time: all (K, N, D) at once would be hundreds of megabytes
            torch.linalg.solve_triangular(factor, (y - mean).T, upper=False).square().sum(0)
            for factor, mean in zip(factors, found.means, strict=True)
        ]
        return (found.size.log() - log_det)[None] - torch.stack(squares, 1) / 2

    def _set(self, found: Groups, y: Tensor, choice: Choice) -> None:
        """The density of these groups whose kernels are the rows y, or the groups for h = 1."""
        ridge, bandwidth = choice.ridge, choice.bandwidth
        self.means, self.factors = found.means, torch.linalg.cholesky(found.covariances(ridge))
        self.bandwidth = y.new_tensor(bandwidth)
        if bandwidth == 1:
            self.group = torch.arange(len(found.size))
            self.centres = torch.zeros_like(found.means)
            self.log_weights = (found.size / found.size.sum()).log()
        else:
            self.group = self._log_joint(y, found, ridge).argmax(1)
            z = y - found.means[self.group]
            for k, factor in enumerate(self.factors):
                own = self.group == k
                z[own] = torch.linalg.solve_triangular(factor, z[own].T, upper=False).T
            self.centres = math.sqrt(1 - bandwidth**2) * z
            self.log_weights = y.new_full((len(y),), -math.log(len(y)))
        if self.background:
            self._add_background(found.whole(), ridge)
        self._derive()

    def _add_background(self, whole: Groups, ridge: float) -> None:
        """One more group with one component, whose covariance does not depend on h."""
        factor = BROAD / self.bandwidth * torch.linalg.cholesky(whole.covariances(ridge))
        self.group = torch.cat([self.group, self.group.new_tensor([len(self.means)])])
        self.means = torch.cat([self.means, whole.means])
        self.factors = torch.cat([self.factors, factor])
        self.centres = torch.cat([self.centres, torch.zeros_like(whole.means)])
        small = self.log_weights.new_tensor([math.log(self.background)])
        self.log_weights = torch.cat([self.log_weights + math.log1p(-self.background), small])

    def _derive(self) -> None:
        """Matrices with which -log q takes two products: of (y - m_k) and L_k^-1, and of

        log w_i N_i(y) = y.v_i - |z_k|^2 / (2 h^2) + b_i,     v_i = L_k^-T c_i / h^2
        """
        if not self.means.numel():
            return
        factors, means = self.factors.double(), self.means.double()
        k, d = means.shape
        h2 = self.bandwidth.double() ** 2
        eye = torch.eye(d, dtype=torch.float64, device=means.device).expand(k, d, d)
        inverse = torch.linalg.solve_triangular(factors, eye, upper=False)
        centres, group = self.centres.double(), self.group
        slopes = torch.zeros_like(centres)
        for j in range(k):
            own = group == j
            slopes[own] = centres[own] @ inverse[j] / h2
        log_det = factors.diagonal(dim1=1, dim2=2).log().sum(1)[group]
        constant = -log_det - d * (h2.log() / 2 + math.log(2 * math.pi) / 2)
        shift = (slopes * means[group]).sum(1) + centres.square().sum(1) / (2 * h2)
        of_groups = -nn.functional.one_hot(group, k).T.double() / (2 * h2)
        self.inverse = inverse.permute(2, 0, 1).reshape(d, k * d).to(self.means)
        self.origin = (inverse @ means[..., None]).reshape(k * d).to(self.means)
        self.slopes = torch.cat([slopes.T, of_groups]).to(self.means)
        self.bias = (self.log_weights.double() + constant - shift).to(self.means)

    def forward(self, y: Tensor) -> Tensor:
        """-log q(y), (B,)."""
        squares = (y @ self.inverse - self.origin).unflatten(1, self.means.shape).square().sum(2)
        log_parts = torch.addmm(self.bias, torch.cat([y, squares], 1), self.slopes)
        # log sum exp = max - log of the largest softmax: torch.logsumexp takes four times as long.
        top, index = log_parts.max(1)
        return log_parts.softmax(1).gather(1, index[:, None]).squeeze(1).log() - top

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """Independent samples of q, (count, D)."""
        device = self.means.device
        weights = self.log_weights.exp()
        index = torch.multinomial(weights, count, replacement=True, generator=generator)
        noise = torch.empty(count, self.means.shape[1], device=device, dtype=self.means.dtype)
        noise.normal_(generator=generator)
        k = self.group[index]
        inside = self.centres[index] + self.bandwidth * noise
        return self.means[k] + (self.factors[k] @ inside[..., None]).squeeze(2)

    def extra_repr(self) -> str:
        k, n = (len(self.means), len(self.group)) if self.means.numel() else (0, 0)
        return f"{n} components in {k} groups"

    def _apply(self, fn: Any, recurse: bool = True) -> FittedMixture:
        super()._apply(fn, recurse)
        self._derive()
        return self

    def _load_from_state_dict(self, state: Mapping[str, Any], prefix: str, *rest: Any) -> None:
        """Takes the number of components from the state."""
        for name in NAMES:
            if prefix + name in state:
                setattr(self, name, torch.empty_like(state[prefix + name]))
        super()._load_from_state_dict(state, prefix, *rest)


def _scatter(centred: Tensor, weight: Tensor) -> Tensor:
    """Weighted sum of outer products of rows (N, D), (D, D)."""
    return (centred * weight[:, None]).T @ centred


NAMES = ("means", "factors", "centres", "group", "log_weights", "bandwidth")
DERIVED = ("inverse", "origin", "slopes", "bias")


def _after_loading(mixture: FittedMixture, keys: object) -> None:
    mixture._derive()
