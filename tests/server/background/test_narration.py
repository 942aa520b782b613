"""Speech on a running server: clips of live lines, of recorded ones, and what is said when there are none."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from server.background import narration
from spectator.episodes import controls
from spectator.episodes.handle import EpisodeHandle
from spectator.narration.voices import Chosen
from tests.narration.voices import FakeVoice
from tests.server.watching import watch
from tests.serving import PATIENCE_S, Serving, serve, test_settings, without_errors
from tests.serving import until as until_true

TOKEN = "a-token-of-the-operator"
SLOWLY = {"pace": "broadcast", "options": {"turns": 2}}


@pytest.fixture
def short_beats(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broadcast pace, at which live lines are spoken, without its length."""
    monkeypatch.setattr(controls, "BROADCAST_BEAT_S", 0.2)


def clips(serving: Serving, episode_id: str) -> list[dict[str, object]]:
    events = [event for event in serving.events(episode_id) if event["type"] == "narration.clip"]
    return [event["data"] for event in events]


@pytest.mark.usefixtures("espeak", "short_beats")
def test_live_lines_are_heard_and_clips_are_never_asked_for_again(tmp_path: Path) -> None:
    with without_errors(), serve(test_settings(tmp_path, voice="espeak")) as serving:
        assert serving.client.get("/api/voice").json() == {
            "voice": "espeak",
            "speaks": "clips",
            "answers": True,
            "fault": None,
        }
        episodes: list[str] = []

        def heard() -> bool:
            """On a busy machine the voice may need longer than the first, short match."""
            episodes.append(serving.start(**SLOWLY))
            serving.finish(episodes[-1])
            return bool(clips(serving, episodes[-1]))

        until_true("a line is spoken in time", heard)
        episode_id = episodes[-1]
        spoken = clips(serving, episode_id)
        lines = {
            event["seq"]: event for event in serving.events(episode_id) if event["type"] == "narration.line"
        }
        for clip in spoken:
            assert clip["for_seq"] in lines
            assert clip["text"]
            answer = serving.client.get(str(clip["url"]))
            assert answer.status_code == 200
            assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
            assert answer.headers["content-type"] == "audio/mpeg"
        outcomes = serving.client.get("/metrics").text
        assert f'spectator_lines_total{{outcome="spoken"}} {len(spoken)}' in outcomes


@pytest.mark.usefixtures("espeak")
def test_recorded_lines_are_spoken_when_somebody_asks(tmp_path: Path) -> None:
    with without_errors(), serve(test_settings(tmp_path, voice="espeak")) as serving:
        episode_id = serving.start(options={"turns": 1})
        serving.finish(episode_id)
        assert clips(serving, episode_id) == []
        line = next(event for event in serving.events(episode_id) if event["type"] == "narration.line")
        path = f"/api/episodes/{episode_id}/lines/{line['seq']}/clip"
        clip = serving.client.get(path).json()
        assert clip["for_seq"] == line["seq"]
        assert serving.client.get(clip["url"]).status_code == 200
        assert serving.client.get(path).json() == clip
        for seq, status in ((1, 404), (10**6, 404), (0, 422)):
            answer = serving.client.get(f"/api/episodes/{episode_id}/lines/{seq}/clip")
            assert answer.status_code == status
        assert serving.client.get("/api/episodes/ep-none/lines/1/clip").status_code == 404


def test_a_silent_server_says_so(tmp_path: Path) -> None:
    with without_errors(), serve(test_settings(tmp_path)) as serving:
        assert serving.client.get("/api/voice").json()["speaks"] == "nobody"
        episode_id = serving.start(options={"turns": 1})
        serving.finish(episode_id)
        line = next(event for event in serving.events(episode_id) if event["type"] == "narration.line")
        answer = serving.client.get(f"/api/episodes/{episode_id}/lines/{line['seq']}/clip")
        assert answer.status_code == 503
        assert answer.json()["type"].endswith("/no-voice")
        assert answer.headers["retry-after"]


@pytest.mark.usefixtures("espeak", "short_beats")
def test_nobody_speaks_where_it_was_not_asked_for(tmp_path: Path) -> None:
    with without_errors(), serve(test_settings(tmp_path, voice="espeak")) as serving:
        episode_id = serving.start(**SLOWLY, enable_tts=False)
        serving.finish(episode_id)
        assert clips(serving, episode_id) == []


@pytest.mark.usefixtures("short_beats")
@pytest.mark.parametrize("breathing", [True, False])
def test_play_breathes_for_big_moments_where_it_is_told_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, breathing: bool
) -> None:
    """``SPECTATOR_VOICE_BREATHING``; the last line of a count is a big moment."""
    breaths: list[float] = []
    monkeypatch.setattr(EpisodeHandle, "breathe", lambda handle, seconds: breaths.append(seconds))
    monkeypatch.setattr(narration, "choose_voices", lambda *_, **__: Chosen([FakeVoice()]))
    settings = test_settings(tmp_path, voice="espeak", voice_breathing=breathing)
    with without_errors(), serve(settings) as serving:
        episode_id = serving.start(**SLOWLY)
        with watch(f"{serving.ws_url}/live/{episode_id}"):
            serving.finish(episode_id)
            deadline = time.monotonic() + PATIENCE_S
            while 'outcome="spoken"' not in serving.client.get("/metrics").text:
                assert time.monotonic() < deadline
                time.sleep(0.01)
    assert bool(breaths) is breathing


def test_without_a_key_the_match_goes_on_and_one_state_says_what_is_missing(tmp_path: Path) -> None:
    with without_errors(), serve(test_settings(tmp_path, voice="cartesia")) as serving:
        state = serving.client.get("/api/voice").json()
        assert state["speaks"] == "browser"
        assert "CARTESIA_API_KEY" in state["fault"]
        assert serving.finish(serving.start(options={"turns": 1}))["reason"] == "finished"


