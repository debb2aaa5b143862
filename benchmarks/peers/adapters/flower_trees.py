"""flwr-trees: trees of each client, pooled or boosted in turn. It deals the rows itself.

Its forests take no `n_jobs`: they use one core.
"""

import pickle
from importlib import metadata

import flwr_trees


def trained(rows, *, seed, learner, **settings):
    """Return how the pooled trees predict, and what they weigh; they travel once."""
    n_clients = int(rows["party"].max()) + 1
    model = getattr(flwr_trees, learner)(n_clients=n_clients, random_state=seed, **settings)
    model.fit(rows["X"], rows["y"])
    rounds = {  # as its documentation counts them, for n_rounds = 1
        "FederatedRandomForestClassifier": 1,
        "FederatedHistogramRFClassifier": 2,
        "FederatedXGBClassifier": n_clients,
    }

    def facts():
        moved = len(pickle.dumps(getattr(model, "estimators_", None) or model.booster_))
        version = metadata.version("flwr-trees")
        return {"bytes": moved, "rounds": rounds[learner], "version": version}

    return model.predict, facts
