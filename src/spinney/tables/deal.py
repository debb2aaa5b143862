"""Deal one table out to simulated parties, by rows or by columns."""

from collections.abc import Hashable, Iterable, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.errors import SettingError
from spinney.seeds import generator, job_seed
from spinney.tables.names import feature_names
from spinney.tables.schema import join_words
from spinney.typing import Integers

_QUANTILE_GROUPS = 10
_MOST_CLASSES = 100  # more distinct numbers than this are amounts, not classes


def deal_rows(
    y: Any,
    n_parties: int = 5,
    *,
    skew: float = 0.0,
    sizes: Sequence[float] | None = None,
    stratified: bool = False,
    by: Any = None,
    random_state: Any = None,
) -> NDArray[np.intp]:
    """Return the party, from 0 to n_parties - 1, that each row is dealt to.

    Every party gets at least one row. A numeric `y` with fractions, or with more than 100
    distinct values, is grouped into 10 quantiles where classes are needed.

    Parameters
    ----------
    y
        The label of each row.
    n_parties
        How many parties there are.
    skew
        0 deals rows at random into near-equal parts. Above 0, every class is spread over the
        parties by a separate draw from a Dirichlet distribution with concentration 1 / skew: at 1
        the parties differ clearly, at 10 most hold few classes.
    sizes
        The parties' relative sizes. Default: equal.
    stratified
        Whether every party gets the same share of every class.
    by
        A value for each row, such as its hospital, region or year: rows with the same value go to
        the same party. Parties get whole values, so that they have near-equal sizes; amounts go in
        order, so that a party has the lowest and another the highest.
    random_state
        Fixes the deal.
    """
    labels = np.asarray(y)
    _check_deal(labels, n_parties, skew, sizes, stratified=stratified)
    if by is not None:
        if skew or sizes is not None or stratified:
            raise SettingError(
                "by cannot be used together with skew, sizes or stratified: the values decide who "
                "gets a row. Use one of them."
            )
        return _by_values(np.asarray(by), labels.shape[0], n_parties)
    random = generator(job_seed(random_state))
    order = random.permutation(labels.shape[0])
    if skew > 0:
        return _skewed(_groups(labels), order, n_parties, skew, random)
    if stratified:
        order = order[np.argsort(_groups(labels)[order], kind="stable")]
    party_of_row = np.empty(order.size, dtype=np.intp)
    party_of_row[order] = _turns(_quotas(order.size, n_parties, sizes))
    return party_of_row


def deal_columns(
    columns: Any,
    n_parties: int = 2,
    *,
    names: Sequence[str] | None = None,
    random_state: Any = None,
) -> dict[str, list[Any]]:
    """Return the columns of each party, dealt in near-equal parts.

    Parameters
    ----------
    columns
        The column names, or the table itself; columns of an array are named by position.
    n_parties
        How many parties there are; ignored if `names` is given.
    names
        The parties' names. Default: party_0, party_1 and so on.
    random_state
        Fixes the deal.
    """
    found = _columns_of(columns)
    if names is None:
        _require_parties(n_parties, len(found), "columns")
        names = [f"party_{party}" for party in range(n_parties)]
    parties = _party_names(names)
    _require_parties(len(parties), len(found), "columns")
    random = generator(job_seed(random_state))
    party_of_column = random.permutation(np.arange(len(found)) % len(parties))
    return {
        name: [
            column for column, owner in zip(found, party_of_column, strict=True) if owner == party
        ]
        for party, name in enumerate(parties)
    }


def _check_deal(
    labels: NDArray[Any],
    n_parties: int,
    skew: float,
    sizes: Sequence[float] | None,
    *,
    stratified: bool,
) -> None:
    if labels.ndim != 1:
        raise SettingError(f"y must have one dimension; got {labels.ndim}.")
    _require_parties(n_parties, labels.shape[0], "rows")
    if not (_is_number(skew) and 0 <= skew < np.inf):
        raise SettingError(f"skew must be 0 or a finite positive number; got {skew!r}.")
    if skew > 0 and stratified:
        raise SettingError(
            "skew and stratified cannot be used together: skew makes the parties' class shares "
            "differ, stratified makes them equal. Use one of them."
        )
    if skew > 0 and sizes is not None:
        raise SettingError(
            "skew and sizes cannot be used together, since skew also draws the parties' sizes. "
            "Use one of them."
        )
    if sizes is not None:
        _check_sizes(sizes, n_parties)


def _check_sizes(sizes: Sequence[float], n_parties: int) -> None:
    is_list = isinstance(sizes, Iterable) and not isinstance(sizes, str)
    if not is_list or not all(_is_number(size) and 0 < size < np.inf for size in sizes):
        raise SettingError(f"sizes must be a list of finite positive numbers; got {sizes!r}.")
    if len(sizes) != n_parties:
        raise SettingError(f"sizes must have {n_parties} entries, one per party; got {len(sizes)}.")


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _require_parties(n_parties: int, n_things: int, things: str) -> None:
    if not isinstance(n_parties, Integral) or not 1 <= n_parties <= n_things:
        raise SettingError(
            f"n_parties must be a whole number between 1 and the number of {things}, {n_things}; "
            f"got {n_parties!r}."
        )


