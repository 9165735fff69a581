"""transformers: a model with its own ``generate``, and an index or a head to draft with."""

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
        if self.parts.index is None and self.parts.head is None:
            return []
        return [
            "drafts need trust_remote_code=True, because transformers runs the folder's "
            "custom_generate/generate.py. Read that file first if the folder is not yours."
        ]

    @staticmethod
    def command(start: Start) -> list[str]:
        del start
        return []  # a library has no start command

    @staticmethod
    def example(start: Start) -> str:
        trust = ", trust_remote_code=True" if start.drafts else ""
        return f"```python\n{_PYTHON.format(trust=trust, prompt=json.dumps(start.prompt))}\n```"


FORMAT = TransformersExport
