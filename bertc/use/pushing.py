"""``bertc export --push``: the model of a run as a model on the Hugging Face hub."""

import json
import logging
import re
import sys
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from bertc.base.diagnostics import BertcError, CannotWriteError, MissingInputError, UsageError
from bertc.base.storage import durable
from bertc.base.storage.paths import is_file
from bertc.base.storage.place import FolderAt
from bertc.base.storage.plain_file import read_text
from bertc.cost.units import bytes_text
from bertc.hub.folders import EXPORTED
from bertc.hub.published import NAME
from bertc.use.card import MOST_BYTES, UNLICENSED, export_with_card

_REFUSED = re.compile(r"@|--|\.\.|\.git$|/.{97}")  # huggingface_hub, utils/_validators.py
_AGAIN = "check the network, then run the same command again; --to FOLDER keeps the export here"


@dataclass(frozen=True)
class Destination:
    """A model on the hub, ``user/name``, and the branch of it to write."""

    name: str
    branch: str = "main"
    private: bool = False

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name) or _REFUSED.search(self.name):
            raise UsageError(
                f"--push {self.name}: no model has such a name on the hub",
                help="user/name or organisation/name; data sets and spaces take no models",
            )
        if not NAME.fullmatch(f"{self.name}@{self.branch}") or ".." in self.branch:
            raise UsageError(f"--revision {self.branch}: no name of a branch", help="such as v1")


def push(
    run: Path, to: Path | None, pooling: str, where: Destination, dry_run: bool, step: int = 0
) -> str:
    """Export a run and send the folder to the hub; lines about what was sent, or would be.

    The weights are those after ``step`` steps, 0: the newest. The folder is written at ``to``, or
    is a temporary one. Of a dry run the hub gets no request.
    """
    from huggingface_hub import constants

    called = f'"{where.name}"' + f', revision="{where.branch}"' * (where.branch != "main")
    with TemporaryDirectory(prefix="bertc-push-") as aside:
        folder = to or Path(aside) / "model"
        exported = export_with_card(run, folder, pooling, step, called)
        try:
            if not dry_run:
                _send(folder, where)
        except BertcError:
            raise
        except Exception as error:
            raise _refusal(error, where) from None
        sizes = FolderAt(str(folder)).sizes(below=True)
    lines = [f"  {bytes_text(size):>8}  {name}" for name, size in sorted(sizes.items())]
    total = f"{bytes_text(sum(sizes.values()))} {'would be sent' if dry_run else 'sent'}"
    place = f"{constants.ENDPOINT}/{where.name}/tree/{where.branch}{', private' * where.private}"
    first = replace(exported, folder=Path(f"{where.name}@{where.branch}")).summary()
    return "\n".join([first, f"{total} to {place}:", *lines])


def _send(folder: Path, where: Destination) -> None:
    from huggingface_hub import HfApi, constants, get_token
    from huggingface_hub.utils.tqdm import disable_progress_bars

    if constants.HF_HUB_OFFLINE:
        raise CannotWriteError("the hub is not reached: HF_HUB_OFFLINE is set", help="unset it")
    if not get_token():
        raise MissingInputError("there is no token of the hub", "hf auth login, or set HF_TOKEN")
    if not sys.stderr.isatty():
        disable_progress_bars()
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    api = HfApi(endpoint=constants.ENDPOINT)
    with warnings.catch_warnings(action="ignore"):  # of the licence to fill in
        api.create_repo(where.name, private=where.private or None, exist_ok=True)
        if where.branch != "main":
            api.create_branch(where.name, branch=where.branch, exist_ok=True)
        model = api.model_info(where.name, revision=where.branch)
        if where.private and model.private is False:
            raise UsageError(
                f"--private: {where.name} is on the hub already, and public",
                help=f"make it private at {constants.ENDPOINT}/{where.name}/settings",
            )
        card, names = folder / "README.md", ("license", "license_name", "license_link")
        known = {name: value for name in names if (value := getattr(model.card_data, name, None))}
        if "license" in known and is_file(card):  # that was filled in on the hub
            lines = "\n".join(f"{name}: {json.dumps(value)}" for name, value in known.items())
            text = read_text(card, MOST_BYTES).replace(UNLICENSED, lines, 1)
            durable.replace(card, text.encode())
        api.upload_folder(
            repo_id=where.name, folder_path=folder, revision=where.branch,
            delete_patterns=[*EXPORTED - {"README.md"}], commit_message="Exported by bertc",
        )  # fmt: skip


def _refusal(error: Exception, where: Destination) -> CannotWriteError:
    """Cause and remedy of what the hub says, without text of requests: the token is in it."""
    from huggingface_hub import constants, errors

    if isinstance(error.__cause__, Exception) and not isinstance(error, errors.HfHubHTTPError):
        error = error.__cause__  # of one of several threads
    if not isinstance(error, errors.HfHubHTTPError):
        kind = type(error).__name__
        return CannotWriteError(f"cannot send to the hub at {constants.ENDPOINT}: {kind}", _AGAIN)
    tokens, text = (
        f"{constants.ENDPOINT}/settings/tokens",
        (error.server_message or "").split("\n"),
    )
    is_lost = isinstance(error, errors.RepositoryNotFoundError)
    match 404 if is_lost else error.response.status_code:
        case 401:
            cause, remedy = "it does not know the token", f"make one at {tokens}; hf auth login"
        case 403:
            cause, remedy = f"the token may not write {where.name}", f"write access: {tokens}"
        case 404:
            cause, remedy = f"no model {where.name} that the token may see", "check the name"
        case status:
            cause, remedy = f"{status} {text[0][:200]}".strip(), _AGAIN
    return CannotWriteError(f"the hub refused: {cause}", remedy)
