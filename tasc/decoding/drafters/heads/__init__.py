"""Draft trees from trained heads, over a vocabulary that may be a part of the target's."""
