// @ts-check
// The bar under the page: play, step, scrub, speed, and the way back to live.

import { SPEEDS } from "../live/player.js";
import { h, keyed, setAttribute, setText, svg } from "./dom.js";
import { makeRibbon } from "./ribbon.js";
import { clip, plain } from "./text.js";

const ICONS = {
  play: "M5 3.2v11.6l10-5.8z", pause: "M4.5 3h3.2v12H4.5zM10.3 3h3.2v12h-3.2z", back: "M12 3.5v11L5.5 9z", on: "M6 3.5v11L12.5 9z",
  momentBack: "M13.5 3.5v11L8 9zM8 3.5v11L2.5 9z", momentOn: "M4.5 3.5v11L10 9zM10 3.5v11L15.5 9z",
};

/** @typedef {import("../live/player.js").Player} Player */
/** @typedef {import("../live/timeline.js").Timeline} Timeline */

/**
 * @param {HTMLElement} bar
 * @param {{banner: Element, player: Player, timeline: Timeline, act: (action: (player: Player) => void) => void, isLive: () => boolean, before: () => Promise<void>}} wiring `before` has what lies before this place
 */
export function mountPlayerBar(bar, { banner, player, timeline, act, isLive, before }) {
  const key = (/** @type {string} */ label, /** @type {string} */ path, /** @type {string} */ extra, /** @type {() => void} */ click) =>
    h("button", { class: `player__key ${extra}`, type: "button", "aria-label": label, title: label, on: { click } },
      svg("svg", { viewBox: "0 0 18 18", "aria-hidden": "true" }, svg("path", { d: path })));
  const back = (/** @type {(player: Player) => void} */ action) => async () => {
    await before();
    act(action);
  };
  const playKey = key("Pause", ICONS.pause, "player__key--play", () =>
    act((it) => (it.playing || it.following && isLive() ? it.pause() : it.play(isLive()))));
  const playPath = playKey.querySelector("path");
  const scrub = h("input", { class: "player__scrub", type: "range", min: "0", max: "0", step: "1", value: "0", "aria-label": "Position in the episode" });
  const marks = h("div", { class: "player__marks", "aria-hidden": "true" });
  const ribbon = makeRibbon(timeline);
  const where = h("span", { class: "player__where" });
  const score = h("span", { class: "player__score", "aria-hidden": "true", hidden: true });
  new IntersectionObserver((entries) => { score.hidden = entries.at(-1)?.isIntersecting ?? true; }).observe(banner);
  const speed = h("select", { class: "player__speed", "aria-label": "Replay speed" },
    ...SPEEDS.map((value) => h("option", { value, selected: value === 1 }, `${value}×`)));
  const live = h("button", { class: "player__live", type: "button" }, "Live");
  bar.append(
    h("div", { class: "player__keys" }, key("Previous big moment", ICONS.momentBack, "player__key--moment", back((it) => it.stepMoment(-1))),
      key("One step back", ICONS.back, "", back((it) => it.stepBeat(-1))), playKey,
      key("One step forward", ICONS.on, "", () => act((it) => it.stepBeat(1))),
      key("Next big moment", ICONS.momentOn, "player__key--moment", () => act((it) => it.stepMoment(1)))),
    score, h("div", { class: "player__track" }, ribbon.element, scrub, marks), where, speed, live);

  for (const sign of ["pointerenter", "pointerdown", "focus"]) scrub.addEventListener(sign, before);
  scrub.addEventListener("input", () => act((it) => {
    const position = Number(scrub.value);
    if (isLive() && position >= it.lastPosition) it.follow();
    else it.seekPosition(position);
  }));
  speed.addEventListener("change", () => {
    act((it) => it.setSpeed(Number(speed.value)));
    if (!speed.matches(":focus-visible")) speed.blur(); // chosen with a pointer: the keys are the page's again
  });
  live.addEventListener("click", () => act((it) => it.follow()));

  let marked = "";
  return {
    back,
    /** @param {Record<string, any>} state @param {string} headline the score, for when its place is out of sight @param {boolean} connected whether news arrive */
    update(state, headline, connected) {
      setText(score, clip(headline, 48));
      const last = player.lastPosition;
      const position = player.position;
      setAttribute(scrub, "max", Math.max(1, last));
      const value = String(last ? position : 1);
      if (scrub.value !== value) scrub.value = value;
      setAttribute(scrub, "aria-valuetext", valueText(state, position, last));
      scrub.style.setProperty("--done", String(last ? position / last : 1));
      setText(where, [lastLine(state)?.at, timeline.complete || timeline.inParts ? `${position} / ${last}` : ""].filter(Boolean).map((words) => clip(plain(words), 17)).join(" · "));
      const moving = player.playing || (player.following && isLive());
      setAttribute(playPath, "d", moving ? ICONS.pause : ICONS.play);
      setAttribute(playKey, "aria-label", moving ? "Pause" : "Play");
      if (Number(speed.value) !== player.speed) speed.value = String(player.speed);
      drawLive(isLive(), connected);
      drawMarks(last);
      ribbon.update(timeline.inParts ? 0 : last);
    },
  };

  /** @param {boolean} on @param {boolean} connected */
  function drawLive(on, connected) {
    const behind = player.behind;
    setText(live, on ? (player.following ? "Live" : behind ? `Live +${behind}` : "Go live") : "Newest");
    setAttribute(live, "aria-pressed", String(player.following));
    setAttribute(live, "aria-label", on && !player.following ? `Go live, ${behind} steps behind` : null);
    live.classList.toggle("player__live--on", on && connected && player.following);
    live.classList.toggle("player__live--behind", on && !player.following);
    setAttribute(live, "disabled", player.following);
  }

  /** @param {number} last */
  function drawMarks(last) {
    const all = timeline.moments;
    const now = `${timeline.firstSeq} ${last} ${all.map((moment) => moment.seq).join()}`;
    if (marked === now) return;
    marked = now;
    const shown = last ? all.filter((moment) => moment.seq >= timeline.firstSeq) : [];
    keyed(marks, shown, (moment) => String(moment.seq), (moment) => h("i", { data: { moment: moment.seq },
      class: moment.kind === "turning" ? "player__mark player__mark--turning" : "player__mark", title: clip(plain([moment.at, moment.label, moment.text].filter(Boolean).join(" ")), 120) }));
    for (const [index, moment] of shown.entries()) {
      /** @type {HTMLElement} */ (marks.children[index]).style.setProperty("--at", String(Math.min(1, (timeline.inParts ? moment.seq : timeline.stopAt(moment.seq)) / last)));
    }
  }
}

/** The newest line of commentary. @param {Record<string, any>} state */
function lastLine(state) {
  const key = Object.keys(state.feed ?? {}).sort().at(-1);
  return key ? state.feed[key] : null;
}

/** @param {Record<string, any>} state @param {number} position @param {number} last */
function valueText(state, position, last) {
  const line = lastLine(state);
  return `${position} of ${last}${line ? `, ${clip(plain(`${line.at ?? ""} ${line.label ?? ""} ${line.text}`), 100)}` : ""}`;
}
