"""transformers: a model, and an index or a head that ``tasc.load_custom_generate`` reads."""

import shutil
from os import PathLike
from pathlib import Path

from tasc.decoding.custom_generate import CustomGenerate, custom_generate
from tasc.decoding.drafters.ngram.index import load_index, method_for
from tasc.errors import InputError
from tasc.models.folder.files import copy_json
from tasc.report.markdown import block
from tasc.serving.parts import HEAD_FOLDER, INDEX_FOLDER, Format, Start
from tasc.tokenizer.loaded import load_tokenizer

_PYTHON = """\
{tasc}from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained(".", trust_remote_code=False)
model = AutoModelForCausalLM.from_pretrained(".", trust_remote_code=False)
inputs = tokenizer({prompt}, add_special_tokens=False, return_tensors="pt")
output = model.generate(**inputs, max_new_tokens=64, do_sample=False{drafts})
ends = {ends}  # ids of the end tokens
new = output[0, inputs["input_ids"].shape[1]:].tolist()
print(tokenizer.decode([token for token in new if token not in ends]))"""


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
    def command(start: Start) -> list[str]:  # noqa: ARG004 - the protocol's name
        return []  # a library has no start command

    @staticmethod
    def example(start: Start) -> str:
        drafts = ', custom_generate=tasc.load_custom_generate(".")' if start.drafts else ""
        tasc, prompt = "import tasc\n" if drafts else "", repr(start.prompt)
        return block(
            "python", _PYTHON.format(tasc=tasc, drafts=drafts, prompt=prompt, ends=list(start.ends))
        )


def load_custom_generate(folder: str | PathLike[str]) -> CustomGenerate:
    """Return the decoding method of ``tasc export --to transformers``, from its head or its index.

    Pass it as ``custom_generate`` to the ``generate`` of the model in ``folder``. No code in the
    folder is run. Raises InputError if there is neither a head nor an index, or they belong to
    another model, and IntegrityError if they are damaged.
    """
    head_folder = Path(folder) / HEAD_FOLDER
    index_folder = Path(folder) / INDEX_FOLDER
    if head_folder.is_dir():
        return custom_generate(draft_head=head_folder)
    if not index_folder.is_dir():
        raise InputError(f"{folder} has no index: export it again with tasc export --index")
    index = load_index(index_folder, load_tokenizer(str(folder)), copy=True)
    return custom_generate(method_for(index), index)
