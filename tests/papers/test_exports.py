"""Models taken out of every real table: ONNX, treelite, scikit-learn and SHAP say what ours say."""

from pathlib import Path

import numpy as np
import onnxruntime
import pandas as pd
import pytest
import treelite

from spinney import HorizontalForestClassifier, HorizontalForestRegressor

DATA = Path(__file__).parents[3] / "shared" / "data"
TABLES = sorted(path.stem for path in DATA.glob("*.parquet"))
pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("shared_data"),
    pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning"),
]


@pytest.mark.parametrize("table", TABLES)
def test_exports_of_a_real_table_say_the_same(table, tree_explainer):
    frame = pd.read_parquet(DATA / f"{table}.parquet")
    frame = frame.sample(min(3000, len(frame)), random_state=0)
    X, y = frame.drop(columns="target"), frame["target"]
    is_class = isinstance(y.dtype, pd.CategoricalDtype)
    face = HorizontalForestClassifier if is_class else HorizontalForestRegressor
    forest = face(10, max_depth=8, random_state=0)
    forest.fit(X, y.astype(str).to_numpy() if is_class else y.to_numpy())
    expected = forest.predict_proba(X) if is_class else forest.predict(X)[:, None]
    rows = forest.encoded(X)
    session = onnxruntime.InferenceSession(
        forest.to_onnx().SerializeToString(), providers=["CPUExecutionProvider"]
    )
    scale = np.abs(expected).max()
    close = {"rtol": 1e-6, "atol": 1e-6 * scale}
    assert np.allclose(session.run(None, {"X": rows})[-1], expected, **close)
    found = treelite.gtil.predict(forest.to_treelite(), rows).reshape(expected.shape)
    assert np.allclose(found, expected, **close)
    twin = forest.to_sklearn()
    found = twin.predict_proba(X) if is_class else twin.predict(X)[:, None]
    assert np.array_equal(found, expected)
    encode, few = twin if hasattr(twin, "steps") else (None, twin)
    shown = X.head(20)
    numbers = encode.transform(shown) if encode else shown.to_numpy(np.float32)
    explainer = tree_explainer(few)
    total = explainer.shap_values(numbers).sum(axis=1) + explainer.expected_value
    assert np.allclose(total.reshape(20, -1), expected[:20], rtol=1e-4, atol=1e-4 * scale)
