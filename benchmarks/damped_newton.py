"""Damped Gauss-Newton steps (Levenberg and Marquardt), for absolute errors that are smooth near zero."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def minimum(
    current: np.ndarray,
    residual: Callable[[np.ndarray], np.ndarray],
    jacobian: Callable[[np.ndarray, np.ndarray], np.ndarray],
    smooth: float,
    *,
    weight: np.ndarray | float = 1.0,
    penalty: np.ndarray | float = 0.0,
    ridge: float = 0.0,
    move: Callable[[np.ndarray, np.ndarray], np.ndarray] = np.add,
    damping: float = 1e-3,
) -> np.ndarray:
    """The numbers with the least weighted error and `penalty` times their squares, from `current`.

    Errors below `smooth` count by their square. `jacobian` takes numbers and their residuals, `move` numbers
    and a step. `ridge` keeps steps finite along numbers without an effect.
    """

    def loss(rest: np.ndarray, flat: np.ndarray) -> float:
        error = np.sqrt(rest**2 + smooth**2) - smooth
        return float((weight * 2 * smooth * error).sum() + (penalty * flat**2).sum())

    rest = residual(current)
    least = loss(rest, current)
    for _ in range(40):
        slopes = jacobian(current, rest)
        scale = weight * smooth / np.sqrt(rest**2 + smooth**2)
        curvature = (slopes * scale[:, None]).T @ slopes + np.diag(penalty + ridge + np.zeros_like(current))
        gradient = slopes.T @ (scale * rest) + penalty * current
        for _ in range(8):
            step = np.linalg.solve(curvature + damping * np.diag(np.diag(curvature)), -gradient)
            tried = move(current, step)
            there = residual(tried)
            if (value := loss(there, tried)) < least:
                break
            damping *= 4
        else:
            break
        is_done = least - value < 1e-4 * least
        current, rest, least, damping = tried, there, value, max(damping / 5, 1e-8)
        if is_done:
            break
    return current
