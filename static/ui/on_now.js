// @ts-check
// Owns the strip of what is on: one live board for each running episode.

import { waysTo } from "../live/ways.js";
import { Connection } from "../live/socket.js";
import { Timeline } from "../live/timeline.js";
import { h, keyed, replace, setText } from "./dom.js";
import { ago, clip, plain, plural, words } from "./text.js";

const MOST_LIVE = 4;

/** @param {HTMLElement} list @param {string} root @param {Record<string, string>} panels folder of each world's panel */
export function mountOnNow(list, root, panels) {
  /** @type {Map<string, ReturnType<typeof board>>} */
  const boards = new Map();
  return {
    /** @param {import("../live/api.js").Answer} status */
    update(status) {
      if (!status.ok) {
        if (boards.size === 0) replace(list, h("p", { class: "card on-none" }, status.message));
        return;
      }
      /** @type {any[]} */
      const running = status.body.running;
      for (const [id, one] of boards) {
        if (running.some((episode) => episode.episode_id === id)) continue;
        one.close();
        boards.delete(id);
      }
      if (running.length === 0) {
        return replace(list, h("p", { class: "card on-none" }, "Nothing is on. Start one below: it begins at once, and everybody who opens this page can watch."));
      }
      if (!list.querySelector(".on")) replace(list);
      keyed(list, running, (episode) => episode.episode_id, (episode) => {
        const made = board(episode.episode_id, root, panels[episode.environment] ?? "", boards.size < MOST_LIVE);
        boards.set(episode.episode_id, made);
        made.describe(episode);
        return made.element;
      }, (_, episode) => boards.get(episode.episode_id)?.describe(episode));
    },
  };
}

/** @param {string} id @param {string} root @param {string} panel @param {boolean} live whether it follows by itself */
function board(id, root, panel, live) {
  const meta = h("p", { class: "on__meta" });
  const headline = h("p", { class: "on__headline" }, h("bdi"));
  const line = h("p", { class: "on__line said" });
  const watch = new URL(`watch/${encodeURIComponent(id)}`, root).href;
  const element = h("article", { class: "card on" }, meta, headline, line, h("a", { class: "button button--go", href: watch }, "Watch"));
  const timeline = new Timeline();
  /** @type {((state: any) => string) | undefined} */
  let headlineOf;
  let scheduled = false;

  const draw = () => {
    scheduled = false;
    const state = timeline.headState;
    const seats = Object.values(state.episode?.seats ?? {}).map((seat) => plain(seat.label));
    let words_ = "";
    try { words_ = headlineOf?.(state) ?? ""; } catch { headlineOf = undefined; }
    setText(headline.firstElementChild, clip(plain(words_) || seats.join(" against "), 140));
    const last = Object.keys(state.feed ?? {}).sort().at(-1);
    setText(line, last ? clip(plain(`${state.feed[last].at ?? ""} ${state.feed[last].text}`), 180) : "");
  };
  const schedule = () => {
    if (scheduled) return;
    scheduled = true;
    requestAnimationFrame(draw);
  };
  const connection = new Connection({
    ways: waysTo(root, `live/${encodeURIComponent(id)}`, () => (timeline.epoch ? { epoch: timeline.epoch, seq: timeline.headSeq } : null)),
    onFrame(frame) {
      if (frame.frame === "snapshot") timeline.reset(frame.epoch, frame.seq, frame.state);
      if (frame.frame === "event" && timeline.push(frame) === "gap") return connection.resync();
      schedule();
    },
    onStatus() { /* the header says whether the server is there */ },
  });
  if (live) {
    if (panel) import(new URL(`${panel}/panel.js`, location.href).href).then((module) => { headlineOf = module.default.headline; schedule(); }, () => {});
    connection.open();
  }
  return {
    element,
    close: () => connection.close(""),
    /** @param {any} episode as in /custom/status */
    describe(episode) {
      replace(meta, h("span", { class: "pulse", data: { tone: episode.paused ? "wait" : "live" } }, episode.paused ? "Paused" : "Live"),
        h("span", {}, words(episode.environment)), h("span", {}, plural(episode.viewers, "watching", "watching")),
        h("span", {}, `turn ${episode.turn}`), h("span", {}, `began ${ago(episode.started_at, Date.now())}`));
      if (!headline.textContent) setText(headline.firstElementChild, [episode.captain_preset, episode.opponent_choice].filter(Boolean).map(words).join(" against "));
    },
  };
}
