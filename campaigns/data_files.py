"""Bad data files of every format, read as points, as a table and as images.

A file does harm if reading it ends in anything but BadPoints, BadImages or BadFile, in several
lines, or in more than SLOW seconds. Files that are only partly bad may be read.
"""

from __future__ import annotations

import io
import struct
import time
import traceback
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import numpy as np
from PIL import Image

from campaigns.tally import Tally
from coldness.data import Points, Table
from coldness.data.image_files import Images, read_images
from coldness.data.images import BadImages
from coldness.data.point_checks import BadPoints
from coldness.files import BadFile

COUNT, QUICK = 1000, 150

SLOW = 5.0

HEADERS = (
    "(100000000000, 3)", "(10, 1000000000)", "(-5, 3)", "(1e3, 2)", "('a', 2)", "()",
    "((((5,),),),)",
    "(" * 200 + ")" * 200, "None", "(3, 4) * 10**9", "(18446744073709551616, 2)", "(True, 2)",
)  # fmt: skip
KINDS = ("|O", "<U1000000", "<c16", "|V8", "<M8[s]", "<f2", "what", "[('a', '<f8')]", "|S5", "|b1")
TEXTS = {
    "empty": "", "one line": "1,2", "header alone": "a,b\n",
    "text in numbers": "a,b\n1,2\n3,x\n" * 9,
    "ragged": "1,2\n3\n4,5,6\n" * 9, "quotes": '"1,2\n' * 30,
    "a long cell": "x" * 200_000 + ",1\n1,2\n",
    "zero bytes": "1,2\x003,4\n" * 30, "NaN": "nan,nan\n" * 30, "infinite": "1,inf\n" * 30,
    "huge": "1,1e308\n2,-1e308\n" * 30, "beyond floats": "1,1e999\n2,3\n" * 30,
    "constant": "1,2\n" * 30,
    "long numbers": "1," + "9" * 5000 + "\n2,3\n", "blanks": " \n\t\n" * 30,
    "comments": "# 1\n" * 30,
    "equal names": "a,a\n" + "1,2\n3,5\n" * 30, "commas": ",,,\n" * 30,
    "a BOM": "\ufeff" * 9 + "1,2\n" * 30,
    "few points": "1,2\n2,3\n3,1\n" * 30, "a plane": "".join(f"{k},{2 * k}\n" for k in range(40)),
}  # fmt: skip


ENDINGS = (
    ".npy", ".npz", ".csv", ".txt", ".tsv", ".parquet", ".png", ".jpg", ".gif", ".xyz"
)  # fmt: skip


def run(count: int, seed: int, folder: Path) -> Tally:
    tally, random = Tally("data files"), Random(seed)
    made = [*_named(), *_damaged(random, count)]
    if count < len(made):
        random.shuffle(made)
    for k, (name, contents) in enumerate(made[:count]):
        path = folder / f"{k}{name[name.rindex('.') :]}"
        path.write_bytes(contents)
        slowest, finding = 0.0, ""
        for reader in READERS:
            begin = time.perf_counter()
            finding = finding or _harm(reader, path)
            slowest = max(slowest, time.perf_counter() - begin)
        if not finding and slowest > SLOW:
            finding = f"took {slowest:.1f} s"
        path.unlink()
        if any(folder.iterdir()):
            finding = finding or "wrote files"
        tally.count(f"{name}: {finding}" if finding else "", slowest)
    return tally


def _points(path: Path) -> None:
    Points(str(path))


def _table(path: Path) -> None:
    Table(str(path))


def _images(path: Path) -> None:
    if path.suffix == ".npz":
        Images(str(path))
    else:
        read_images(str(path))


def _folder(path: Path) -> None:
    Images(str(path.parent))


READERS: tuple[Callable[[Path], None], ...] = (_points, _table, _images, _folder)


def _harm(reader: Callable[[Path], None], path: Path) -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            reader(path)
    except (BadPoints, BadImages, BadFile) as error:
        return "" if "\n" not in str(error) else f"several lines: {str(error)[:80]!r}"
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        return f"{reader.__name__}: {type(error).__name__} in {where.name}: {str(error)[:80]}"
    return ""


def _npy(shape: str, kind: str = "'<f8'", data: bytes = bytes(320)) -> bytes:
    head = f"{{'descr': {kind}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    head += b" " * (-(len(head) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + data


def _npz(contents: bytes, name: str = "x") -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{name}.npy", contents)
    return file.getvalue()


def _picture(kind: str, mode: str = "RGB", side: int = 12) -> bytes:
    file = io.BytesIO()
    Image.effect_noise((side, side), 50).convert(mode).save(file, kind)
    return file.getvalue()


def _named() -> Iterator[tuple[str, bytes]]:
    """Files that are bad in a known way."""
    for k, shape in enumerate(HEADERS):
        yield f"shape-{k}.npy", _npy(shape)
        yield f"shape-{k}.npz", _npz(_npy(shape), "images" if k % 2 else "x")
    for k, kind in enumerate(KINDS):
        own = kind if kind.startswith("[") else f"'{kind}'"
        yield f"kind-{k}.npy", _npy("(20, 2)", own)
        yield f"kind-{k}.npz", _npz(_npy("(20, 2)", own), "images")
    yield "inflating.npz", _npz(_npy("(20000000, 2)", data=bytes(320_000_000)))
    for name, text in TEXTS.items():
        for ending in (".csv", ".txt", ".tsv"):
            yield name + ending, text.encode("utf-8", "surrogateescape")
    for ending in ENDINGS:
        yield f"empty{ending}", b""
        yield f"garbage{ending}", bytes(range(256)) * 20
        yield f"a script{ending}", b"#!/bin/sh\ntouch /tmp/harm\n"
        yield f"EPS{ending}", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\nshowpage\n"
        yield f"SVG{ending}", b"<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'/>"
    for kind in ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM", "PDF", "EPS", "ICO", "TGA"):
        yield f"{kind}.png", _picture(kind)
    yield "floats.tif", _picture("TIFF", "F")
    yield "many pixels.png", _picture("PNG", "1", 8000)


def _damaged(random: Random, count: int) -> Iterator[tuple[str, bytes]]:
    """Good files, cut or with bytes replaced."""
    numbers = np.random.default_rng(0).normal(size=(40, 2))
    file, packed = io.BytesIO(), io.BytesIO()
    np.save(file, numbers)
    np.savez_compressed(packed, x=numbers, images=np.zeros((30, 8, 8), np.uint8))
    text = "\n".join(",".join(map(str, row)) for row in numbers)
    good = {".npy": file.getvalue(), ".npz": packed.getvalue(), ".csv": text.encode()}
    good |= {f".{k.lower()}": _picture(k) for k in ("PNG", "GIF", "BMP", "TIFF", "WEBP", "PPM")}
    good[".jpg"] = _picture("JPEG")
    for _ in range(count):
        ending = random.choice(list(good))
        contents = bytearray(good[ending])
        if random.random() < 0.3:
            yield f"cut{ending}", bytes(contents[: random.randrange(len(contents))])
            continue
        for _ in range(random.choice([1, 3, 30])):
            span = len(contents) if random.random() < 0.5 else min(len(contents), 128)
            contents[random.randrange(span)] = random.randrange(256)
        yield f"bytes{ending}", bytes(contents)
