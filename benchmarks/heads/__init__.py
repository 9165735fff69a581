"""Draft heads side by side, and the prompts they are measured on."""
