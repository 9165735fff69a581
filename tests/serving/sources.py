"""The part of vLLM's source that its hook for drafters is recognised by, in a few lines."""

CONFIG = "config/speculative.py"
V1 = "v1/worker/gpu_model_runner.py"
V2 = "v1/worker/gpu/spec_decode/__init__.py"
SOURCES = {
    CONFIG: 'SpeculativeMethod = Literal["ngram", "custom_class"]\n',
    V1: """
if spec_config.method == "ngram":
    drafts = self.drafter.propose(1, sampled_token_ids)
elif spec_config.method == "custom_class":
    assert isinstance(sampled_token_ids, list)
    drafts = cast(Any, self.drafter).propose(
        sampled_token_ids,
        self.input_batch.num_tokens_no_spec,
        self.input_batch.token_ids_cpu,
        slot_mappings=slot_mappings,
    )
""",
    V2: 'if speculative_config.method == "dflash":\n    pass\n',
}


def write(folder, changes=()):
    """Write the sources into ``folder``, as package ``vllm``, with the texts in ``changes``."""
    for name, text in (SOURCES | dict(changes)).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "__init__.py").write_text("")
