"""Folders of models and encoders: model.yaml names the parts, weights.safetensors the numbers.

The card's first line holds the checksum of the rest, and the rest that of the weights. To load a
card that was changed by hand on purpose, leave only its mark in the first line: it is then read as
one of coldness 0.9, which has no checksum.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import yaml
from torch import Tensor

from coldness.checksums import digest, headed, without_head
from coldness.documents import MOST_OF_CARD, BadDocument, read_yaml
from coldness.files import BadFile, write_atomically
from coldness.tensor_files import load_tensors, save_tensors

MARK = "# a model of coldness"
ENCODER_MARK = "# an encoder of coldness"
CARD, WEIGHTS = "model.yaml", "weights.safetensors"

log = logging.getLogger("coldness")


def write_model(folder: Path, mark: str, card: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """Writes weights and card into a folder, which is made if it is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = save_tensors(folder / WEIGHTS, tensors)
    text = yaml.safe_dump({**card, "weights": digest(weights)}, sort_keys=False, width=100)
    write_atomically(folder / CARD, lambda file: file.write(headed(mark, text.encode())))


def read_card(path: Path) -> dict[str, Any]:
    """The contents of a card.

    Raises:
        Damaged: the checksum does not match.
        BadFile: there is no card, or something else.
    """
    try:
        contents = path.read_bytes()
        mark = MARK if contents.startswith(MARK.encode()) else ENCODER_MARK
        if not contents.startswith(mark.encode()):
            raise BadFile(f"{path} is truncated or no card of a model of coldness")
        verified = without_head(path, contents, mark)
        text = (contents if verified is None else verified).decode()
        card = read_yaml(text, MOST_OF_CARD, MOST_OF_CARD)
    except (OSError, UnicodeDecodeError, BadDocument) as error:
        raise BadFile(f"{path} is truncated or not a YAML file") from error
    if not isinstance(card, dict):
        raise BadFile(f"{path} is truncated or holds no model")
    if verified is None:
        log.warning("%s has no checksum: it is read without verifying it", path)
    return card


def read_weights(folder: Path, card: dict[str, Any]) -> dict[str, Tensor]:
    """The weights that belong to a card.

    Raises:
        BadFile: they are not there, or are not those of the card.
    """
    tensors, contents = load_tensors(folder / WEIGHTS)
    if card.get("weights") != digest(contents):
        raise BadFile(
            f"{folder / WEIGHTS} is damaged or does not belong to {folder / CARD}: its checksum "
            "does not match"
        )
    return tensors
