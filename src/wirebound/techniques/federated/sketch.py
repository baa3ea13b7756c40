"""Count sketch (Charikar, Chen and Farach-Colton 2002): a small table from which large elements can be told.

In each row r every element i is added, with a random sign s_r(i), to the cell h_r(i). Its estimate is the median over
the rows of s_r(i)·cell. Each row's estimate is unbiased, with variance at most ‖v‖₂²/columns. Sketches are linear:
those of two vectors add up to that of their sum, which lets a server add what clients send.
"""

import torch
from torch import Tensor

from wirebound.errors import InputError


class CountSketch:
    """Rows and columns of a table for vectors of `elements`; who draws from the same seed may add tables."""

    def __init__(self, elements: int, rows: int, columns: int, random: torch.Generator) -> None:
        for name, value in (("elements", elements), ("rows", rows), ("columns", columns)):
            if value < 1:
                raise InputError(f"count sketch: {name} = {value} must be at least 1")
        self.rows, self.columns = rows, columns
        self._cells = torch.randint(0, columns, (rows, elements), generator=random)
        self._signs = 2.0 * torch.randint(0, 2, (rows, elements), generator=random) - 1

    def sketch(self, vector: Tensor) -> Tensor:
        """Return the table, fp32 (rows, columns), of a vector (elements)."""
        return torch.zeros(self.rows, self.columns).scatter_add_(1, self._cells, self._signs * vector)

    def row_estimates(self, table: Tensor) -> Tensor:
        """Return each row's estimate of every element: (rows, elements)."""
        return self._signs * table.gather(1, self._cells)

    def estimate(self, table: Tensor) -> Tensor:
        """Return the estimate of every element: the median of the rows (of an even number the lower middle one)."""
        return self.row_estimates(table).median(0).values
