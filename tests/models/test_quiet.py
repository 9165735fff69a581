import logging
import warnings

from transformers.utils import logging as transformers_logging

from tasc.models.folder.quiet import quiet


def test_what_libraries_say_stays_off_the_terminal_and_is_heard_again_later(capfd, caplog):
    log = logging.getLogger("peft.some")
    level = transformers_logging.get_verbosity()
    with quiet():
        warnings.warn("hidden", stacklevel=1)
        log.warning("hidden")
        transformers_logging.get_logger("transformers.some").error("hidden")
    assert capfd.readouterr() == ("", "")
    assert transformers_logging.get_verbosity() == level
    log.warning("heard")
    assert [record.message for record in caplog.records] == ["heard"]
