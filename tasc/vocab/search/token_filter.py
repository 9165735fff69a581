"""Reject strings that cannot or must not be new tokens."""

from tasc.tokenizer.loaded import LoadedTokenizer
from tasc.tokenizer.token_bytes import byte_alphabet
from tasc.vocab.search.options import AugmentOptions


class TokenFilter:
    """Rejects strings that cannot be new tokens, and records them by reason."""

    def __init__(
        self, base: LoadedTokenizer, options: AugmentOptions, *, needs_space: bool
    ) -> None:
        """``needs_space``: the export only supports tokens that start with a space."""
        self._needs_space = needs_space
        # A byte-level decoder garbles an added token whose characters are all in its alphabet.
        byte_level = type(base.tokenizer.decoder).__name__ == "ByteLevel"
        self._garbles = options.export == "added" and byte_level
        self._protected = [text.encode() for text in options.protect]
        self.excluded: dict[str, set[bytes]] = {
            reason: set() for reason in ("not_utf8", "byte_alphabet", "no_space", "protected")
        }

    def protects(self, string: bytes) -> bool:
        """Return whether the string contains a protected one."""
        return any(protected in string for protected in self._protected)

    def __call__(self, string: bytes) -> bool:
        """Return whether a token with this string can be written, loaded and decoded."""
        try:
            text = string.decode()
        except UnicodeDecodeError:
            self.excluded["not_utf8"].add(string)
            return False
        if self._needs_space and not text.startswith(" "):
            self.excluded["no_space"].add(string)
            return False
        if self.protects(string):
            self.excluded["protected"].add(string)
            return False
        if self._garbles and not text.isascii() and byte_alphabet().keys() >= set(text):
            self.excluded["byte_alphabet"].add(string)
            return False
        return True
