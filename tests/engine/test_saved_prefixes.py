"""Which requests can still be named for saving, and that the list of them stays short."""

from __future__ import annotations

import pytest

from deepinfer.engine.saved_prefixes import SavedPrefixes
from deepinfer.errors import RequestError
from tests.core.fake_worker import Driver, make_config, prompt_of


def test_whatever_can_be_saved_is_known_and_nothing_else_for_long() -> None:
    driver = Driver(make_config(num_blocks=64))
    waiting = {"grammar"}
    prefixes = SavedPrefixes(driver.scheduler, waiting.__contains__)
    prefixes.note("grammar", 10**6)  # the scheduler does not know it yet
    driver.add(0, prompt_of(20), 40)
    prefixes.note("long", 0)
    for seq_id in range(1, 3500):
        driver.add(seq_id, [1], 1)
        prefixes.note(str(seq_id), seq_id)
        driver.step()
        if seq_id == 20:
            assert prefixes.save("long").num_tokens == 20
            driver.scheduler.finish(0, 1)
            driver.num_held = driver.scheduler.num_saved_blocks
            prefixes.note("other", 0)
    assert len(prefixes._seq_ids) < 1200
    assert prefixes.save("3499").token_ids.tolist() == [1]
    with pytest.raises(RequestError, match="cannot be saved: nothing of sequence 1000000 is in the caches"):
        prefixes.save("grammar")
    with pytest.raises(RequestError, match="'7' is not known, or not any more"):
        prefixes.save("7")


def test_many_requests_at_once_are_all_known() -> None:
    driver = Driver(make_config(num_blocks=64))
    prefixes = SavedPrefixes(driver.scheduler, lambda request_id: False)
    for seq_id in range(5000):
        driver.add(seq_id, [1, 2, 3], 1)
        prefixes.note(str(seq_id), seq_id)
    driver.step()
    assert prefixes.save("0").token_ids.tolist() == [1, 2, 3]
