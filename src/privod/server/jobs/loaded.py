"""What is imported where workers are forked from: the compiler, ready before any of them needs it.

A process gets the compiler ready when it calls its first compiled loop, for more than half a second
even where that loop is kept on disk. Here it is done once, and every worker has it from its start.
No thread is left, so forking stays safe.
"""

from __future__ import annotations

import numpy as np

from privod.data.kernels.ranges import settle

settle(np.zeros(1), 0.0, 1.0, 0.0)
