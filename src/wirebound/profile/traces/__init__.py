"""Importers: PyTorch profiler traces, Horovod timelines and nccl-tests output become summaries and profiles."""
