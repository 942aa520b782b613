"""Analysis of mass spectra: fits, scans, significances, limits, and calibration, as pure functions.

Masses and widths are in GeV. A spectrum is ``edges_gev`` (n + 1 ascending values) and ``counts`` (n values).
Only toys use random numbers, from a stream seeded by the spectrum. Invalid arguments raise
:class:`InvalidAnalysis`. Each function is imported when it is first asked for, scipy and iminuit at the
first call.

>>> from spectator.environments.collider.analysis import counting_significance
>>> round(counting_significance(12, 4.7), 2)
2.71
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from spectator.environments.collider.analysis.calibration import CANDLES as CANDLES
    from spectator.environments.collider.analysis.calibration import Calibration as Calibration
    from spectator.environments.collider.analysis.calibration import calibrate as calibrate
    from spectator.environments.collider.analysis.checks import InvalidAnalysis as InvalidAnalysis
    from spectator.environments.collider.analysis.counting import TemplateFit as TemplateFit
    from spectator.environments.collider.analysis.counting import (
        counting_significance as counting_significance,
    )
    from spectator.environments.collider.analysis.counting import (
        discovery_significance as discovery_significance,
    )
    from spectator.environments.collider.analysis.counting import (
        expected_significance as expected_significance,
    )
    from spectator.environments.collider.analysis.counting import template_fit as template_fit
    from spectator.environments.collider.analysis.kinematics import bin_masses as bin_masses
    from spectator.environments.collider.analysis.kinematics import invariant_mass as invariant_mass
    from spectator.environments.collider.analysis.kinematics import pair_mass as pair_mass
    from spectator.environments.collider.analysis.mass_scan import GlobalSignificance as GlobalSignificance
    from spectator.environments.collider.analysis.mass_scan import Scan as Scan
    from spectator.environments.collider.analysis.mass_scan import dataset_digest as dataset_digest
    from spectator.environments.collider.analysis.mass_scan import dataset_generator as dataset_generator
    from spectator.environments.collider.analysis.mass_scan import global_significance as global_significance
    from spectator.environments.collider.analysis.mass_scan import scan as scan
    from spectator.environments.collider.analysis.open_data import PDG as PDG
    from spectator.environments.collider.analysis.open_data import PdgValue as PdgValue
    from spectator.environments.collider.analysis.open_data import dimuon_spectrum as dimuon_spectrum
    from spectator.environments.collider.analysis.open_data import four_lepton_events as four_lepton_events
    from spectator.environments.collider.analysis.open_data import (
        four_lepton_templates as four_lepton_templates,
    )
    from spectator.environments.collider.analysis.resonance import ResonanceFit as ResonanceFit
    from spectator.environments.collider.analysis.resonance import fit_resonance as fit_resonance
    from spectator.environments.collider.analysis.resonance import fit_resonances as fit_resonances
    from spectator.environments.collider.analysis.resonance_search import find_resonances as find_resonances
    from spectator.environments.collider.analysis.shapes import BACKGROUNDS as BACKGROUNDS
    from spectator.environments.collider.analysis.shapes import BackgroundFit as BackgroundFit
    from spectator.environments.collider.analysis.shapes import fit_background as fit_background
    from spectator.environments.collider.analysis.significance import (
        ProfileSignificance as ProfileSignificance,
    )
    from spectator.environments.collider.analysis.significance import SpuriousSignal as SpuriousSignal
    from spectator.environments.collider.analysis.significance import counting_interval as counting_interval
    from spectator.environments.collider.analysis.significance import counting_limit as counting_limit
    from spectator.environments.collider.analysis.significance import (
        profile_significance as profile_significance,
    )
    from spectator.environments.collider.analysis.significance import spurious_signal as spurious_signal
    from spectator.environments.collider.analysis.significance import unified_interval as unified_interval
    from spectator.environments.collider.analysis.significance import upper_limit as upper_limit

_MODULES: Final = {
    "calibration": "CANDLES Calibration calibrate",
    "checks": "InvalidAnalysis",
    "counting": "TemplateFit counting_significance discovery_significance expected_significance template_fit",
    "kinematics": "bin_masses invariant_mass pair_mass",
    "mass_scan": "GlobalSignificance Scan dataset_digest dataset_generator global_significance scan",
    "open_data": "PDG PdgValue dimuon_spectrum four_lepton_events four_lepton_templates",
    "resonance": "ResonanceFit fit_resonance fit_resonances",
    "resonance_search": "find_resonances",
    "shapes": "BACKGROUNDS BackgroundFit fit_background",
    "significance": "ProfileSignificance SpuriousSignal counting_interval counting_limit "
    "profile_significance spurious_signal unified_interval upper_limit",
}
"""Public names by module."""

_MODULE_OF: Final = {name: module for module, names in _MODULES.items() for name in names.split()}

__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
