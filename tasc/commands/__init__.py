"""From options to artefacts: what each command takes, how it runs, and recipes that chain them."""
