"""Gradient compressors as their papers describe them: tensors in, the buffers that are really sent out."""
