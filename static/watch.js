// @ts-check
// The watch page: one timeline from socket or record, one player on it, one drawing a frame.

import { get } from "./live/api.js";
import { Player } from "./live/player.js";
import { Source } from "./live/source.js";
import { READ_WHOLE, Timeline } from "./live/timeline.js";
import { mountAnnouncer } from "./ui/announce.js";
import { watchWork } from "./ui/at_work.js";
import { byId, pageRoot, replace, h } from "./ui/dom.js";
import { decisionsWhenAsked } from "./ui/decisions_later.js";
import { mountFeed } from "./ui/feed.js";
import { mountGoTo, placeNamed, seqOf } from "./ui/go_to.js";
import { mountHeader } from "./ui/header.js";
import { mountKeys } from "./ui/keys.js";
import { aboutWhenAsked, clipWhenAsked, crowdWhenAsked, endingWhenOver, forkWhenAsked, operatorWhenUsed, plainWhenAsked, readingWhenSlow, seatWhenPlayed, shareWhenUsed, soundWhenUsed } from "./ui/later.js";
import { mountMind } from "./ui/mind.js";
import { mountNotice } from "./ui/notice.js";
import { hostPanel } from "./ui/panel_host.js";
import { mountPlayerBar } from "./ui/player_bar.js";
import { mountViews } from "./ui/views.js";

const FAR_BEHIND = 30;
/** Events of a record up to which nothing is drawn before the last: the page would show the past, then its end. */
const HELD = 10_000;
/** Longest record, in events, that is read whole at the end; more would take too long at once. */
const SHORT_RECORD = 1_200;
/** Events in one drawing from which on they are too fast to follow. */
const FLOOD = 12;
/** Rest after a drawing in a flood, as a multiple of what it took: the page stays responsive. */
const REST = 2;
/** Longest rest, in milliseconds. */
const MOST_REST_MS = 250;

const root = pageRoot();
const stage = byId("main");
const { episode: episodeId, panel: panelAddress, beats, chapters, running, replay, events: eventsKnown } = stage.dataset;
const pageTitle = document.title.replace(/ · Spectator$/, "");
const wanted = new URLSearchParams(location.search).get("seq") ?? new URLSearchParams(location.search).get("at");

const timeline = new Timeline(JSON.parse(beats || "{}"), JSON.parse(chapters || "{}"));
const player = new Player(timeline);
const source = new Source({ root, episodeId, timeline, onChange: schedule, onFrame: (frame) => { work.take(frame); notice.take(frame); crowd.take(frame); }, onReading: readingWhenSlow(byId("notice")) });
let scheduled = false;
let restUntil = 0;
/** @type {ReturnType<typeof setTimeout> | undefined} */ let resting;
let [touched, holding, readForEnding] = [false, false, false];
let drawnSeq = -1;
let behindInBatch = 0;

const momentPage = (/** @type {number} */ seq) => new URL(`moment/${episodeId}/${seq}`, root).href;
const isLive = () => running === "true" && !source.over && timeline.headSeq > 0;
const wholeRecord = () => source.whole();
const calm = matchMedia("(prefers-reduced-motion: reduce)");
let isStill = true;

const header = mountHeader({ state: byId("state"), viewers: byId("viewers"), lag: byId("lag"), retry: byId("retry") }, () => source.wake());
const work = watchWork({ timeline, player, isLive, schedule });
const mind = mountMind(byId("mind"));
const feed = mountFeed(byId("feed"), { timeline, wholeRecord, momentPage, schedule: () => { drawnSeq = -1; schedule(); } });
const decisions = decisionsWhenAsked(byId("feed"), root, episodeId, { timeline, seq: () => player.seq, names: () => panel.names(timeline.headState), wholeRecord, schedule, act, weighs: stage.dataset.analyst === "true" });
const crowd = crowdWhenAsked(root, episodeId, source);
const notice = mountNotice(byId("notice"));
const announcer = mountAnnouncer(byId("announce"));
const operator = operatorWhenUsed(byId("control"), root, episodeId);
const seat = seatWhenPlayed(byId("seat"), root, episodeId, schedule);
const fork = forkWhenAsked(byId("fork"), byId("parent"), root, episodeId, { timeline, seq: () => player.seq, wholeRecord });
const views = mountViews(byId("views"), stage);
const bar = mountPlayerBar(byId("player"), { banner: byId("banner"), player, timeline, act, isLive, before: () => source.reach(player.seq - 1) });
mountKeys({ act, back: bar.back, isLive, help: byId("help"), chapter: timeline.chapterName, inspect: decisions.inspect, log: decisions.toggle, weigh: decisions.weigh, costly: decisions.costly });
const about = aboutWhenAsked(byId("about"), root, episodeId);
clipWhenAsked(document.getElementById("clip"), root, episodeId, () => player.seq);
shareWhenUsed(byId("share"), episodeId, () => (player.following ? null : player.seq), momentPage);
const sound = soundWhenUsed(byId("sound"), byId("caption"), { root, episodeId, timeline, player, isLive, names: () => panel.names(timeline.headState), onChange: announcer.beQuiet });
const panel = await hostPanel(panelAddress ? new URL(`${panelAddress}/panel.js`, location.href).href : "", { banner: byId("banner"), lead: byId("lead"), body: byId("body") }, () => isStill, () => get(root, `api/episodes/${episodeId}/truth`).then((answer) => (answer.ok ? answer.body.truth : null)), () => timeline.notes, wholeRecord);
const plainText = plainWhenAsked({ button: byId("text"), place: byId("plain"), stage, sections: (state) => panel.sections(state), onToggle: () => { drawnSeq = -1; schedule(); } });
timeline.reading = panel.reading;
const ending = endingWhenOver(() => { drawnSeq = -1; schedule(); }, root, {
  timeline, momentPage, lastCall: crowd.last, best: () => panel.best(timeline.headState), fork: byId("fork"), names: () => panel.names(timeline.headState), turns: () => panel.turns(timeline.headState, (moment) => { const seq = seqOf(timeline, moment); return seq === null ? null : timeline.stateAt(timeline.turnEnd(seq)); }),
  restart: async () => { await source.reach(1); act((it) => { it.seek(0); it.play(false); }); },
});
mountGoTo({ timeline, act, wholeRecord });
stage.classList.toggle("stage--bare", !panel.present);

