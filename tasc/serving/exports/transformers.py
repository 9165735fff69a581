"""transformers: a model, and an index or a head that ``tasc.load_custom_generate`` reads."""

import json
import shutil
from pathlib import Path

from tasc.models.folder.files import copy_json
from tasc.serving.parts import HEAD_FOLDER, Format, Start

_PYTHON = """\
{tasc}from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained(".", trust_remote_code=False)
model = AutoModelForCausalLM.from_pretrained(".", trust_remote_code=False)
inputs = tokenizer({prompt}, return_tensors="pt")
output = model.generate(**inputs, max_new_tokens=64, do_sample=False{drafts})
print(tokenizer.decode(output[0, inputs["input_ids"].shape[1]:], skip_special_tokens=True))"""


class TransformersExport(Format):
    """A model folder with an index or a head."""

    def save(self, folder: Path) -> None:
        super().save(folder)
        parts = self.parts
        if parts.head is not None:
            (folder / HEAD_FOLDER).mkdir()
            for file in sorted(parts.head.iterdir()):
                if file.suffix == ".json":
                    copy_json(file, folder / HEAD_FOLDER, f"draft head {parts.head}")
                elif file.suffix == ".safetensors" and file.is_file():
                    shutil.copyfile(file, folder / HEAD_FOLDER / file.name)

    @staticmethod
    def command(start: Start) -> list[str]:
        del start
        return []  # a library has no start command

    @staticmethod
    def example(start: Start) -> str:
        drafts = ', custom_generate=tasc.load_custom_generate(".")' if start.drafts else ""
        tasc, prompt = "import tasc\n" if drafts else "", json.dumps(start.prompt)
        return f"```python\n{_PYTHON.format(tasc=tasc, drafts=drafts, prompt=prompt)}\n```"


FORMAT = TransformersExport