def test_with_a_wrong_address_captions_go_on_and_the_key_is_nowhere(tmp_path: Path) -> None:
    key = "sk_car_canary_0123456789"
    settings = test_settings(
        tmp_path, voice="cartesia", cartesia_api_key=key, cartesia_base_url="http://127.0.0.1:9"
    )
    with without_errors(), serve(settings) as serving:
        assert key not in repr(settings)
        episode_id = serving.start(**SLOWLY)
        with watch(f"{serving.ws_url}/live/{episode_id}"):
            assert serving.finish(episode_id)["reason"] == "finished"
        deadline = time.monotonic() + PATIENCE_S
        while serving.client.get("/api/voice").json()["fault"] is None and time.monotonic() < deadline:
            time.sleep(0.05)
        fault = serving.client.get("/api/voice").json()["fault"]
        assert "cartesia" in fault
        exposed = fault + serving.client.get("/metrics").text + str(serving.events(episode_id))
        assert key not in exposed


def test_only_clips_are_served(tmp_path: Path) -> None:
    with serve(test_settings(tmp_path)) as serving:
        for name in ("..%2Fjournal.db", "x.mp3", f"{'0' * 40}-100.mp3"):
            assert serving.client.get(f"/audio/{name}").status_code == 404, name


@pytest.mark.usefixtures("short_beats")
def test_nobody_listens_to_an_episode_whose_view_is_derived(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Listening would have its view made for nobody; a live one beside it is spoken at."""
    attended: list[str] = []

    async def note(self: narration.Narration, live: EpisodeHandle, *_: object) -> None:
        attended.append(live.episode_id)

    monkeypatch.setattr(narration, "choose_voices", lambda *_, **__: Chosen([FakeVoice()]))
    monkeypatch.setattr(narration.Narration, "_narrate", note)
    with without_errors(), serve(test_settings(tmp_path, voice="espeak", max_episodes=2)) as serving:
        derived = serving.start(**SLOWLY, view="derived")
        live = serving.start(**SLOWLY)
        serving.finish(derived)
        serving.finish(live)
    assert attended == [live]


@pytest.mark.usefixtures("short_beats")
@pytest.mark.parametrize(("headers", "paid"), [({}, False), ({"Authorization": f"Bearer {TOKEN}"}, True)])
def test_only_who_may_spend_money_is_spoken_to_by_a_paid_voice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, headers: dict[str, str], paid: bool
) -> None:
    dear, free = FakeVoice(name="dear", costs_money=True), FakeVoice(name="free")
    monkeypatch.setattr(narration, "choose_voices", lambda *_, **__: Chosen([dear, free]))
    settings = test_settings(tmp_path, voice="cartesia", operator_token=TOKEN)
    with without_errors(), serve(settings) as serving:
        answer = serving.client.post("/custom/start_episode", json=SLOWLY, headers=headers)
        episode_id = answer.json()["episode_id"]
        with watch(f"{serving.ws_url}/live/{episode_id}"):
            serving.finish(episode_id)
    assert bool(dear.asked) is paid
    assert bool(free.asked) is not paid


@pytest.mark.usefixtures("espeak")
def test_what_the_second_commentator_answers_can_be_asked_for(tmp_path: Path) -> None:
    settings = test_settings(tmp_path, voice="espeak", environment="cricket")
    with without_errors(), serve(settings) as serving:
        episode_id = serving.start(seed=9, options={"max_overs": 1})
        serving.finish(episode_id)
        lines = [event for event in serving.events(episode_id) if event["type"] == "narration.line"]
        for answered, status in ((True, 200), (False, 404)):
            line = next(line for line in lines if bool(line["data"].get("reply")) is answered)
            path = f"/api/episodes/{episode_id}/lines/{line['seq']}/clip"
            reply = serving.client.get(path, params={"part": "reply"})
            assert reply.status_code == status
            if answered:
                assert reply.json()["url"] != serving.client.get(path).json()["url"]
        assert serving.client.get(path, params={"part": "all"}).status_code == 422


@pytest.mark.usefixtures("espeak")
def test_answers_can_be_left_as_text(tmp_path: Path) -> None:
    settings = test_settings(tmp_path, voice="espeak", voice_answers=False)
    with serve(settings) as serving:
        assert serving.client.get("/api/voice").json()["answers"] is False


@pytest.mark.usefixtures("espeak")
def test_the_voices_of_a_server_can_be_heard_beforehand(tmp_path: Path) -> None:
    with without_errors(), serve(test_settings(tmp_path, voice="espeak")) as serving:
        page = serving.client.get("/voice").text
        addresses = [part.partition('"')[0] for part in page.split('src="./')[1:]]
        heard = [address for address in addresses if address.startswith("voice/")]
        assert len(heard) == 4
        sounds = [serving.client.get(f"/{address}") for address in heard]
        assert {one.headers["content-type"] for one in sounds} == {"audio/mpeg"}
        assert len({one.content for one in sounds}) == 4
        assert 'href="./voice"' in serving.client.get("/").text
        for path, status in (("neural/lead/0", 404), ("espeak/lead/2", 422), ("espeak/third/0", 422)):
            assert serving.client.get(f"/voice/{path}").status_code == status


def test_a_page_without_a_voice_says_so(tmp_path: Path) -> None:
    with serve(test_settings(tmp_path)) as serving:
        page = serving.client.get("/voice")
        assert page.status_code == 200
        assert "This server has no free voice" in page.text
