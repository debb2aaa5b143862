"""The encryption schemes by name; both need an extra."""

from importlib.util import find_spec
from typing import Final

from spinney.errors import MissingExtraError, SettingError
from spinney.privacy.homomorphic import KEY_BITS, SCHEMES, AdditiveHE, Scheme, SecretHE

_EXTRA: Final = "he"


def available() -> tuple[Scheme, ...]:
    """Return the schemes that can be used here, the fastest first."""
    return SCHEMES if find_spec("gmpy2") is not None else ()


def scheme_of(name: str) -> Scheme:
    """Return the scheme to use: the named one or, for "auto", the fastest."""
    for scheme in SCHEMES:
        if name in {scheme, "auto"}:
            if not available():
                what = "labels='encrypted'" if name == "auto" else f"scheme={name!r}"
                raise MissingExtraError("gmpy2", _EXTRA, what)
            return scheme
    raise SettingError(f"scheme must be 'auto', {SCHEMES[0]!r} or {SCHEMES[1]!r}; got {name!r}.")


def new_key(scheme: Scheme, key_bits: int) -> SecretHE:
    """Draw a key pair."""
    if key_bits not in KEY_BITS:
        raise SettingError(f"key_bits must be 2048 or 3072; got {key_bits!r}.")
    if scheme == "okamoto-uchiyama":
        from spinney.privacy.okamoto_uchiyama import OkamotoUchiyama  # noqa: PLC0415  an extra

        return OkamotoUchiyama.new(key_bits)
    from spinney.privacy.paillier import PaillierKey  # noqa: PLC0415  an extra

    return PaillierKey.new(key_bits)


def of_public_key(scheme: str, data: bytes) -> AdditiveHE:
    """Return the adding side of a public key; raise `ProtocolError` if it is not a key."""
    if scheme_of(scheme) == "okamoto-uchiyama":
        from spinney.privacy.okamoto_uchiyama import OkamotoUchiyamaAdding  # noqa: PLC0415

        return OkamotoUchiyamaAdding.of(data)
    from spinney.privacy.paillier import Paillier  # noqa: PLC0415  an extra

    return Paillier.of(data)


def of_secret_key(scheme: str, public: bytes, secret: bytes) -> SecretHE:
    """Return the side with the key, from its stored keys."""
    if scheme_of(scheme) == "okamoto-uchiyama":
        from spinney.privacy.okamoto_uchiyama import OkamotoUchiyama  # noqa: PLC0415  an extra

        return OkamotoUchiyama.of_keys(public, secret)
    from spinney.privacy.paillier import PaillierKey  # noqa: PLC0415  an extra

    return PaillierKey.of_secret(secret)
