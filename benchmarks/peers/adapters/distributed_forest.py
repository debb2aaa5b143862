"""distributed_random_forest: trees of each client, pooled.

By default each client holds back a fifth of its rows, and the trees are judged on further rows to
choose some. Here clients train on all rows and all trees are kept, so that the rows for judging,
which the package asks for, decide nothing: they are some of the training rows.
"""

import pickle
from importlib import metadata

from distributed_random_forest import FederatedRandomForest

_JUDGING = 1000


def trained(rows, *, seed, n_estimators, max_depth, **settings):
    """Return how the pooled trees predict, and what all clients' trees weigh."""
    n_parties = int(rows["party"].max()) + 1
    model = FederatedRandomForest(
        n_clients=n_parties,
        rf_params={"n_estimators": n_estimators, "max_depth": max_depth, "random_state": seed},
        n_trees_per_client=n_estimators,
        n_total_trees=n_estimators * n_parties,
        aggregation_strategy="rf_s_dts_a_all",
        client_validation_split=0,
        execution_backend="thread",
        max_workers=2,
        random_state=seed,
        **settings,
    )
    parties = [rows["party"] == k for k in range(n_parties)]
    parts = [(rows["X"][own], rows["y"][own]) for own in parties]
    model.fit_from_partitions(parts, rows["X"][:_JUDGING], rows["y"][:_JUDGING])

    def facts():
        moved = len(pickle.dumps([client.rf for client in model.clients]))
        version = metadata.version("distributed-random-forest")
        return {"bytes": moved, "rounds": 1, "version": version}

    return model.predict, facts
