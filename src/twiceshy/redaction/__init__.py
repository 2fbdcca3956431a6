"""Redaction of recorded values: policies, canonical forms, keyed pseudonyms, and the walk that applies them (docs: redaction).

`tasks/redact` builds on it; a replay passes live arguments through `Redactor.redact_arguments` before they are matched.
"""

from twiceshy.redaction.keys import SAMPLE_KEY_ID, Keyring, NewKey, is_sample_key, new_key, refuse_sample_key
from twiceshy.redaction.policy import FieldRule, Policy, load
from twiceshy.redaction.redactor import RESTRICTED, Redactor

__all__ = [
    "RESTRICTED",
    "SAMPLE_KEY_ID",
    "FieldRule",
    "Keyring",
    "NewKey",
    "Policy",
    "Redactor",
    "is_sample_key",
    "load",
    "new_key",
    "refuse_sample_key",
]
