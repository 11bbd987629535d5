"""Array types of kernel arguments."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Int32Array = npt.NDArray[np.int32]
Int64Array = npt.NDArray[np.int64]
UInt8Array = npt.NDArray[np.uint8]
Float64Array = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
