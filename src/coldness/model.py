"""A trained model: all that is needed to sample and to score without the data.

    p(x) = exp(-U(x)) / Z,     U = c E,     x in the data's own units

    energy        network, coldness and coordinates
    domain        shape, classes, attributes and units of examples; stored, never estimated again
    sampler       start, kernel and steps that samples are drawn with
    log_z         log Z with its bracket, if it was estimated
    data_noise    noise that images carried at the end of training
    training      metrics of the training, from which its health is judged
    kept          parts that terms keep: encoders, latents of classes

A model is saved as a folder of two files: model.yaml names all parts, weights.safetensors holds
their numbers. Loading runs no code from either.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from coldness.batching import at_most, at_once, parts
from coldness.cards import CARD, ENCODER_MARK, MARK, WEIGHTS, read_card, read_weights, write_model
from coldness.chains import Source
from coldness.conditions import Label, Wanted, condition_of, encoder_of
from coldness.configuration import ConfigurationError, construct, describe
from coldness.data import in_model, tensor_of
from coldness.domain import Domain, Units
from coldness.energies import Coordinates, Energy
from coldness.files import BadFile
from coldness.kernels import worth_compiling
from coldness.kernels.run import frozen, tempered_field
from coldness.likelihood.bracket import NUMBERS, LogZ
from coldness.likelihood.potential import potential
from coldness.objectives.teachers import encoded
from coldness.precision import Precision, autocast
from coldness.seeds import generators
from coldness.version import VERSION

HUB = "hub:"

Points = TypeVar("Points", NDArray[Any], Tensor)
Numbers = NDArray[np.float64]


@dataclass
class Model:
    """A trained energy-based model, in the data's own units.

    NumPy arrays in, NumPy arrays out; tensors in, tensors out. Results are in float64.

    Args:
        energy: network, coldness and coordinates.
        domain: what examples are.
        sampler: how samples are drawn; None if the model cannot draw samples.
        z: log Z in the model's coordinates; `log_z` gives it in the data's units.
        data_noise: standard deviation of the noise on data at the end of training.
        precision: of the network in chains.
        at_once: examples that may be in memory at a time; None for no limit.
        compile: whether long chains are compiled.
        training: metrics of the training.
        kept: parts that terms keep.
    """

    energy: Energy
    domain: Domain
    sampler: Source | None = None
    z: LogZ | None = None
    data_noise: float = 0.0
    precision: Precision = "float32"
    at_once: int | None = None
    compile: Literal["auto", "never"] = "auto"
    training: dict[str, float] = field(default_factory=dict)
    kept: dict[str, nn.Module | Tensor] = field(default_factory=dict)

    # Scores and samples.

    def potential(self, x: Points) -> Points:
        """U(x), (N,): minus log p(x), up to the constant log Z."""
        points = self._points(x)
        with at_most(self.at_once):
            return _like(x, potential(self.energy, points))

    def log_prob(self, x: Points) -> Points:
        """log p(x) = -U(x) - log Z, (N,), in nats and the data's units.

        Raises:
            ValueError: log Z was not estimated.
        """
        z = self.log_z
        if z is None:
            raise ValueError(
                "this model has no log Z: judge it with data, coldness.judge(model, data), or call "
                "model.estimate_log_z(data)"
            )
        points = self._points(x)
        with at_most(self.at_once):
            u = potential(self.energy, points) + self.domain.units.log_stretch(points).cpu()
        if not z.tight:
            warnings.warn(
                f"log Z is only known to lie between {z.low:.4g} and {z.high:.4g}: differences of "
                "log p are exact, its level is not",
                stacklevel=2,
            )
        return _like(x, -u - z.estimate)

    @property
    def log_z(self) -> LogZ | None:
        """log Z for the data's units, with `low`, `estimate` and `high`; None if not estimated."""
        return None if self.z is None else self.z.shifted(self.domain.log_scale)

    def score(self, x: Points) -> Points:
        """The gradient of log p(x) with respect to x, in the shape of x."""
        points = tensor_of(self.domain.units.coded(x)).double().detach().requires_grad_()
        inside = self.domain.units.into_model(self.domain.check(points))
        own = next(self.energy.parameters(), torch.empty(0, dtype=torch.float64))
        field = tempered_field(self.energy, torch.ones((), dtype=own.dtype, device=own.device))
        with at_most(self.at_once), frozen(list(self.energy.modules())):
            slopes = [field(part.detach().to(own))[1] for part in parts(inside)]
        slope = torch.cat(slopes).to(inside)
        stretch = self.domain.units.log_stretch(inside)
        if stretch.requires_grad:
            (further,) = torch.autograd.grad(stretch.sum(), inside, retain_graph=True)
            slope = slope + further
        (gradient,) = torch.autograd.grad(inside, points, -slope)
        return _like(x, gradient)

    def sample(
        self,
        n: int,
        *,
        steps: int | None = None,
        seed: int | None = None,
        label: Label | None = None,
        like: Any = None,
        all_of: Wanted | None = None,
        given: Any = None,
        guidance: float | None = None,
    ) -> NDArray[Any]:
        """Samples (n, ...) in the data's own units, of p(x) or under one condition.

        Args:
            n: number of samples.
            steps: length of the chains; None for the length used in training. More steps bring
                samples closer to the model's own density.
            seed: of the random numbers; None for new ones at every call.
            label: of a model with classes: one class by name or number, one number per sample, or
                `all` for each class in turn.
            like: images in the data's own units, of a model with an encoder: samples share what
                these images have in common.
            all_of: attributes and classes that samples should all have, of a model that keeps
                latents of them: names, `-name` for those they should not have, `name:2` or a
                mapping for other weights.
            given: latents (d,) or (n, d), such as `encode` returns, or classes.
            guidance: weight of latents in the energy; None for that of training.
        """
        condition, _ = self.condition(
            n, label=label, like=like, all_of=all_of, given=given, guidance=guidance
        )
        x, _ = self.draw(n, steps=steps, seed=seed, condition=condition)
        return self.domain.units.original(x).cpu().numpy()

    def condition(self, n: int, **asked: Any) -> tuple[Tensor | None, Tensor | None]:
        """Conditions (n, ...) of n samples as `draw` takes them, and their labels.

        Args:
            n: number of samples.
            asked: label, like, all_of, given and guidance, as `sample` takes them.
        """
        with at_most(self.at_once):
            return condition_of(self.energy, self.domain, self.kept, n, **asked)

    def draw(
        self,
        n: int,
        *,
        steps: int | None = None,
        seed: int | None = None,
        condition: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Samples (n, ...) in the model's units, and their potentials U(x).

        Args:
            n: number of samples.
            steps: length of the chains; None for the length used in training.
            seed: of the random numbers; None for new ones at every call.
            condition: one per sample, from `condition`; None for p(x).
        """
        source = self._sampler()
        if n < 1 or (steps is not None and steps < 0):
            raise ValueError(f"n must be >= 1 and steps >= 0, got {n} and {steps}")
        steps = source.steps if steps is None else steps
        seed = np.random.SeedSequence().generate_state(1)[0].item() if seed is None else seed
        _, generator = generators(seed, self.device)
        like = torch.zeros((1, *self.domain.shape), device=self.device)
        compiled = self.compile != "never" and worth_compiling(steps)
        with autocast(self.precision, self.device), at_most(self.at_once):
            found = [
                source.sample(
                    self.energy, like, len(part), generator, steps=steps,
                    step_scale=self.step_scale, compiled=compiled,
                    given=None if condition is None else condition[part].to(self.device),
                ).x
                for part in torch.arange(n).split(at_once(self.domain.shape))
            ]  # fmt: skip
            x = torch.cat(found)
            u = potential(self.energy, x)
        bad = int((~u.isfinite()).sum())
        if bad:
            raise ValueError(f"{bad} of {n} chains became NaN or infinite: there are no samples")
        return x, u

    def encode(self, x: Points) -> Points:
        """Unit latents (N, d) of images (N, ...), of a model that keeps an encoder."""
        with at_most(self.at_once):
            return _like(x, encoded(encoder_of(self.kept), self._points(x).float()).double())

    def predict_proba(self, x: Points) -> Points:
        """p(y|x), (N, K), of an energy that is a classifier."""
        if not self.energy.classifies:
            raise ValueError(f"{type(self.energy).__name__} is not a classifier")
        points = self._points(x)
        own = next(self.energy.parameters())
        with at_most(self.at_once), frozen(list(self.energy.modules())), torch.no_grad():
            logits = [self.energy.outputs(part.to(own)).cpu().double() for part in parts(points)]
        return _like(x, torch.cat(logits).softmax(1))

    def estimate_log_z(self, data: Any, seed: int = 0, **how: Any) -> LogZ:
        """Estimates log Z from examples (N, ...) in the data's own units, and stores it.

        Args:
            data: examples for the scales of the start and as starts of reverse chains.
            seed: of the random numbers.
            how: arguments of `coldness.likelihood.AIS`, such as levels and chains.
        """
        from coldness.likelihood.ais import AIS, log_z

        x = self._points(data)
        x = x.to(next(self.energy.parameters(), torch.empty(0)))
        _, generator = generators(seed, self.device)
        with at_most(self.at_once):
            compiled = False if self.compile == "never" else None
            self.z = log_z(self.energy, x, generator, AIS(**how), compiled=compiled)
        found = self.log_z
        assert found is not None
        return found

    # Device and parts.

    @property
    def device(self) -> torch.device:
        return next(self.energy.parameters(), torch.empty(0)).device

    @property
    def has_classes(self) -> bool:
        """Whether samples can be drawn by class."""
        by_latents = "class_latents" in self.kept and self.energy.guidance > 0
        return bool(self.energy.classes) or by_latents

    @property
    def step_scale(self) -> float:
        """Factor on the kernel's step, as at the end of training."""
        scale = self._sampler().step_scale
        assert isinstance(scale, (int, float))
        return float(scale)

    def to(self, device: str | torch.device) -> Model:
        """Moves the model to a device and returns it."""
        self.energy.to(device)
        self.kept = {name: value.to(device) for name, value in self.kept.items()}
        return self

    # Files.

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Writes the model as a folder.

        Raises:
            FileExistsError: the path exists, and is not a model to overwrite.
        """
        folder = Path(path)
        if folder.exists() and not folder.is_dir():
            raise FileExistsError(f"{folder} is a file; name a folder for the model")
        there = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
        if there and not (overwrite and (_is_model(folder) or there <= {CARD, WEIGHTS})):
            raise FileExistsError(f"{folder} exists; overwrite=True replaces a model")
        write_model(folder, MARK, self._card(), self._tensors())
        return folder

    def push_to_hub(self, name: str, *, private: bool = False, token: str | None = None) -> None:
        """Publishes the model as OWNER/NAME on the Hugging Face hub.

        Needs `pip install "coldness[hub]"`. `coldness.load("hub:OWNER/NAME")` loads it.
        """
        api = _hub().HfApi(token=token)
        with tempfile.TemporaryDirectory() as folder:
            saved = self.save(Path(folder) / "model")
            api.create_repo(name, private=private, exist_ok=True)
            api.upload_folder(repo_id=name, folder_path=str(saved))

    def _card(self) -> dict[str, Any]:
        """The contents of model.yaml."""
        sampler = None if self.sampler is None else describe(self.sampler)["init_args"]
        z = None if self.z is None else {name: getattr(self.z, name) for name in NUMBERS}
        return {
            "version": VERSION,
            "energy": describe(self.energy),
            "coordinates": self.energy.coordinates.kind,
            "shape": list(self.domain.shape),
            "units": describe(self.domain.units),
            "classes": list(self.domain.classes),
            "attributes": list(self.domain.attributes),
            "sampler": sampler,
            "log_z": z,
            "data_noise": self.data_noise,
            "precision": self.precision,
            "at_once": self.at_once,
            "compile": self.compile,
            "training": dict(self.training),
            "kept": _described(self.kept),
        }

    def _tensors(self) -> dict[str, Tensor]:
        """The contents of weights.safetensors."""
        found = {f"energy.{name}": value for name, value in self.energy.state_dict().items()}
        if self.sampler is not None:
            states = self.sampler.state_dict()
            found |= {
                f"sampler.{k}.{n}": v for k, state in states.items() for n, v in state.items()
            }
        return found | _tensors_of(self.kept)

    def _sampler(self) -> Source:
        if self.sampler is None:
            raise ValueError("this model has no sampler: give one, Model(..., sampler=Source(...))")
        return self.sampler

    def _points(self, x: Any) -> Tensor:
        """Points in the model's units, checked."""
        return in_model(x, self.domain)


def save_encoder(folder: Path, encoder: nn.Module, domain: Domain) -> None:
    """Writes an encoder that has no energy yet, in the form in which a model keeps one.

    `load_encoder` of coldness.objectives.frozen reads it, and `load` refuses it.
    """
    kept: dict[str, nn.Module | Tensor] = {"encoder": encoder}
    card = {"version": VERSION, "shape": list(domain.shape), "kept": _described(kept)}
    write_model(folder, ENCODER_MARK, card, _tensors_of(kept))


def _described(kept: Mapping[str, nn.Module | Tensor]) -> dict[str, Any]:
    """Modules among the kept parts, for model.yaml."""
    return {name: describe(m) for name, m in kept.items() if isinstance(m, nn.Module)}


def _tensors_of(kept: Mapping[str, nn.Module | Tensor]) -> dict[str, Tensor]:
    """Numbers of the kept parts, for weights.safetensors."""
    found: dict[str, Tensor] = {}
    for name, value in kept.items():
        if isinstance(value, Tensor):
            found[f"kept.{name}"] = value
        else:
            found |= {f"kept.{name}.{n}": v for n, v in value.state_dict().items()}
    return found


def load(source: str | Path, *, allow_imports: bool = False) -> Model:
    """A model from a run folder, a folder that `Model.save` wrote, or the Hugging Face hub.

    Neither the data nor the recipe of its training is needed. Nothing in the files is executed.

    Args:
        source: a folder, or hub:OWNER/NAME.
        allow_imports: let the model name classes from outside coldness, which imports them.
    """
    if str(source).startswith(HUB):
        folder = Path(_hub().snapshot_download(str(source).removeprefix(HUB)))
    else:
        folder = Path(source)
    inside = folder / "model"
    if not _is_model(folder) and _is_model(inside):
        folder = inside
    if not _is_model(folder):
        raise BadFile(_what_is_missing(folder))
    return _read(folder, allow_imports)


def _read(folder: Path, allow_imports: bool) -> Model:
    card = read_card(folder / CARD)
    tensors = read_weights(folder, card)
    try:
        _check_card(card)
        energy = construct(Energy, card["energy"], allow_imports=allow_imports)  # type: ignore[type-abstract]
        units = construct(Units, card["units"], allow_imports=allow_imports)  # type: ignore[type-abstract]
        classes, attributes = card["classes"], card.get("attributes", ())  # the latter from 0.9.0
        domain = Domain(
            tuple(card["shape"]), units, tuple(map(str, classes)), tuple(map(str, attributes))
        )
        with torch.random.fork_rng(devices=[]):  # weights are drawn, then replaced by those saved
            energy.build(domain)
        energy.coordinates = Coordinates.like(card["coordinates"], domain.shape)
        energy.load_state_dict(_below(tensors, "energy."))
        energy.eval()
        sampler = None
        if card["sampler"] is not None:
            sampler = construct(Source, card["sampler"], allow_imports=allow_imports)
            sampler.start.bind(energy)
            sampler.start.load_state_dict(_below(tensors, "sampler.start."))
            sampler.load_step_state(_below(tensors, "sampler.step."))
        z = None if card["log_z"] is None else _log_z(card["log_z"])
        kept: dict[str, nn.Module | Tensor] = {}
        for name, node in card["kept"].items():
            module = construct(nn.Module, node, allow_imports=allow_imports)
            if callable(make := getattr(module, "build", None)):
                make(domain.shape)
            module.load_state_dict(_below(tensors, f"kept.{name}."))
            kept[name] = module.eval()
        plain = _below(tensors, "kept.")
        kept |= {n: v for n, v in plain.items() if n.partition(".")[0] not in card["kept"]}
        return Model(
            energy, domain, sampler, z, float(card["data_noise"]), card["precision"],
            card["at_once"], card["compile"],
            {str(k): float(v) for k, v in card["training"].items()}, kept,
        )  # fmt: skip
    except ConfigurationError as error:
        raise BadFile(f"{folder / CARD}: {error}") from error
    except (KeyError, RuntimeError, TypeError, ValueError, AttributeError) as error:
        line = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise BadFile(f"{folder} holds an incomplete model: {line}") from error


def _check_card(card: Mapping[str, Any]) -> None:
    for name, allowed in (("precision", get_args(Precision)), ("compile", ("auto", "never"))):
        if card[name] not in allowed:
            raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {card[name]!r}")
    count = card["at_once"]
    if count is not None and not (isinstance(count, int) and count > 0):
        raise ValueError(f"at_once must be >= 1 or null, got {card['at_once']!r}")


def _log_z(saved: Mapping[str, Any]) -> LogZ:
    numbers: dict[str, Any] = {name: float(saved[name]) for name in NUMBERS if name in saved}
    return LogZ(**numbers)


def _is_model(folder: Path) -> bool:
    return _begins(folder / CARD, MARK)


def _begins(path: Path, mark: str) -> bool:
    return path.is_file() and path.read_text(errors="replace").startswith(mark)


def _what_is_missing(folder: Path) -> str:
    if not folder.is_dir():
        return f"there is no folder {folder}"
    if (folder / "model.safetensors").is_file():
        return f"{folder} holds a run of coldness 0.6 or earlier: train it again"
    if any(_begins(place / CARD, ENCODER_MARK) for place in (folder, folder / "model")):
        return f"{folder} holds an encoder without an energy: Frozen and MAE guide with it"
    if (folder / "config.yaml").is_file():
        return f"training in {folder} is not finished: continue it with --resume"
    return f"{folder} holds no model of coldness"


def _below(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Tensors whose names start with the prefix, with the prefix removed."""
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}


def _like(x: Points, result: Tensor) -> Points:
    """The result as a tensor on x's device, or as a NumPy array."""
    if isinstance(x, Tensor):
        return result.to(x.device)
    return result.cpu().numpy()


def _hub() -> Any:
    try:
        return import_module("huggingface_hub")
    except ImportError as error:
        raise ValueError(
            'the Hugging Face hub needs its library: pip install "coldness[hub]"'
        ) from error
