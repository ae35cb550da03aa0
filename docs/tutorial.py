"""The estimators, from start to end: a table with holes, and images. `docs/tutorial.md` is what this file prints."""

# %% [markdown]
# # A table with holes
#
# 178 wines, 13 measurements of each, three growers. We take away 30 % of all entries, as if never measured, and
# forget the grower of half of the wines.

# %%
import tempfile

import numpy as np
from sklearn.datasets import load_digits, load_wine
from sklearn.model_selection import train_test_split

from mmdgm import MaxMarginDGM, MaxMarginDGMClassifier

rng = np.random.default_rng(0)
whole, grower = load_wine(return_X_y=True, as_frame=True)
removed = rng.random(whole.shape) < 0.3
wines = whole.mask(removed)
names = np.array(["Anna", "Berta", "Carla"])[grower]
X, X_test, y, y_test = train_test_split(wines, names, test_size=0.3, random_state=0, stratify=names)
labels = np.where(rng.random(len(y)) < 0.5, y, "unknown")
print(X.iloc[:3, :5].round(2))

# %% [markdown]
# Nothing needs to be filled in or scaled first, and a wine of an unknown grower still helps.

# %%
model = MaxMarginDGMClassifier(unlabelled="unknown", random_state=0)
model.fit(X, labels)
print(f"{100 * model.score(X_test, y_test):.0f} % of the test wines are right")
print(model.predict(X_test)[:4], model.predict_proba(X_test)[:4].max(axis=1).round(2))

# %% [markdown]
# The holes filled, and how unsure each value is. Filling in the mean would be off by one standard deviation.

# %%
filled, spread = model.impute(X_test, return_spread=True)
holes = X_test.isna().to_numpy()
off = ((filled - whole.loc[X_test.index]) / whole.std()).to_numpy()[holes]
print(f"off by {np.sqrt(np.mean(off**2)):.2f} standard deviations")
print(filled.iloc[:3, :5].round(2))

# %% [markdown]
# New wines of one grower, and how strange a wine is in which two measurements were mixed up.

# %%
print(model.sample(2, y="Carla").iloc[:, :5].round(2))
strange = filled.iloc[:5].copy()
strange[["alcohol", "proline"]] = strange[["proline", "alcohol"]].to_numpy()
print(
    f"strangeness {np.median(model.outlier_score(filled)):.1f}, mixed up {np.median(model.outlier_score(strange)):.1f}"
)

# %% [markdown]
# It is kept without pickling, and says the same when it comes back.

# %%
with tempfile.TemporaryDirectory() as folder:
    model.save(f"{folder}/wines")
    again = MaxMarginDGMClassifier.load(f"{folder}/wines")
print(np.array_equal(again.predict(X_test), model.predict(X_test)))

# %% [markdown]
# # Images
#
# Images are arrays (rows, height, width), and a hole is NaN as well. We hide the middle of every test digit.

# %%
digits = load_digits()
images, test_images, y, y_test = train_test_split(digits.images, digits.target, random_state=0)
readers = MaxMarginDGMClassifier(epochs=40, random_state=0).fit(images, y)
holed = test_images.copy()
holed[:, 3:6, 2:6] = np.nan
whole_score, holed_score = readers.score(test_images, y_test), readers.score(holed, y_test)
print(f"{100 * whole_score:.0f} % right, {100 * holed_score:.0f} % with a hole")
print(np.abs(readers.impute(holed) - test_images)[:, 3:6, 2:6].mean().round(1), "of 16 grey levels off in the hole")

# %% [markdown]
# Without labels there is `MaxMarginDGM`; its `transform` fills holes, and can stand first in a pipeline.

# %%
fills = MaxMarginDGM(epochs=40, random_state=0).fit(images)
print(fills.transform(holed).shape, fills.sample(2).shape)
