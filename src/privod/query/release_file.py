"""A released value as one file: a zip of a JSON header and plain arrays, no pickle.

Files come from anywhere, so they are read with suspicion: sizes are compared with what the header
declares before anything is unpacked, and whatever is wrong ends in one readable `InvalidData`.
"""

from __future__ import annotations

import json
import math
import re
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from privod.data import Domain, Numeric
from privod.data.columns import column_from_json
from privod.errors import InvalidData
from privod.mechanisms import DiscreteGaussian
from privod.mechanisms.merged import MergedNoise
from privod.privacy import Guarantee, Loss, positive
from privod.query.count_query import COUNTS_CHANGED

Array = NDArray[Any]
ArrayOf = Callable[[str, str, tuple[int | None, ...]], Array]
"""Gives the array of a name, a type ("<i8") and a shape, None where any length will do."""

Value = TypeVar("Value")

SIGNATURE = "privod "
HEADER = "release.json"
VERSION = 1
MOST_BYTES = 2**30  # of a saved array, unpacked
MOST_HEADER_BYTES = 2**24
LARGEST_SUM = 2.0**62  # of the counts' sizes, so that no sum of them leaves 64 bits
NPY_START = b"\x93NUMPY\x01\x00"
NPY_HEADER = re.compile(
    rb"\{'descr': '(?P<type><i[48])', 'fortran_order': (?P<flip>True|False),"
    rb" 'shape': \((?P<shape>(?:\d{1,12}, ?)*(?:\d{1,12})?)\), \} *\n"
)


