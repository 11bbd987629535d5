"""What no reader can need any more: files of writes that did not end, and of earlier states of the store.

A file is spared while a reader may have it in its list (it is named by the present state, or a commit younger than the
age removed it), and while a write may be on its way to a commit that names it (it is itself younger than the age).
"""

from __future__ import annotations

from dataclasses import dataclass

from app.event_store.commits import COMMITS, CommitLog, number_of
from spark_jobs.event_store.file_system import Listed, StoreFiles
from spark_jobs.event_store.staging import DATA, STAGING


@dataclass(frozen=True, slots=True)
class Swept:
    """What was removed."""

    n_files: int
    n_bytes: int


def sweep(files: StoreFiles, log: CommitLog, *, older_than_ms: int, now_ms: int) -> Swept:
    """Remove such files; raises StoreError when one cannot be."""
    before_ms = now_ms - older_than_ms
    # Listed first: what is committed afterwards is younger than the age.
    listed = [*files.files(DATA), *files.files(STAGING), *files.files(COMMITS)]
    old = [file for file in listed if file.modified_ms < before_ms]
    state = log.read()
    spared = set(state.files)
    for _, commit in log.commits(above=-1):
        if commit.time_ms >= before_ms:
            spared.update(commit.removed)
    kept_commits = log.oldest_needed()
    removed = [file for file in old if file.path not in spared and not _is_commit(file, kept_commits)]
    for file in removed:
        files.remove(file.path)
    files.remove_empty_folders(STAGING, before_ms)
    return Swept(len(removed), sum(file.n_bytes for file in removed))


def _is_commit(file: Listed, oldest_needed: int) -> bool:
    """Whether it is a commit or a snapshot that the present state is read from."""
    if not file.path.startswith(f"{COMMITS}/"):
        return False
    number = number_of(file.name)
    return number is not None and number >= oldest_needed
