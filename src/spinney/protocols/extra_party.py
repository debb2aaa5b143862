"""A party's private side in extra-trees: randomised labels, or counts with noise."""

from spinney.errors import ProtocolError, SettingError
from spinney.privacy.label_memory import LabelMemory
from spinney.protocols.budgeting import ForestPlan
from spinney.protocols.noisy_cuts import CutRows
from spinney.protocols.noisy_histograms import NoisyRows, noisy_job, plan_of
from spinney.protocols.paying import Plan, Purse
from spinney.protocols.private_party import PrivateParty
from spinney.protocols.private_settings import PrivacySettings, Terms
from spinney.protocols.randomised_labels import LabelPlan, labelled
from spinney.protocols.settings import ForestSettings
from spinney.tables.schema import Schema
from spinney.tables.table import Table


def extra_plan(schema: Schema, settings: ForestSettings, n_parties: int) -> LabelPlan | ForestPlan:
    """Return how a private job's budget is divided; refuse settings that cannot be kept."""
    privacy = settings.privacy
    if privacy is None:
        raise ProtocolError("The job has no privacy settings, so that there is nothing to join.")
    if privacy.perturbs_input:
        raise SettingError("Extra-trees have label_privacy='local' or 'laplace', and no others.")
    if not privacy.randomises_labels:
        return plan_of(noisy_job(schema, settings, n_parties))
    wrong = {"class_weight": settings.class_weight == "balanced", "oob_score": settings.oob_score}
    for name, is_wrong in wrong.items():
        if is_wrong:
            raise SettingError(
                f"{name}={getattr(settings, name)!r} needs true labels, and with "
                "label_privacy='local' none leaves its party."
            )
    return LabelPlan(schema, privacy, n_parties)


class ExtraPrivateParty(PrivateParty):
    """Answers with noise, or from labels that carry it, and only what its ledger has paid for."""

    memory: LabelMemory

    def _plan(self, settings: ForestSettings, n_parties: int) -> Plan:
        return extra_plan(self._table.schema, settings, n_parties)

    def _noisy_rows(self, purse: Purse, n_threads: int) -> NoisyRows:
        return CutRows(self._table, purse, n_threads)

    def _carries_noise(self, privacy: PrivacySettings) -> bool:
        return privacy.randomises_labels

    def _with_noise(self, terms: Terms, purse: Purse) -> Table:
        plan = LabelPlan(self._table.schema, terms.privacy, terms.n_parties)
        return labelled(self._table, plan, purse, self.memory)
