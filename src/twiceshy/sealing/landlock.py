"""A second hold on writes: what a read-only mount does not stop, the Landlock module does.

Opening a FIFO or the running interpreter's own file (/proc/self/exe, which lies on the host's mount) for writing passes
a read-only mount; Landlock judges by the file and refuses. Linux 5.13 or newer with Landlock switched on.
"""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING

from twiceshy.sealing import kernel
from twiceshy.sealing.faults import StepRefused

if TYPE_CHECKING:
    from collections.abc import Sequence

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_ASK_VERSION = 1
_PATH_BENEATH = 1
_WRITE_FILE, _TRUNCATE, _REFER = 1 << 1, 1 << 14, 1 << 13
_CHANGES = 0x1FF0  # remove and make, of every kind
_SINCE = {_REFER: 2, _TRUNCATE: 3}  # the ABI that brought each


def restrict_writes(folders: Sequence[str], files_in: Sequence[str]) -> int:
    """Allow changes below `folders` and writing to existing files below `files_in`, and nowhere else; gives the ABI.

    Needs no_new_privs. Raises StepRefused where this kernel has no Landlock.
    """
    try:
        version = kernel.syscall(_CREATE_RULESET, None, 0, _ASK_VERSION)
        extra = sum(right for right, since in _SINCE.items() if version >= since)
        handled = _WRITE_FILE | _CHANGES | extra
        rules = kernel.syscall(_CREATE_RULESET, struct.pack("=Q", handled), 8, 0)
        for path in folders:
            _allow(rules, path, handled)
        for path in files_in:
            _allow(rules, path, handled & (_WRITE_FILE | _TRUNCATE))
        kernel.syscall(_RESTRICT_SELF, rules, 0)
        os.close(rules)
    except OSError as error:
        raise StepRefused.at("restrict writes with Landlock", error) from error
    return version


def _allow(rules: int, path: str, rights: int) -> None:
    handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        kernel.syscall(_ADD_RULE, rules, _PATH_BENEATH, struct.pack("=Qi", rights, handle), 0)
    finally:
        os.close(handle)
