"""A disk that takes its time: `fsync` that lasts some milliseconds, for benchmarks on a quick one.

The program starts itself again with a small library before the system's own (`LD_PRELOAD`, Linux
and a C compiler), so that Python, SQLite and a PostgreSQL server started by it all wait. One flush
runs at a time, and whoever asked before it began is served by it: as a journaling file system does
it. The system's own `fsync` is not called, so what is measured is the waiting and nothing else.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

__all__ = ["with_slow_disk"]

LIBRARY = r"""
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

typedef struct { _Atomic long begun, done; } Disk;
static Disk *disk;
static long flush_ns;

static void wait_ns(long ns) {
    struct timespec left = {ns / 1000000000, ns % 1000000000};
    while (nanosleep(&left, &left)) {}
}

__attribute__((constructor)) static void attach(void) {
    const char *path = getenv("SLOW_DISK"), *ms = getenv("SLOW_DISK_MS");
    if (!path || !ms) return;
    int handle = open(path, O_RDWR | O_CLOEXEC);
    void *shared = mmap(NULL, sizeof(Disk), PROT_READ | PROT_WRITE, MAP_SHARED, handle, 0);
    close(handle);
    if (shared == MAP_FAILED) return;
    flush_ns = (long)(atof(ms) * 1e6);
    disk = shared;
}

static int flush(void) {
    if (!disk) return 0;
    long due = atomic_load(&disk->begun) + 1; /* a flush that begins after now */
    while (atomic_load(&disk->done) < due) {
        long done = atomic_load(&disk->done);
        if (atomic_compare_exchange_strong(&disk->begun, &done, done + 1)) {
            wait_ns(flush_ns);
            atomic_store(&disk->done, done + 1);
        } else {
            wait_ns(50000);
        }
    }
    return 0;
}

int fsync(int handle) { (void)handle; return flush(); }
int fdatasync(int handle) { (void)handle; return flush(); }
"""


def with_slow_disk(milliseconds: float) -> None:
    """Start this program again on a disk whose flush takes so long; returns in that one."""
    if os.environ.get("SLOW_DISK"):
        return
    compiler = shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        sys.exit("--fsync-ms needs Linux and a C compiler (cc).")
    with tempfile.TemporaryDirectory() as scratch:
        source, library, state = (Path(scratch) / name for name in ("disk.c", "disk.so", "state"))
        source.write_text(LIBRARY)
        state.write_bytes(bytes(64))
        Path(scratch).chmod(0o755)  # a database server may run as another user
        state.chmod(0o666)
        build = [compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(source)]
        subprocess.run(build, check=True)
        slow = {"SLOW_DISK": str(state), "SLOW_DISK_MS": str(milliseconds)}
        again = [sys.executable, *sys.argv]
        environment = os.environ | slow | {"LD_PRELOAD": str(library)}
        sys.exit(subprocess.run(again, env=environment, check=False).returncode)
