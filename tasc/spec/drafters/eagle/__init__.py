"""EAGLE-2 draft trees from a trained head, over a vocabulary that may be a part of the target's."""