def write_file(
    path: str | Path, question: str, header: dict[str, Any], arrays: dict[str, Array]
) -> None:
    """Write a header and arrays."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(HEADER, json.dumps({**signed(question), **header}, indent=1))
        for name, array in arrays.items():
            plain = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
            with file.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, plain, version=(1, 0), allow_pickle=False)


def question_of_file(path: str | Path) -> str:
    """The name of the question whose release a file holds."""
    message = f"{path} is damaged, or holds nothing that privod saved."
    with Path(path).open("rb") as content, _readable(message), zipfile.ZipFile(content) as file:
        found = json.loads(_unpacked(file, file.getinfo(HEADER), MOST_HEADER_BYTES))["format"]
        if not found.startswith(SIGNATURE):
            raise InvalidData(message)
        return str(found.removeprefix(SIGNATURE))


def build_from_file(
    path: str | Path, question: str, build: Callable[[dict[str, Any], ArrayOf], Value]
) -> Value:
    """Read a file that `write_file` wrote; `build` checks the header and asks for the arrays."""
    message = f"{path} is damaged, or not a release of {question} that privod saved."
    with Path(path).open("rb") as content, _readable(message), zipfile.ZipFile(content) as file:
        entries = {entry.filename: entry for entry in file.infolist()}
        if len(entries) != len(file.infolist()):
            raise InvalidData(message)

        def array(name: str, form: str, shape: tuple[int | None, ...]) -> Array:
            known = math.prod(1 if length is None else length for length in shape)
            whole = all(length is not None for length in shape)
            most = min(MOST_BYTES, int(form[2]) * known + 256) if whole else MOST_BYTES
            return _array(_unpacked(file, entries.pop(f"{name}.npy"), most), form, shape)

        header = json.loads(_unpacked(file, entries.pop(HEADER), MOST_HEADER_BYTES))
        _check_signature(header, question)
        value = build(header, array)
        if entries:  # something that was not asked for
            raise InvalidData(message)
        return value


def build_from_json(
    data: Any, question: str, build: Callable[[dict[str, Any], ArrayOf], Value]
) -> Value:
    """The same of plain JSON values, where arrays are nested lists."""

    def array(name: str, form: str, shape: tuple[int | None, ...]) -> Array:
        found = np.asarray(data[name])
        if not found.size:
            found = np.zeros([length or 0 for length in shape], dtype=np.int64)
        if found.dtype.kind != "i" or not _fits(found.shape, shape):
            raise _misfit()
        limits = np.iinfo(form)
        if found.size and not limits.min <= found.min() <= found.max() <= limits.max:
            raise _misfit()
        return found.astype(form)

    with _readable(f"The value is damaged, or not a release of {question} that privod wrote."):
        _check_signature(data, question)
        return build(data, array)


def checked_columns(data: Any) -> tuple[Numeric, ...]:
    """Read the columns, which must have different names."""
    columns = tuple(column_from_json(column) for column in data)
    if not all(isinstance(column, Numeric) for column in columns):
        raise InvalidData("The columns must be numeric.")
    if len({column.name for column in columns}) != len(columns) or not columns:
        raise InvalidData("The columns must have different names.")
    return Domain(columns).numeric()


def checked_promise(
    header: dict[str, Any], counts_changed: int, noise_of_total: MergedNoise | None = None
) -> tuple[Guarantee, MergedNoise]:
    """Read the promise and the noise, of which the promise must follow.

    `counts_changed` is what one record more or less changes; of a total with noise of its own, it
    changes one by one.
    """
    promise = Guarantee.from_json(header["guarantee"])
    changed = counts_changed * COUNTS_CHANGED[promise.adjacency]
    epsilon = positive(promise.loss.epsilon, "epsilon")
    noise = MergedNoise.from_json(header["noise"])
    known = noise_of_total is None or not noise_of_total.gaussian
    beside = 1 / noise_of_total.least_scale if noise_of_total and known else Fraction(0)
    if not known or beside >= epsilon:
        raise InvalidData("The promise is not the one that the noise keeps.")
    if noise.gaussian:
        left = Loss(epsilon - beside, promise.loss.delta)
        kept = DiscreteGaussian(noise.gaussian[0][0]).keeps(left, changed)  # the least noisy part
        if not kept or (noise.parts and changed / noise.least_scale > left.epsilon):
            raise InvalidData("The promise is not the one that the noise keeps.")
        return promise, noise
    lost = changed / noise.least_scale + beside
    kept = lost == epsilon if noise.n_draws == 1 else lost <= epsilon  # parts may differ in share
    if not kept or promise.loss.delta:
        raise InvalidData("The promise is not the one that the noise keeps.")
    return promise, noise


def signed(question: str) -> dict[str, Any]:
    """How a header begins."""
    return {"format": f"{SIGNATURE}{question}", "version": VERSION}


def _unpacked(file: zipfile.ZipFile, entry: zipfile.ZipInfo, most: int) -> bytes:
    plain = entry.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
    if not plain or entry.flag_bits & 1 or entry.file_size > most:
        raise InvalidData("A part of the file is too large, or packed in a way that is not read.")
    return file.read(entry)


def _check_signature(header: Any, question: str) -> None:
    if not isinstance(header, dict):
        raise InvalidData("The header must be an object.")
    found = {key: header.get(key) for key in ("format", "version")}
    if found != signed(question):
        said = f"{str(found['format'])[:40]!r}, version {str(found['version'])[:10]}"
        message = f"This reads '{SIGNATURE}{question}', version {VERSION}; the file is {said}."
        raise InvalidData(f"{message} Use the privod that wrote it.")


def _array(content: bytes, form: str, shape: tuple[int | None, ...]) -> Array:
    """Read a plain array, whose own header must agree with its size, its type and its shape."""
    start = len(NPY_START) + 2
    length = int.from_bytes(content[len(NPY_START) : start], "little")
    found = NPY_HEADER.fullmatch(content[start : start + length])
    if not content.startswith(NPY_START) or found is None or found["type"].decode() != form:
        raise InvalidData("An array of the file is damaged.")
    lengths = tuple(int(text) for text in re.findall(rb"\d+", found["shape"]))
    body = content[start + length :]
    if not _fits(lengths, shape) or math.prod(lengths) * int(form[2]) != len(body):
        raise _misfit()
    numbers = np.frombuffer(body, dtype=form)
    return numbers.reshape(lengths, order="F" if found["flip"] == b"True" else "C").copy()


def check_counts(counts: Array) -> None:
    """Refuse counts so large that sums of them would leave 64 bits."""
    if float(np.abs(counts.astype(np.float64)).sum()) >= LARGEST_SUM:
        raise InvalidData("The counts are larger than any that privod releases.")


def _fits(lengths: tuple[int, ...], shape: tuple[int | None, ...]) -> bool:
    return len(lengths) == len(shape) and all(
        wanted in (None, length) for length, wanted in zip(lengths, shape, strict=True)
    )


def _misfit() -> InvalidData:
    return InvalidData("The counts do not fit the cells that are declared.")


@contextmanager
def _readable(message: str) -> Iterator[None]:
    """Say what is wrong in one way, whatever a file from outside makes fail."""
    try:
        yield
    except InvalidData as problem:
        said = str(problem)
        raise (problem if said == message else InvalidData(f"{message} {said}")) from None
    except Exception:
        raise InvalidData(message) from None
