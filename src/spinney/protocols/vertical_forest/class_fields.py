"""A forest's labels as numbers to encrypt: a one in the field of a class, or a target."""

from spinney.protocols.columns.fields import Fields
from spinney.protocols.columns.job import Target


def planes_of_labels(fields: Fields, target: Target, n_classes: int) -> list[list[int]]:
    """Return the numbers to encrypt, plane by plane; the last is a zero."""
    if not n_classes:
        return [[*map(int, target), 0]]
    planes = []
    for plane in range(fields.n_planes):
        first = 1 + plane * fields.per_plane
        ones = [
            1 << (fields.field_bits * (number - first))
            if first <= number < first + fields.per_plane
            else 0
            for number in map(int, target)
        ]
        planes.append([*ones, 0])
    return planes
