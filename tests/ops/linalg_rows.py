"""Solvers and decompositions in small, with the steps of the algorithm counted one by one."""

from __future__ import annotations

from ops.rows import row

LINALG = [
    # 2 systems of 3 equations, 4 right sides: row 2 subtracts 1 product, row 3 2; each divides.
    row(
        "triangular_solve", "2x3x3, 2x3x4", "2x3x4", unit_diagonal=False,
        macs=2 * 4 * (1 + 2), elementwise=2 * 4 * 3, reads=[18, 24], writes=[24],
    ),
    row(
        "triangular_solve", "3x3, 3x4", "3x4", unit_diagonal=True,
        macs=4 * (1 + 2), reads=[9, 12], writes=[12],
    ),
    # 4x3: step 1 updates 3x2 elements, step 2 2x1, step 3 none; a reciprocal and 3, 2, 1 products per column.
    row(
        "lu", "4x3", "4x3, 3, ()", shorter=3, longer=4,
        macs=6 + 2, elementwise=(1 + 3) + (1 + 2) + (1 + 1), reads=[12], writes=[12, 3, 1],
    ),
    # 5 matrices 4x4: 9 + 4 + 1 updates; 4 + 3 + 2 + 1 reciprocals and products.
    row(
        "lu", "5x4x4", "5x4x4, 5x4, 5", shorter=4, longer=4,
        macs=5 * 14, elementwise=5 * 10, reads=[80], writes=[80, 20, 5],
    ),
    # Forward with diagonal 1 and backward: 2 x (1 + 2) per right side, one division per row.
    row("lu_solve", "3x3, 3x2, 3", "3x2", macs=2 * 6, elementwise=6, reads=[9, 6, 3], writes=[6]),
    # LU of 3x3 has 4 + 1 updates and 3 + 2 + 1 divisions; then as above.
    row(
        "solve", "3x3, 3x2", "3x2, 3x3, 3, ()",
        macs=5 + 12, elementwise=6 + 6, reads=[9, 6], writes=[6, 9, 3, 1],
    ),
    # 3 (3 - 1)^2 MACs; 6 divisions of LU, and LAWN 41 has 2 x 9 more products than sums in GETRI.
    row("inverse", "3x3", "3x3, ()", macs=12, elementwise=6 + 18, reads=[9], writes=[9, 1]),
    # LU of 3x3 and a product of 3 numbers, in two matrices.
    row(
        "determinant", "2x3x3", "2, 2x3x3, 2x3",
        macs=2 * 5, elementwise=2 * (6 + 3), reads=[18], writes=[2, 18, 6],
    ),
    # 4x4, column by column: 0, 1 x 3, 2 x 2, 3 x 1 products are subtracted; 4 roots and 6 divisions.
    row("cholesky", "4x4", "4x4, ()", macs=0 + 3 + 4 + 3, elementwise=4 + 6, reads=[16], writes=[16, 1]),
    row("cholesky_solve", "3x3, 3x2", "3x2", macs=2 * 6, elementwise=2 * 6, reads=[9, 6], writes=[6]),
    # POTRI for n = 3: sums n (1/6 + n (n/3 - 1/2)) = 5, products n (2/3 + n (n/3 + 1)) = 20.
    row("cholesky_inverse", "3x3", "3x3", macs=5, elementwise=20 - 5, reads=[9], writes=[9]),
    # GEQRF for 4x2: sums n (n (1/2 - n/3 + m) + 5/6) = 2 (2 x 23/6 + 5/6) = 17, products 2 (46/6 + 4 + 23/6)
    # = 31. ORGQR for m = 4, n = k = 2: sums 2 (16 + 2 - 4 + 1/3 + 2 (4/3 - 6)) = 10, products
    # 2 (16 + 4 - 5/3 + 2 (4/3 - 6 - 1)) = 14.
    row(
        "qr", "4x2", "4x2, 2x2", shorter=2, longer=4, is_wide=False, forms_q=True,
        macs=17 + 10, elementwise=(31 - 17) + (14 - 10), reads=[8], writes=[8, 4],
    ),
    # 7x6: sums 6 (6 x 11/2 + 5/6) = 203 and 6 (84 + 6 - 7 + 1/3 + 6 (4 - 13)) = 176, products
    # 6 (33 + 7 + 23/6) = 263 and 6 (84 + 12 - 5/3 + 6 (4 - 13 - 1)) = 206.
    row(
        "qr", "7x6", "7x6, 6x6", shorter=6, longer=7, is_wide=False, forms_q=True,
        macs=203 + 176, elementwise=(263 - 203) + (206 - 176), reads=[42], writes=[42, 36],
    ),
    # GEQRF for 2x4: sums m (m (-1/2 - m/3 + n) + n + 5/6) = 2 (17/3 + 29/6) = 21, products
    # 2 (17/3 + 8 + 23/6) = 35.
    row(
        "qr", "2x4", "2x4, 2", shorter=2, longer=4, is_wide=True, forms_q=False,
        macs=21, elementwise=35 - 21, reads=[8], writes=[8, 2],
    ),
    # 6x7: sums 6 (6 x 9/2 + 7 + 5/6) = 209, products 6 (27 + 14 + 23/6) = 269.
    row(
        "qr", "6x7", "6x7, 6", shorter=6, longer=7, is_wide=True, forms_q=False,
        macs=209, elementwise=269 - 209, reads=[42], writes=[42, 6],
    ),
    row("householder_product", "4x2, 2", "4x2", macs=10, elementwise=14 - 10, reads=[8, 2], writes=[8]),
    # 9 x 4^3 flops; without vectors 4/3 x 4^3 = 85.3, half of it rounded down.
    row("symmetric_eigen", "4x4", "4, 4x4", vectors=True, macs=288, reads=[16], writes=[4, 16]),
    row("symmetric_eigen", "4x4", "4", vectors=False, macs=42, reads=[16], writes=[4]),
    row("eigen", "2x4x4", "2x4, 2x4x4", vectors=True, macs=2 * 800, reads=[32], writes=[8, 32]),
    row("eigen", "4x4", "4", vectors=False, macs=320, reads=[16], writes=[4]),
    # m = 4, n = 2: 14 x 4 x 4 + 8 x 8 = 288 flops; with all of U 4 x 16 x 2 + 8 x 4 x 4 + 9 x 8 = 328;
    # values only 4 x 4 x 4 - 4/3 x 8 = 53.3.
    row(
        "svd", "4x2", "4x2, 2, 2x2", shorter=2, longer=4, vectors=True, is_full=False,
        macs=144, reads=[8], writes=[8, 2, 4],
    ),
    row(
        "svd", "2x4", "2x2, 2, 4x4", shorter=2, longer=4, vectors=True, is_full=True,
        macs=164, reads=[8], writes=[4, 2, 16],
    ),
    row(
        "svd", "4x2", "2", shorter=2, longer=4, vectors=False, is_full=False,
        macs=26, reads=[8], writes=[2],
    ),
    # The SVD, then V S^-1 (2x2) times U^T (2x4).
    row("pseudo_inverse", "4x2", "2x4", shorter=2, longer=4, macs=144 + 16, reads=[8], writes=[8]),
]  # fmt: skip
