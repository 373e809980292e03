"""One computing party's engine: a script that runs in the engine's environment, never in privod's.

It reads a job and shares from standard input, computes with its two peers, and writes its own
shares of the answer to standard output. It imports nothing of privod, opens no value and unpickles
nothing. `privod.joint.exact.engine` starts it and speaks to it.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import sys
from collections.abc import Callable
from importlib.metadata import version
from typing import Any, BinaryIO

LENGTH = struct.Struct(">Q")
PAIRS = 10**6  # distances computed at a time: about 2 GB of memory
RECEIVE_MILLISECONDS = 600_000
CONNECT_TRIES = 300
SHARES_OF_WORDS = "aby3.AShr<FM64>"


def read(source: BinaryIO) -> bytes:
    """Read one message: its length, then its bytes."""
    (size,) = LENGTH.unpack(source.read(LENGTH.size))
    return source.read(size)


def write(sink: BinaryIO, *parts: bytes) -> None:
    """Write one message."""
    sink.write(LENGTH.pack(sum(len(part) for part in parts)))
    for part in parts:
        sink.write(part)
    sink.flush()


def blocks(size: int, most: int) -> list[tuple[int, int]]:
    """Cut a range into pieces of at most so many."""
    return [(start, min(start + most, size)) for start in range(0, size, most)]


class Engine:
    """The program of one question, step by step; every value in it stays shared."""

    def __init__(self, job: dict[str, Any]) -> None:
        import jax
        import numpy as np
        import spu.libspu as lib

        jax.config.update("jax_enable_x64", True)  # without it jax silently cuts words to 32 bits
        self.np, self.lib = np, lib
        self.n, self.d, self.m = job["rows"], job["columns"], job["sample"]
        self.s, self.fewest = job["candidates"], job["fewest"]
        self.max_crowd, self.most = job["max_crowd"], job["most_outliers"]
        self.radius = job["squared_radius"]
        self.screened = self.s < self.n
        self.code: dict[tuple[Any, ...], Any] = {}
        self.progress: Callable[[int, int], None] = lambda done, total: None
        self.config = lib.RuntimeConfig(protocol=lib.ProtocolKind.ABY3, field=lib.FieldType.FM64)
        self.config.sort_method = lib.RuntimeConfig.SORT_RADIX  # quick sort's messages tell data
        self._compile_all()

    # what is compiled, before any share is here

    def _compile(
        self, key: tuple[Any, ...], step: Callable[..., Any], *shapes: tuple[int, ...]
    ) -> None:
        from spu import api
        from spu.utils import frontend

        given = [self.np.zeros(shape, self.np.int64) for shape in shapes]
        secret = [self.lib.Visibility.VIS_SECRET] * len(given)
        names = [f"in{place}" for place in range(len(given))]
        options = self.lib.CompilerOptions()
        options.disable_partial_sort_optimization = True  # it would select by comparing in the open
        made, _ = frontend.compile(
            frontend.Kind.JAX,
            step,
            given,
            {},
            names,
            secret,
            lambda out: [f"out{place}" for place in range(len(out))],
            copts=options,
        )
        self.code[key] = made
        del api

    def _compile_all(self) -> None:
        import jax
        import jax.numpy as jnp

        word = jnp.int64
        n, d, m, s = self.n, self.d, self.m, self.s

        def count(near: Any, all_of: Any, before: Any) -> tuple[Any]:
            lengths = (near * near).sum(1, dtype=word)[:, None]
            others = (all_of * all_of).sum(1, dtype=word)[None]
            squares = lengths + others - 2 * (near @ all_of.T)
            within = (squares <= word(self.radius)).astype(word)
            return (before + within.sum(1, dtype=word),)

        def screen(counts: Any, rows: Any) -> tuple[Any, ...]:
            columns = tuple(rows[:, place] for place in range(d))
            numbers = jnp.arange(1, n + 1, dtype=word)
            ordered = jax.lax.sort((counts, numbers, *columns), num_keys=1)
            fits = (ordered[0][s] > word(self.fewest)).astype(word)
            return ordered[1], jnp.stack([column[:s] for column in ordered[2:]], 1), fits[None]

        def answer(crowds: Any, zero: Any, *screened: Any) -> tuple[Any, Any]:
            outlying = (crowds <= word(self.max_crowd)).astype(word)
            few = (outlying.sum(dtype=word) <= word(self.most)).astype(word)[None]
            if not screened:
                return outlying * few + zero[:1], jnp.concatenate([jnp.ones(1, word), few]) + zero
            numbers, fits = screened
            told = outlying * (few * fits)
            padded = jnp.concatenate([told, jnp.zeros(n - s, word)])
            _, by_row = jax.lax.sort((numbers, padded), num_keys=1)
            return by_row + zero[:1], jnp.concatenate([fits, few]) + zero

        for size, other in self._shapes():
            self._compile(("count", size, other), count, (size, d), (other, d), (size,))
        if self.screened:
            self._compile(("screen",), screen, (n,), (n, d))
        extra = [(n,), (1,)] if self.screened else []
        self._compile(("answer",), answer, (s,), (2,), *extra)

    def _shapes(self) -> list[tuple[int, int]]:
        found = set()
        if self.screened:
            found |= {(high - low, self.m) for low, high in blocks(self.n, PAIRS // self.m)}
        for low, high in blocks(self.s, 1000):
            for start, end in blocks(self.n, PAIRS // (high - low)):
                found.add((high - low, end - start))
        return sorted(found)

    def digest(self) -> str:
        """Stand for everything that was compiled."""
        code = [[repr(key), made.code.hex()] for key, made in sorted(self.code.items(), key=repr)]
        return hashlib.sha256(json.dumps(code).encode()).hexdigest()

    # what is run

    def _set(self, name: str, words: Any) -> None:
        """Put this party's two components of every word into the engine."""
        shape = words.shape[:-1]
        meta = self.lib.ValueMeta()
        meta.data_type = self.lib.DataType.DT_I64
        meta.visibility = self.lib.Visibility.VIS_SECRET
        meta.shape.dims = list(shape)
        meta.storage_type = SHARES_OF_WORDS
        content = self.np.ascontiguousarray(words).tobytes()
        chunk = self.lib.ValueChunk()
        chunk.total_bytes, chunk.chunk_offset, chunk.content = len(content), 0, content
        share = self.lib.Share()
        share.meta = meta.SerializeToString()
        share.share_chunks = [chunk.SerializeToString()]
        self.vm.set_var(name, share)

    def _get(self, name: str) -> Any:
        """Take this party's two components of every word out."""
        share = self.vm.get_var(name)
        meta = self.lib.ValueMeta()
        meta.ParseFromString(share.meta)
        if meta.storage_type != SHARES_OF_WORDS:
            raise TypeError("The engine holds this in another form.")
        content = b""
        for piece in share.share_chunks:
            chunk = self.lib.ValueChunk()
            chunk.ParseFromString(piece)
            content += chunk.content
        return self.np.frombuffer(content, self.np.uint64).reshape(*meta.shape.dims, 2)

    def _run(self, key: tuple[Any, ...], given: list[str], made: list[str]) -> None:
        code = self.code[key]
        self.vm.run(
            self.lib.Executable(
                name=str(key[0]), input_names=given, output_names=made, code=code.code
            )
        )

    def compute(self, link: Any, rows: Any, sample: Any) -> tuple[Any, Any]:
        """Go through the program; return this party's shares of the verdicts and of two bits."""
        from spu import api

        np = self.np
        self.vm = api.Runtime(link, self.config)
        candidates, numbers, fits = rows, None, None
        total = len(blocks(self.n, PAIRS // self.m)) if self.screened else 0
        parts = [
            (one, other)
            for one in blocks(self.s, 1000)
            for other in blocks(self.n, PAIRS // (one[1] - one[0]))
        ]
        total, done = total + len(parts) + 2, 0
        if self.screened:
            self._set("sample", rows[sample])
            counted = []
            for low, high in blocks(self.n, PAIRS // self.m):
                self._set("near", rows[low:high])
                self._set("before", np.zeros((high - low, 2), np.uint64))
                self._run(("count", high - low, self.m), ["near", "sample", "before"], ["counts"])
                counted.append(self._get("counts"))
                done += 1
                self.progress(done, total)
            self._set("counts", np.concatenate(counted))
            self._set("rows", rows)
            self._run(("screen",), ["counts", "rows"], ["numbers", "candidates", "fits"])
            candidates = self._get("candidates")
        done += 1
        self.progress(done, total)
        crowds = np.zeros((self.s, 2), np.uint64)
        for (low, high), (start, end) in parts:
            self._set("near", candidates[low:high])
            self._set("others", rows[start:end])
            self._set("before", crowds[low:high])
            self._run(("count", high - low, end - start), ["near", "others", "before"], ["counts"])
            crowds[low:high] = self._get("counts")
            done += 1
            self.progress(done, total)
        self._set("crowds", crowds)
        self._set("zero", np.zeros((2, 2), np.uint64))
        extra = ["numbers", "fits"] if self.screened else []
        self._run(("answer",), ["crowds", "zero", *extra], ["verdicts", "bits"])
        self.progress(total, total)
        del numbers, fits
        return self._get("verdicts"), self._get("bits")


def connect(job: dict[str, Any]) -> Any:
    """Link up with the two peers, through the forwarder of this site, with its certificates."""
    import spu.libspu as lib

    description = lib.link.Desc()
    description.id = job["run"]
    description.recv_timeout_ms = RECEIVE_MILLISECONDS
    description.connect_retry_times = CONNECT_TRIES
    description.connect_retry_interval_ms = 200
    description.enable_ssl = True
    for options in (description.server_ssl_opts, description.client_ssl_opts):
        options.cert.certificate_path = job["certificate"]
        options.cert.private_key_path = job["key"]
        options.verify.ca_file_path = job["authority"]
        options.verify.verify_depth = 1
    for place, address in enumerate(job["addresses"]):
        description.add_party(f"party{place}", address)
    return lib.link.create_brpc(description, job["rank"])


def main() -> None:
    """Say who it is, compile, wait for shares, compute, hand the shares of the answer back."""
    source = sys.stdin.buffer
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # the engine logs to standard output
    write(sink, json.dumps({"spu": version("spu"), "jax": version("jax")}).encode())
    job = json.loads(read(source))
    engine = Engine(job)
    write(sink, json.dumps({"program": engine.digest()}).encode())
    start = json.loads(read(source))
    np = engine.np
    rows = np.frombuffer(read(source), np.uint64).reshape(engine.n, engine.d, 2)
    sample = np.frombuffer(read(source), np.int64)
    engine.progress = lambda done, total: write(
        sink, json.dumps({"done": done, "total": total}).encode()
    )
    link = connect({**job, **start})
    verdicts, bits = engine.compute(link, rows, sample)
    write(sink, json.dumps({"answer": len(verdicts)}).encode())
    write(sink, verdicts.tobytes())
    write(sink, bits.tobytes())
    link.stop_link()


if __name__ == "__main__":
    os.environ["JAX_PLATFORMS"] = "cpu"
    main()
