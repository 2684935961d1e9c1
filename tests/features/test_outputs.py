"""The settings that name where a session's results go."""

from __future__ import annotations

from pytest_tfperf.core import setting as parse
from pytest_tfperf.features import modules, outputs

READ = {"base_lock"}


def test_each_file_and_secret_address_of_a_feature_is_an_output_or_known_to_be_read() -> None:
    """So a new one is left out of the sessions that `tfperf trial` and `tfperf bisect` start."""
    settings = [setting for module in modules("plugin").values() for setting in module.FEATURE.settings]
    named = {setting.name for setting in settings if setting.parse is parse.file or setting.is_secret}
    assert named - READ <= {setting.name for setting in outputs()}
