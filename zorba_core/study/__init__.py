"""What surrounds the core: the reproduction of the paper, experiments, comparisons, benchmarks, the base model."""
