"""What every command's options share: fields, bounds, references, and the texts they name."""