def _groups(labels: NDArray[Any]) -> Integers:
    """Return the class of each row as a number; amounts are grouped by quantiles."""
    if labels.dtype.kind == "O":
        labels = labels.astype(str)  # None and text cannot be sorted together
    distinct, groups = np.unique(labels, return_inverse=True)
    is_amount = labels.dtype.kind in "iuf" and (
        distinct.size > _MOST_CLASSES or bool((distinct % 1 != 0).any())
    )
    if not is_amount:
        return np.asarray(groups, dtype=np.int64)
    ranks = np.argsort(np.argsort(labels, kind="stable"), kind="stable")
    return np.asarray(ranks * _QUANTILE_GROUPS // labels.size, dtype=np.int64)


def _quotas(n_rows: int, n_parties: int, sizes: Sequence[float] | None) -> Integers:
    """Return how many rows each party gets: whole numbers nearest its share, at least 1."""
    weights = np.ones(n_parties) if sizes is None else np.asarray(sizes, dtype=np.float64)
    return _at_least_one(_apportioned(n_rows, weights / weights.sum()))


def _apportioned(n_rows: int, shares: NDArray[np.float64]) -> Integers:
    """Divide rows by shares; the rows left over by rounding go to the largest remainders."""
    exact = n_rows * shares
    quotas = np.floor(exact).astype(np.int64)
    left_over = n_rows - int(quotas.sum())
    quotas[np.argsort(quotas - exact, kind="stable")[:left_over]] += 1
    return quotas


def _at_least_one(quotas: Integers) -> Integers:
    for party in np.flatnonzero(quotas == 0):
        quotas[np.argmax(quotas)] -= 1
        quotas[party] += 1
    return quotas


def _turns(quotas: Integers) -> NDArray[np.intp]:
    """Return whose turn it is, row by row, each party's turns evenly spaced.

    Every stretch of the sequence then holds about the right share of each party, so rows sorted by
    class are dealt in equal class shares.
    """
    party = np.repeat(np.arange(quotas.size), quotas)
    nth = np.concatenate([np.arange(quota) for quota in quotas])
    return party[np.argsort((nth + 0.5) / quotas[party], kind="stable")]


def _by_values(values: NDArray[Any], n_rows: int, n_parties: int) -> NDArray[np.intp]:
    """Give whole groups of rows to parties: large groups first, to whoever has the fewest rows."""
    if values.shape != (n_rows,):
        raise SettingError(
            f"by must have one value for each of the {n_rows} rows; got shape {values.shape}."
        )
    if values.dtype.kind == "f":
        values = np.where(np.isnan(values), np.inf, values)  # missing values are one group
    if values.dtype.kind == "O":
        values = values.astype(str)
    distinct, groups, counts = np.unique(values, return_inverse=True, return_counts=True)
    if distinct.size < n_parties:
        raise SettingError(
            f"by has {distinct.size} different values, fewer than the {n_parties} parties. Deal to "
            "fewer parties."
        )
    if values.dtype.kind in "iuf" and distinct.size > _MOST_CLASSES:
        before = np.cumsum(counts) - counts  # rows with a lower value
        party_of_group = before * n_parties // n_rows
        party_of_group = np.maximum.accumulate(party_of_group)
        return np.asarray(np.unique(party_of_group, return_inverse=True)[1][groups], np.intp)
    party_of_group, held = np.zeros(distinct.size, np.intp), np.zeros(n_parties, np.int64)
    for group in np.argsort(-counts, kind="stable"):
        party_of_group[group] = np.argmin(held)
        held[party_of_group[group]] += counts[group]
    return party_of_group[groups]


def _skewed(
    groups: Integers,
    order: NDArray[np.intp],
    n_parties: int,
    skew: float,
    random: np.random.Generator,
) -> NDArray[np.intp]:
    party_of_row = np.empty(order.size, dtype=np.intp)
    for group in np.unique(groups):
        rows = order[groups[order] == group]
        shares = random.dirichlet(np.full(n_parties, 1 / skew))
        party_of_row[rows] = np.repeat(np.arange(n_parties), _apportioned(rows.size, shares))
    counts = np.bincount(party_of_row, minlength=n_parties)
    for party in np.flatnonzero(counts == 0):
        giver = np.argmax(np.bincount(party_of_row, minlength=n_parties))
        party_of_row[order[party_of_row[order] == giver][0]] = party
    return party_of_row


def _party_names(names: Sequence[str]) -> list[str]:
    is_list = isinstance(names, Iterable) and not isinstance(names, str)
    if not is_list or not all(isinstance(name, str) for name in names):
        raise SettingError(f"names must be a list of the parties' names, as text; got {names!r}.")
    if len(set(names)) < len(names):
        raise SettingError(f"The parties' names must differ; got {join_words(names)}.")
    return list(names)


def _columns_of(columns: Any) -> list[Any]:
    names = feature_names(columns)
    if names is not None:
        return list(names)
    shape: tuple[int, ...] = tuple(getattr(columns, "shape", ()))
    if len(shape) == 2:
        return list(range(shape[1]))
    if isinstance(columns, str) or not isinstance(columns, Iterable):
        raise SettingError(f"columns must be a list of names or a table; got {columns!r}.")
    found = list(columns)
    if not all(isinstance(name, Hashable) for name in found):
        raise SettingError("columns must be a list of names or a table; got a list of lists.")
    if len(set(found)) < len(found):
        raise SettingError("columns names a column more than once. Name each one once.")
    return found
