"""Analysis of mass spectra: fits, scans, significances, limits, and calibration, as pure functions.

Masses and widths are in GeV. A spectrum is ``edges_gev`` (n + 1 ascending values) and ``counts`` (n values).
Only toys use random numbers, from a stream seeded by the spectrum. Invalid arguments raise
:class:`InvalidAnalysis`. scipy and iminuit are imported at the first call.
"""

from spectator.environments.collider.analysis import open_data
from spectator.environments.collider.analysis.calibration import (
    CANDLES,
    Calibration,
    calibrate,
)
from spectator.environments.collider.analysis.checks import InvalidAnalysis
from spectator.environments.collider.analysis.mass_scan import (
    GlobalSignificance,
    Scan,
    dataset_digest,
    dataset_generator,
    global_significance,
    scan,
)
from spectator.environments.collider.analysis.open_data import (
    PDG,
    PdgValue,
)
from spectator.environments.collider.analysis.peaks import MODELS
from spectator.environments.collider.analysis.resonance import (
    ResonanceFit,
    fit_resonance,
    fit_resonances,
)
from spectator.environments.collider.analysis.shapes import BACKGROUNDS, BackgroundFit, fit_background
from spectator.environments.collider.analysis.significance import (
    ProfileSignificance,
    SpuriousSignal,
    counting_limit,
    profile_significance,
    spurious_signal,
    upper_limit,
)

__all__ = [
    "BACKGROUNDS",
    "CANDLES",
    "MODELS",
    "PDG",
    "BackgroundFit",
    "Calibration",
    "GlobalSignificance",
    "InvalidAnalysis",
    "PdgValue",
    "ProfileSignificance",
    "ResonanceFit",
    "Scan",
    "SpuriousSignal",
    "calibrate",
    "counting_limit",
    "dataset_digest",
    "dataset_generator",
    "fit_background",
    "fit_resonance",
    "fit_resonances",
    "global_significance",
    "open_data",
    "profile_significance",
    "scan",
    "spurious_signal",
    "upper_limit",
]
