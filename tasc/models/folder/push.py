"""Giving a model folder to the Hub, by the Hub's own client, into a private repository."""

import shlex
from pathlib import Path

from tasc.data.foreign import one_line
from tasc.data.quiet import no_bars
from tasc.errors import InputError, UnavailableError
from tasc.files.disk import files_below


def check_repository(repository: str) -> None:
    """Refuse what cannot be pushed to, before anything is trained; nothing is asked of the Hub.

    Raises:
        InputError: ``repository`` is no name of one.
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
        raise UnavailableError("--push-to-hub: HF_HUB_OFFLINE is set: unset it, or leave it out")
    if get_token() is None:
        raise UnavailableError(
            "--push-to-hub: there is no token of the Hub: set HF_TOKEN to one that may write"
        )


def push(folder: Path, repository: str) -> str:
    """Commit the files of ``folder`` to a repository of models; return its URL.

    A repository that is not there is made, private; one that is there stays as visible as it is.
    Files go with their paths below ``folder``; links are not followed.

    Raises:
        UnavailableError: the Hub cannot be reached, or refuses; the folder stays as it is.
    """
    from huggingface_hub import CommitOperationAdd, HfApi

    hub = HfApi()
    files = {file.relative_to(folder).as_posix(): file for file in files_below(folder)}
    added = [CommitOperationAdd(name, str(file)) for name, file in files.items()]
    try:
        with no_bars():
            found = hub.create_repo(repository, private=True, exist_ok=True)
            hub.create_commit(found.repo_id, added, commit_message="A model of tasc finetune")
    except Exception as error:  # the client's errors come from the HTTP library it was built on
        again = shlex.join(["hf", "upload", "--private", repository, str(folder), "."])
        raise UnavailableError(
            f"{folder} is whole, but was not pushed to {repository}: {one_line(error)}; "
            f"type {again} to push it"
        ) from None
    return str(found)
