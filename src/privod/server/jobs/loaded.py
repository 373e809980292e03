"""What is imported where workers are forked from: what each of them would have to make ready.

A process gets the compiler ready when it calls its first compiled loop, for more than half a second
even where that loop is kept on disk, and fonts when it draws its first picture. Here both are done
once, and every worker has them from its start. No thread is left, so forking stays safe.
"""

from __future__ import annotations

import numpy as np

from privod.data.kernels.ranges import settle
from privod.pictures import draw_budget, svg
from privod.privacy import Loss

svg(draw_budget("first", Loss(1), [("histogram", Loss("0.5"))]))
settle(np.zeros((1, 1)), np.zeros(1, dtype=np.int64), np.zeros((2, 1)), np.zeros(1))
