from datetime import date
from pathlib import Path

from checkouts import ROOT, a_checkout
from flows.checkout import Checkout
from flows.replaying import _request
from flows.turns import turns
from twiceshy.champion import Champion
from twiceshy.configuration import UpstreamSettings

NIGHT = date(2026, 11, 16)


def test_shard_is_told_the_champion_the_judge_and_the_upstream(tmp_path: Path) -> None:
    place = a_checkout(tmp_path, days=0, cases=ROOT / "data/cases/refund", replies=Path("kept"))
    with (tmp_path / "twiceshy.toml").open("a", encoding="utf-8") as file:
        file.write('\n[judge]\nbase_url = "http://127.0.0.1:1/v1"\nkey_env = "JUDGE_KEY"\n')
        file.write('[upstream.openai]\nbase_url = "http://127.0.0.1:2/v1"\nkey_env = "MODEL_KEY"\n')
    place = Checkout.at(tmp_path, {})
    (turn,) = turns(place, [NIGHT], candidates=["refund=examples.refund:buggy"])
    champion = Champion(workflow="refund", ref="v1")
    request = _request(place, turn, 2, champion, breaks=True)
    assert request.pinned == champion
    assert (request.judge.base_url, request.judge.key_env) == ("http://127.0.0.1:1/v1", "JUDGE_KEY")
    assert request.replies == str(tmp_path / "kept")
    assert request.upstream == {"openai": UpstreamSettings(base_url="http://127.0.0.1:2/v1", key_env="MODEL_KEY")}
    assert request.live == str(tmp_path / "kept/live")
