"""transformers: a model whose folder brings its own ``generate``, and what that drafts from."""

import json
import shutil
from pathlib import Path

from tasc.serving import custom_generate
from tasc.serving.parts import HEAD_FOLDER, Format, Start

_PYTHON = """\
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained(".", trust_remote_code=False)
model = AutoModelForCausalLM.from_pretrained("."{trust})
inputs = tokenizer({prompt}, return_tensors="pt")
output = model.generate(**inputs, max_new_tokens=64, do_sample=False)
print(tokenizer.decode(output[0, inputs["input_ids"].shape[1]:], skip_special_tokens=True))"""


class TransformersExport(Format):
    """A model folder with ``custom_generate/generate.py``, an index or a head."""

    def save(self, folder: Path) -> None:
        """See Format."""
        super().save(folder)
        parts = self.parts
        if parts.head is not None:
            (folder / HEAD_FOLDER).mkdir()
            for file in sorted(parts.head.iterdir()):
                if file.suffix in (".json", ".safetensors") and file.is_file():
                    shutil.copyfile(file, folder / HEAD_FOLDER / file.name)
        if parts.index is not None or parts.head is not None:
            (folder / "custom_generate").mkdir()
            shutil.copyfile(custom_generate.__file__, folder / "custom_generate" / "generate.py")

    def notes(self) -> list[str]:
        """See Format."""
        if self.parts.index is None and self.parts.head is None:
            return []
        return [
            "custom_generate/generate.py runs on your machine: transformers asks for "
            "trust_remote_code=True, and its generate() is the plain one without it. Read the file "
            "first where the folder is not yours."
        ]

    @staticmethod
    def command(start: Start) -> list[str]:
        """See Format: a library has none."""
        del start
        return []

    @staticmethod
    def example(start: Start) -> str:
        """See Format."""
        trust = ", trust_remote_code=True" if start.drafts else ""
        return f"```python\n{_PYTHON.format(trust=trust, prompt=json.dumps(start.prompt))}\n```"


FORMAT = TransformersExport
