"""What builds hostile input: each module has ``build(rng, seeds, sandbox)``, a command line."""
