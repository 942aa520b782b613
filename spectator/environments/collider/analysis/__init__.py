"""Analysis of mass spectra: fits, scans, significances, limits, calibration and spin, as pure functions.

Masses and widths are in GeV. A spectrum is ``edges_gev`` (n + 1 ascending values) and ``counts`` (n values).
Nothing here draws random numbers but toys, from a stream that belongs to the spectrum. What is wrong with
an argument is said by :class:`InvalidAnalysis`. scipy and iminuit are imported at the first call.
"""

from spectator.environments.collider.analysis import open_data
from spectator.environments.collider.analysis.backgrounds import BACKGROUNDS, BackgroundFit, fit_background
from spectator.environments.collider.analysis.calibration import (
    CANDLES,
    Calibration,
    CombinedCalibration,
    calibrate,
    combine_calibrations,
)
from spectator.environments.collider.analysis.checks import InvalidAnalysis
from spectator.environments.collider.analysis.comparison import (
    ChannelSpectrum,
    Combination,
    CombinedMass,
    Compatibility,
    SpuriousSignal,
    combine,
    combine_masses,
    compatibility,
    spurious_signal,
)
from spectator.environments.collider.analysis.finding import find_resonances
from spectator.environments.collider.analysis.kinematics import bin_masses, invariant_mass, pair_mass
from spectator.environments.collider.analysis.limits import UpperLimit, counting_limit, upper_limit
from spectator.environments.collider.analysis.look_elsewhere import (
    GlobalSignificance,
    dataset_digest,
    dataset_generator,
    global_significance,
)
from spectator.environments.collider.analysis.pdg import PDG, PdgValue
from spectator.environments.collider.analysis.peaks import MODELS
from spectator.environments.collider.analysis.resonance import ResonanceFit, fit_resonance, fit_resonances
from spectator.environments.collider.analysis.scanning import Scan, scan
from spectator.environments.collider.analysis.significance import (
    ProfileSignificance,
    counting_significance,
    discovery_significance,
    profile_significance,
)
from spectator.environments.collider.analysis.spin import (
    SPIN_HYPOTHESES,
    AngularLLR,
    angular_density,
    angular_llr,
)
from spectator.environments.collider.analysis.templates import (
    TemplateFit,
    expected_significance,
    template_fit,
)

__all__ = [
    "BACKGROUNDS",
    "CANDLES",
    "MODELS",
    "PDG",
    "SPIN_HYPOTHESES",
    "AngularLLR",
    "BackgroundFit",
    "Calibration",
    "ChannelSpectrum",
    "Combination",
    "CombinedCalibration",
    "CombinedMass",
    "Compatibility",
    "GlobalSignificance",
    "InvalidAnalysis",
    "PdgValue",
    "ProfileSignificance",
    "ResonanceFit",
    "Scan",
    "SpuriousSignal",
    "TemplateFit",
    "UpperLimit",
    "angular_density",
    "angular_llr",
    "bin_masses",
    "calibrate",
    "combine",
    "combine_calibrations",
    "combine_masses",
    "compatibility",
    "counting_limit",
    "counting_significance",
    "dataset_digest",
    "dataset_generator",
    "discovery_significance",
    "expected_significance",
    "find_resonances",
    "fit_background",
    "fit_resonance",
    "fit_resonances",
    "global_significance",
    "invariant_mass",
    "open_data",
    "pair_mass",
    "profile_significance",
    "scan",
    "spurious_signal",
    "template_fit",
    "upper_limit",
]
