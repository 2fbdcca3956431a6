"""Bytes sealed at rest: AES-256-GCM in chunks, under a key that is derived from a redaction key for this one purpose.

Layout: magic, 8 random bytes, then for each chunk its ciphertext with the 16 bytes of its tag. A chunk's nonce is the random bytes and its number; what is authenticated
besides is what the bytes are about, the number, and whether it is the last: a chunk that is cut, moved, repeated or swapped between files does not open.
"""

import secrets

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from tasks.store.errors import Unsealable

MAGIC = b"twiceshy/sealed/1\n"
CHUNK = 16 * 1024 * 1024
_SALT, _TAG = 8, 16
_PURPOSE = b"twiceshy: raw copies at rest"


def derived(key: bytes) -> bytes:
    """The 32 bytes that seal, from a redaction key: who can undo pseudonyms can read what they stand for, and nobody else (RFC 5869)."""
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=_PURPOSE).derive(key)


def sealed(data: bytes, key: bytes, *, about: str) -> bytes:
    """The bytes sealed under a redaction key; `about` has to be told again to open them."""
    cipher, salt = AESGCM(derived(key)), secrets.token_bytes(_SALT)
    last = max((len(data) - 1) // CHUNK, 0)
    parts = [
        cipher.encrypt(_nonce(salt, at), data[at * CHUNK : (at + 1) * CHUNK], _besides(about, at, last=at == last))
        for at in range(last + 1)
    ]
    return b"".join((MAGIC, salt, *parts))


def opened(data: bytes, key: bytes, *, about: str) -> bytes:
    """What was sealed. Raises Unsealable for another key, and for bytes that are not whole or not about this."""
    start = len(MAGIC) + _SALT
    if not data.startswith(MAGIC) or len(data) < start + _TAG:
        raise Unsealable.at(about)
    cipher, salt, size = AESGCM(derived(key)), data[len(MAGIC) : start], CHUNK + _TAG
    chunks = [data[at : at + size] for at in range(start, len(data), size)]
    try:
        return b"".join(
            cipher.decrypt(_nonce(salt, at), chunk, _besides(about, at, last=at == len(chunks) - 1))
            for at, chunk in enumerate(chunks)
        )
    except InvalidTag:
        raise Unsealable.at(about) from None


def _nonce(salt: bytes, number: int) -> bytes:
    return salt + number.to_bytes(4, "big")


def _besides(about: str, number: int, *, last: bool) -> bytes:
    return f"{about} {number} {last}".encode()
