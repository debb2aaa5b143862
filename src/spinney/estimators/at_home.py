"""A joint model as one party uses it: its scores fitted to the party's own rows, at home."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from spinney.errors import SettingError
from spinney.estimators.over_rows import RowsEstimator
from spinney.tables.frames import encode_target
from spinney.tables.schema import join_words

if TYPE_CHECKING:
    from spinney.protocols.home import Metric
    from spinney.typing import Floats, Integers


class FitsAtHome(RowsEstimator):
    """An estimator whose classifiers a party can fit to its own rows."""

    def _begin_fit(self) -> None:
        super()._begin_fit()
        self.__dict__.pop("_joint", None)

    def for_party(
        self, name: str, X: Any = None, y: Any = None, *, metric: Metric = "accuracy"
    ) -> Self:
        """Return this model as party `name` uses it: with its own class prior and calibration.

        The party fits them at home, from its own rows, and tells nobody, so that no budget is
        spent: rows that trees have not drawn, or the rows X with labels y that it held back.
        Of a forest with bootstrap every party has such rows; of other models it must give some.

        Parameters
        ----------
        name
            The party, as in `fit`.
        X, y
            Its own rows that no tree was trained on; None: its out-of-bag rows.
        metric
            What `predict` decides for: "accuracy", "balanced_accuracy" (each class weighs the
            same), or the "f1" of the second of two classes.
        """
        check_is_fitted(self)
        from spinney.protocols.home import HomeModel, fit_at_home  # noqa: PLC0415  loads numba

        if not self._is_classifier:
            raise SettingError("for_party fits class probabilities; a regressor has none.")
        known = self.report_.parties if hasattr(self, "report_") else (name,)
        if name not in known:
            raise SettingError(
                f"No party is called {name!r}. The model was grown by: {join_words(known)}."
            )
        model = self.__dict__.get("_joint", self.model_)
        found = copy(self)
        found.__dict__ |= {
            "_joint": model,
            "model_": model,
            "_tables": self.__dict__.get("_tables", {}),
        }
        if X is not None:
            shares = found.predict_proba(X)
            truth = encode_target(np.asarray(y), model.schema.label)
        else:
            shares, truth = found._own_out_of_bag(name)  # noqa: SLF001  a copy of this model
        found.model_ = HomeModel.of(model, fit_at_home(shares, truth, metric))
        return found

    def _own_out_of_bag(self, name: str) -> tuple[Floats, Integers]:
        """Return what trees say of a party's rows that they have not drawn, and their classes."""
        del name
        raise SettingError(
            "Of boosted trees, without a bootstrap, with noise, or in a loaded model no row is out "
            "of bag. Hold rows of the party back, and give them: for_party(name, X, y)."
        )
