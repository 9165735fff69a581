"""What builds hostile input: each module has ``build(rng, seeds, sandbox) -> argv``."""
