"""One computing party's engine: a script that runs in the engine's environment, not in privod's."""

from __future__ import annotations

import hashlib
import json
import os
import struct
import sys
from collections.abc import Callable
from importlib.metadata import version
from threading import Thread
from typing import IO, Any

LENGTH = struct.Struct(">Q")
PAIRS = 10**6  # distances computed at a time, with about 1 GB of memory
NEAR = 1000  # candidates in them
RECEIVE_MILLISECONDS = 600_000
CONNECT_TRIES, CONNECT_MILLISECONDS = 300, 200
SHARES_OF_WORDS = "aby3.AShr<FM64>"

Steps = dict[tuple[Any, ...], bytes]


def read(source: IO[bytes]) -> bytes:
    """Read one message: its length, then its bytes."""
    (size,) = LENGTH.unpack(source.read(LENGTH.size))
    return source.read(size)


def write(sink: IO[bytes], message: bytes | memoryview) -> None:
    """Write one message."""
    sink.write(LENGTH.pack(len(message)))
    sink.write(message)
    sink.flush()


def pieces(size: int, most: int) -> list[tuple[int, int]]:
    """Cut a range into pieces of at most so many."""
    return [(start, min(start + most, size)) for start in range(0, size, most)]


def parts(job: dict[str, Any]) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Which candidates are compared with which rows at a time."""
    near = pieces(job["candidates"], NEAR)
    return [(one, other) for one in near for other in pieces(job["rows"], PAIRS // NEAR)]


def compiled(job: dict[str, Any]) -> Steps:
    """Compile the program's steps from public sizes; every value in them is secret."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    import spu.libspu as lib
    from spu.utils import frontend

    jax.config.update("jax_enable_x64", True)  # without it jax silently cuts words to 32 bits
    word = jnp.int64
    n, m, s = job["rows"], job["sample"], job["candidates"]
    widths, d = jnp.asarray(job["widths"], word), len(job["widths"])

    def count(near: Any, others: Any, before: Any) -> tuple[Any]:
        lengths = (near * near).sum(1, dtype=word)[:, None]
        squares = lengths + (others * others).sum(1, dtype=word)[None] - 2 * (near @ others.T)
        within = (squares <= word(job["squared_radius"])).astype(word)
        return (before + within.sum(1, dtype=word),)

    def screen(counts: Any, rows: Any) -> tuple[Any, ...]:
        columns = tuple(rows[:, place] for place in range(d))
        numbers = jnp.arange(1, n + 1, dtype=word)
        ordered = jax.lax.sort((counts, numbers, *columns), num_keys=1)
        fits = (ordered[0][s] > word(job["fewest"])).astype(word)
        return ordered[1], jnp.stack([column[:s] for column in ordered[2:]], 1), fits[None]

    def outside(rows: Any, before: Any) -> tuple[Any]:
        beyond = (rows < word(0)).astype(word) + (rows > widths).astype(word)
        return (before + beyond.sum(dtype=word)[None],)

    def answer(crowds: Any, beyond: Any, zero: Any, *screened: Any) -> tuple[Any]:
        outlying = (crowds <= word(job["max_crowd"])).astype(word)
        few = (outlying.sum(dtype=word) <= word(job["most_outliers"])).astype(word)[None]
        fits = (beyond <= word(0)).astype(word)  # a value outside its range would wrap
        if screened:
            fits = fits * screened[1]
        told = outlying * (few * fits)
        if screened:
            padded = jnp.concatenate([told, jnp.zeros(n - s, word)])
            told = jax.lax.sort((screened[0], padded), num_keys=1)[1]  # in the order of rows again
        return (jnp.concatenate([fits, few, told]) + zero,)  # a sum is held as shares of words

    made: Steps = {}

    def add(key: tuple[Any, ...], step: Callable[..., Any], *shapes: tuple[int, ...]) -> None:
        options = lib.CompilerOptions()
        options.disable_partial_sort_optimization = True  # would select by opened comparisons
        made[key] = frontend.compile(
            frontend.Kind.JAX,
            step,
            [np.zeros(shape, np.int64) for shape in shapes],
            {},
            [f"in{place}" for place in range(len(shapes))],
            [lib.Visibility.VIS_SECRET] * len(shapes),
            lambda out: [f"out{place}" for place in range(len(out))],
            copts=options,
        )[0].code

    shapes = {(high - low, end - start) for (low, high), (start, end) in parts(job)}
    if m:
        shapes |= {(high - low, m) for low, high in pieces(n, PAIRS // m)}
        add(("screen",), screen, (n,), (n, d))
    for near, others in sorted(shapes):
        add(("count", near, others), count, (near, d), (others, d), (near,))
    for size in sorted({high - low for low, high in pieces(n, PAIRS // d)}):
        add(("outside", size), outside, (size, d), (1,))
    add(("answer",), answer, (s,), (1,), (2 + n,), *([(n,), (1,)] if m else []))
    return made


class Engine:
    """The engine's machine with this party's shares in it."""

    def __init__(self, link: Any, code: Steps) -> None:
        import numpy as np
        import spu.libspu as lib
        from spu import api

        config = lib.RuntimeConfig(protocol=lib.ProtocolKind.ABY3, field=lib.FieldType.FM64)
        config.sort_method = lib.RuntimeConfig.SORT_RADIX  # other sorts' messages depend on data
        self.np, self.lib, self.code = np, lib, code
        self.machine = api.Runtime(link, config)

    def set(self, **variables: Any) -> None:
        """Put in this party's two components of every word, in the last axis."""
        for name, words in variables.items():
            meta, chunk, share = self.lib.ValueMeta(), self.lib.ValueChunk(), self.lib.Share()
            meta.data_type = self.lib.DataType.DT_I64
            meta.visibility = self.lib.Visibility.VIS_SECRET
            meta.shape.dims = list(words.shape[:-1])
            meta.storage_type = SHARES_OF_WORDS
            content = self.np.ascontiguousarray(words).tobytes()
            chunk.total_bytes, chunk.chunk_offset, chunk.content = len(content), 0, content
            share.meta, share.share_chunks = meta.SerializeToString(), [chunk.SerializeToString()]
            self.machine.set_var(name, share)

    def get(self, name: str) -> Any:
        """Take this party's two components of every word out."""
        share, meta = self.machine.get_var(name), self.lib.ValueMeta()
        meta.ParseFromString(share.meta)
        if meta.storage_type != SHARES_OF_WORDS:
            raise TypeError("The engine holds this in another form.")
        content = bytearray()
        for piece in share.share_chunks:
            chunk = self.lib.ValueChunk()
            chunk.ParseFromString(piece)
            content += chunk.content
        return self.np.frombuffer(content, self.np.uint64).reshape(*meta.shape.dims, 2)

    def run(self, key: tuple[Any, ...], given: str, made: str) -> None:
        """Run a compiled step on named variables."""
        names = {"input_names": given.split(), "output_names": made.split()}
        self.machine.run(self.lib.Executable(name=str(key[0]), code=self.code[key], **names))


def compute(
    engine: Engine, job: dict[str, Any], rows: Any, sample: Any, moved: Callable[[int, int], None]
) -> Any:
    """Go through the program; return this party's shares of two bits and of the verdicts."""
    np = engine.np
    n, m, s = job["rows"], job["sample"], job["candidates"]
    to_screen, to_count = pieces(n, PAIRS // m) if m else [], parts(job)
    total, done = len(to_screen) + len(to_count) + 2, 0

    def counted(near: Any, others: Any, before: Any) -> Any:
        nonlocal done
        engine.set(near=near, others=others, before=before)
        engine.run(("count", len(near), len(others)), "near others before", "counts")
        done += 1
        moved(done, total)
        return engine.get("counts")

    candidates = rows
    if m:
        chosen, none = rows[sample], np.zeros((n, 2), np.uint64)
        counts = [counted(rows[low:high], chosen, none[low:high]) for low, high in to_screen]
        engine.set(counts=np.concatenate(counts), rows=rows)
        engine.run(("screen",), "counts rows", "numbers candidates fits")
        candidates = engine.get("candidates")
    crowds = np.zeros((s, 2), np.uint64)
    for (low, high), (start, end) in to_count:
        crowds[low:high] = counted(candidates[low:high], rows[start:end], crowds[low:high])
    engine.set(beyond=np.zeros((1, 2), np.uint64), zero=np.zeros((2 + n, 2), np.uint64))
    for low, high in pieces(n, PAIRS // rows.shape[1]):
        engine.set(near=rows[low:high])
        engine.run(("outside", high - low), "near beyond", "beyond")
    engine.set(crowds=crowds)
    engine.run(("answer",), "crowds beyond zero" + " numbers fits" * bool(m), "told")
    moved(total, total)
    return engine.get("told")


def connect(job: dict[str, Any]) -> Any:
    """Link up with the two peers, through the forwarder of this site, with its certificates."""
    import spu.libspu as lib

    description = lib.link.Desc()
    description.id = job["run"]
    description.recv_timeout_ms = RECEIVE_MILLISECONDS
    description.connect_retry_times = CONNECT_TRIES
    description.connect_retry_interval_ms = CONNECT_MILLISECONDS
    description.enable_ssl = True
    for options in (description.server_ssl_opts, description.client_ssl_opts):
        options.cert.certificate_path = f"{job['folder']}/engine.pem"
        options.cert.private_key_path = f"{job['folder']}/engine.key"
        options.verify.ca_file_path = f"{job['folder']}/authority.pem"
        options.verify.verify_depth = 1
    for place, address in enumerate(job["addresses"]):
        description.add_party(f"party{place}", address)
    return lib.link.create_brpc(description, job["rank"])


def end_with_party(source: IO[bytes]) -> None:
    """End this process once its party is gone, which may have been killed and told nobody."""

    def watch() -> None:
        source.read(1)  # nothing more is sent: this returns when the pipe is closed
        os._exit(1)

    Thread(target=watch, daemon=True).start()


def main() -> None:
    """Say who it is, compile, wait for shares, compute, hand the shares of the answer back."""
    source, sink = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # the engine logs to standard output

    def say(**said: Any) -> None:
        write(sink, json.dumps(said).encode())

    say(spu=version("spu"))
    job = json.loads(read(source))
    code = compiled(job)
    listed = [[repr(key), made.hex()] for key, made in sorted(code.items(), key=repr)]
    say(program=hashlib.sha256(json.dumps(listed).encode()).hexdigest())
    started = json.loads(read(source))
    link = connect(started)
    engine = Engine(link, code)
    rows = engine.np.frombuffer(read(source), "<u8").reshape(job["rows"], -1, 2)
    sample = engine.np.frombuffer(read(source), "<u8").astype(int)
    end_with_party(source)
    told = compute(engine, job, rows, sample, lambda done, total: say(done=done, total=total))
    say(answer=len(told))
    write(sink, told.tobytes())
    link.stop_link()


if __name__ == "__main__":
    main()
