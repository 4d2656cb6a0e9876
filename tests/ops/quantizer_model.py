"""Plain numpy models of the number formats and quantizers, written from their definition: search the nearest value."""

from __future__ import annotations

import math

import numpy as np

E2M1 = np.array([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
E4M3 = np.array(
    [2.0**-9 * m for m in range(8)] + [2.0 ** (e - 7) * (1 + m / 8) for e in range(1, 16) for m in range(8)][:-1]
)


def nearest_code(x: float, values: np.ndarray) -> int:
    """Code of the nearest value, the sign in the bit above the magnitudes; ties go to the even code; saturates."""
    distance = np.abs(values - abs(x))
    tied = np.flatnonzero(distance == distance.min())
    code = int(tied[0] if len(tied) == 1 or tied[0] % 2 == 0 else tied[1])
    return code + (_sign_bit(values) if math.copysign(1.0, x) < 0 else 0)


def value_of(code: int, values: np.ndarray) -> float:
    sign_bit = _sign_bit(values)
    return -float(values[code - sign_bit]) if code >= sign_bit else float(values[code])


def _sign_bit(values: np.ndarray) -> int:
    return 8 if values is E2M1 else 128


def scale_exponent(group: np.ndarray, floor: float, inverse: np.float32) -> int:
    """ceil(log2(f32(max(amax, floor) * inverse))), exactly."""
    amax = np.float32(max(np.abs(group).max(), np.float32(floor)))
    mantissa, exponent = math.frexp(float(np.float32(amax * inverse)))
    return exponent - 1 if mantissa == 0.5 else exponent


def quantize(x: np.ndarray, kind: str) -> tuple[list[int], list[int], np.ndarray]:
    """One vector -> codes, scale bytes, dequantized values."""
    size = 16 if kind == "fp4_group16" else 32
    values = E4M3 if kind == "fp8_group32" else E2M1
    codes, scales, rounded = [], [], []
    for begin in range(0, len(x), size):
        group = x[begin : begin + size].astype(np.float32)
        if kind == "fp4_group16":
            amax = np.float32(max(np.abs(group).max(), np.float32(6 * 2.0**-9)))
            byte = nearest_code(float(min(np.float32(amax / np.float32(6)), np.float32(448))), E4M3)
            scale = float(E4M3[byte])
            scaled = group / np.float32(scale)
        else:
            floor, largest = (1e-4, 448) if kind == "fp8_group32" else (6 * 2.0**-126, 6)
            exponent = scale_exponent(group, floor, np.float32(1 / largest))
            byte, scale = exponent + 127, 2.0**exponent
            scaled = group.astype(np.float64) / scale
        new = [nearest_code(float(v), values) for v in scaled]
        codes += new
        scales.append(byte)
        rounded += [value_of(code, values) * scale for code in new]
    return codes, scales, np.array(rounded)
