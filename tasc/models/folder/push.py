"""Push a model folder to a private repository on the Hub."""

import shlex
from pathlib import Path

from tasc.data.foreign import one_line
from tasc.data.quiet import no_bars
from tasc.errors import InputError, UnavailableError
from tasc.files.disk import files_below


def check_repository(repository: str) -> None:
    """Check offline that pushing is possible, before anything is trained.

    Raises:
        InputError: ``repository`` is not a repository name.
        UnavailableError: there is no token, or HF_HUB_OFFLINE is set.
    """
    from huggingface_hub import constants, get_token
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

    try:
        validate_repo_id(repository)
    except HFValidationError as error:
        raise InputError(
            f"--push-to-hub {repository!r}: {one_line(error)}: give USER/NAME"
        ) from None
    if constants.HF_HUB_OFFLINE:
        raise UnavailableError(
            "--push-to-hub: HF_HUB_OFFLINE is set: unset it, or leave out --push-to-hub"
        )
    if get_token() is None:
        raise UnavailableError("--push-to-hub: no Hub token found: set HF_TOKEN to a write token")


def push(folder: Path, repository: str) -> str:
    """Commit the files of ``folder`` to a model repository; return its URL.

    A new repository is private; an existing one keeps its visibility. Links are not followed.

    Raises:
        UnavailableError: the push failed; the folder is unchanged.
    """
    from huggingface_hub import CommitOperationAdd, HfApi

    hub = HfApi()
    files = {file.relative_to(folder).as_posix(): file for file in files_below(folder)}
    added = [CommitOperationAdd(name, str(file)) for name, file in files.items()]
    try:
        with no_bars():
            url = hub.create_repo(repository, private=True, exist_ok=True)
            hub.create_commit(url.repo_id, added, commit_message="Model trained by tasc finetune")
    except Exception as error:  # the client raises errors of the HTTP library it was built on
        again = shlex.join(["hf", "upload", "--private", repository, str(folder), "."])
        raise UnavailableError(
            f"{folder} is complete, but could not be pushed to {repository}: {one_line(error)}: "
            f"push it with {again}"
        ) from None
    return str(url)