/** @param {(player: Player) => void} action */
function act(action) {
  touched = true;
  holding = false;
  action(player);
  if (resting !== undefined) {
    clearTimeout(resting);
    scheduled = false;
  }
  restUntil = 0;
  schedule();
}

function schedule() {
  if (scheduled || holding) return;
  scheduled = true;
  const rest = restUntil - performance.now();
  if (rest > 0 && !document.hidden) resting = setTimeout(() => requestAnimationFrame(drawAndRest), rest);
  else requestAnimationFrame(drawAndRest);
}

/** Draw, and see what it costs until the frame is on its way, style and layout included. */
function drawAndRest() {
  const began = performance.now();
  resting = undefined;
  draw();
  if (behindInBatch > FLOOD) setTimeout(() => { restUntil = performance.now() + Math.min(MOST_REST_MS, REST * (performance.now() - began)); });
}

function draw() {
  scheduled = false;
  const seq = player.seq;
  if (timeline.inParts && !timeline.knows(seq)) return void source.reach(seq); // it is drawn once it is there
  const state = timeline.stateAt(seq);
  const forward = drawnSeq >= 0 && seq > drawnSeq;
  behindInBatch = Math.abs(seq - drawnSeq);
  isStill = document.hidden || behindInBatch > FAR_BEHIND || calm.matches;
  const jumped = !forward || behindInBatch > FAR_BEHIND;
  const view = { names: panel.names(state), argument: panel.argument, since: panel.since(state), thinking: work.thinking(seq, state), forming: work.forming(), animate: !jumped && !isStill, jumped };
  stage.classList.toggle("stage--waiting", timeline.headSeq === 0);
  if (timeline.headSeq) document.getElementById("first")?.remove();
  header.update({ link: source.link, episode: timeline.headState.episode, player, viewers: source.viewers, lag: source.lag });
  mind.update(state, view);
  const over = timeline.headState.episode?.status === "ended" && player.atEdge;
  if (over) showEnding(state);
  stage.classList.toggle("stage--over", over);
  views.atEnd(over, forward ? "played" : player.following ? "opened" : "", view.animate);
  if (!over || !ending.awaited) feed.update(seq, view, over ? ending.element : null);
  decisions.update(seq, view.names);
  notice.update(state);
  if (timeline.headSeq) panel.update(state, jumped ? null : timeline.eventAt(seq));
  plainText.update(state, view);
  operator.update(timeline.headState);
  fork.update(timeline.headState);
  seat.update(timeline.headState, view.names);
  about.update(timeline.headState, timeline.headSeq);
  bar.update(state, panel.headline(state), source.link.phase === "open" || source.link.phase === "record");
  announcer.update(state, view);
  sound.moved(seq, jumped);
  header.title(`${seat.asked() ? "Your turn · " : ""}${panel.headline(state) || pageTitle} · Spectator`, jumped ? 0 : parseInt(stage.style.getPropertyValue("--flight")) || 0);
  drawnSeq = seq;
}

/** Show the end; a late viewer of a short episode then loads the earlier events, because the report names earlier moments. @param {any} state */
function showEnding(state) {
  ending.update(state);
  if (!readForEnding && timeline.headSeq <= SHORT_RECORD) void wholeRecord();
  readForEnding = true;
}

async function open() {
  if (Number(eventsKnown) > READ_WHOLE && (running !== "true" || wanted !== null)) {
    await source.openAtEnd();
    if (wanted !== null && placeNamed(timeline, wanted) === null) await wholeRecord(); // a name, which only its events tell
    takePlace();
    return running === "true" ? source.connect() : schedule();
  }
  if (running === "true") {
    if (wanted !== null) {
      await source.read();
      const seq = placeNamed(timeline, wanted);
      if (seq !== null) act((it) => it.seek(seq));
    }
    return source.connect();
  }
  holding = replay !== "true";
  await source.read(() => { if (!touched) takePlace(); if (timeline.headSeq > HELD) letGo(); }).finally(letGo);
}

const letGo = () => { holding = false; schedule(); };

/** Go where the address says, until the viewer moves: to an event, the beginning of a replay, or the end. */
function takePlace() {
  const seq = wanted === null ? null : placeNamed(timeline, wanted);
  if (seq !== null) player.seek(seq);
  else if (wanted === null && replay === "true" && !player.playing) {
    player.seek(1);
    player.play(false);
  }
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) return;
  source.wake();
  drawnSeq = -1;
  schedule();
});
addEventListener("online", () => source.wake());
addEventListener("pageshow", (event) => event.persisted && source.restart());
setInterval(() => { if (player.tick(performance.now() / 1000, isLive())) schedule(); source.stayAhead(player); }, 50);

open().catch((error) => {
  stage.classList.remove("stage--waiting");
  replace(byId("body"), h("div", { class: "notice notice--bad", role: "alert" }, h("p", {}, h("b", {}, "The record of this episode could not be read.")),
    h("p", {}, `${error.message}. Reload the page to try again.`)));
});
