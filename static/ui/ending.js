// @ts-check
// The card above the commentary after the end: result, parts of the reward, turning points, next steps.

import { playedElsewhere } from "../live/decisions.js";
import { momentsOf } from "../live/moments.js";
import { h, replace, setText } from "./dom.js";
import { emblem } from "./emblem.js";
import { momentLink, seqOf } from "./go_to.js";
import { clip, plain, words } from "./text.js";

/** @typedef {import("../live/timeline.js").Timeline} Timeline */
/** @typedef {{moment: string | number, title: string, lines: string[]}} Turn a moment that turned the play, with what was thought then */

const TURNS = 3;
/** Events before the last one among which the last step is looked for. */
const NEAR_END = 12;

/**
 * The reward of the last step by its parts; empty where there are none.
 * @param {Timeline} timeline @returns {[string, number][]}
 */
export function rewardParts(timeline) {
  for (let seq = timeline.headSeq; seq > timeline.headSeq - NEAR_END; seq -= 1) {
    const event = timeline.eventAt(seq);
    if (event?.type === "step.taken") return Object.entries(event.data.rubric ?? {}).filter(([name, value]) => name !== "score" && typeof value === "number");
  }
  return [];
}

/**
 * The last great moments, where fewer than that turned the play by its world's account: those that turned it, then big ones.
 * @param {Timeline} timeline @param {Turn[]} [known] those of its world @returns {Turn[]} at most as many as are missing
 */
export function lastGreatMoments(timeline, known = []) {
  const stops = new Set(known.map((one) => timeline.stopAt(seqOf(timeline, String(one.moment)) ?? 0)));
  const all = timeline.lines.flatMap((line) => momentsOf(line.seq, line)).filter((moment) => moment.label !== "result" && !stops.has(timeline.stopAt(moment.seq)));
  const great = all.filter((moment) => moment.kind === "turning");
  const big = all.filter((moment) => moment.kind === "big" && moment.at);
  return [...big, ...great].slice(Math.min(0, known.length - TURNS) || Infinity).sort((a, b) => a.seq - b.seq)
    .map((moment) => ({ moment: moment.seq, title: [moment.at, moment.label].filter(Boolean).join(" "), lines: [moment.text] }));
}

/**
 * @param {string} root @param {{timeline: Timeline, restart: () => void, turns: () => Turn[], names: () => Record<string, string>, fork: HTMLElement, lastCall: HTMLElement, best: string, momentPage: (seq: number) => string, startRematch: typeof import("./rematch.js").startRematch}} wiring
 * @returns {{element: HTMLElement, update(state: any): void}} its element is hidden until the end
 */
export function mountEnding(root, { timeline, restart, turns, names, fork, lastCall, best, momentPage, startRematch }) {
  const result = h("h3", { class: "ending__result" });
  const stars = h("p", { class: "ending__best", hidden: !best }, h("bdi", {}, clip(plain(best), 160)));
  const who = h("p", { class: "ending__who" });
  const score = h("p", { class: "ending__score quiet" });
  const turned = h("ol", { class: "ending__turns" });
  const wrong = h("div", { class: "notice notice--bad", role: "alert", hidden: true });
  const rematch = h("button", { class: "button button--go", type: "button" }, "Rematch");
  const again = h("button", { class: "button", type: "button", on: { click: restart } }, "Watch from the start");
  const branch = h("button", { class: "button", type: "button", on: { click: () => fork.click() } }, "Play on from before the end");
  const next = h("a", { class: "button", href: root }, "Live episodes");
  const why = h("button", { class: "chip ending__why", type: "button", "aria-pressed": "false", on: { click: () => why.setAttribute("aria-pressed", String(element.classList.toggle("ending--why"))) } }, "Why they turned it");
  const element = h("li", { class: "ending", data: { key: "ending" } }, result, stars, lastCall, h("div", { class: "ending__next" }, rematch, again, branch, next), wrong, turned, why, who, score);
  /** @type {any} */ let episode = {};
  let drawn = "";

  const start = async () => {
    rematch.disabled = true;
    wrong.hidden = true;
    await startRematch(root, episode, wrong, start).catch(() => {
      setText(wrong, "A part of the page could not be fetched. Try again.");
      wrong.hidden = false;
    });
    rematch.disabled = false;
  };
  rematch.addEventListener("click", start);

  /** @param {Turn} one */
  const turnElement = (one) => {
    const title = clip(plain(one.title), 60);
    const seq = seqOf(timeline, String(one.moment));
    const page = seq === null ? null : momentPage(seq);
    return h("li", {}, h("div", { class: "ending__line" }, momentLink(one.moment, { class: "ending__turn", ...(page && { href: page }) }, h("b", {}, h("bdi", {}, title))),
      page && h("a", { class: "more ending__page", href: page, "aria-label": `Share or change it: ${title}` }, "Share or change it")),
    ...one.lines.filter(Boolean).map((line) => h("p", {}, h("bdi", {}, clip(plain(line), 160)))));
  };

  return {
    element,
    /** @param {any} state at the end */
    update(state) {
      const now = `${timeline.epoch} ${timeline.headSeq} ${timeline.complete}`;
      if (drawn === now) return;
      drawn = now;
      episode = state.episode ?? {};
      rematch.hidden = branch.hidden = playedElsewhere(episode);
      setText(result, clip(plain(episode.result ?? "It ended without a result."), 160));
      const called = names();
      replace(who, ...Object.entries(episode.seats ?? {}).map(([actor, seat]) => h("span", { class: "ending__side" }, emblem(plain(seat.label)), h("bdi", {}, [called[actor], plain(seat.label)].filter(Boolean).map((one) => clip(one, 40)).join(", ")))));
      const parts = rewardParts(timeline).map(([name, value]) => `${words(name)} ${value.toFixed(2)}`);
      const total = typeof episode.score === "number" ? `Reward of ${clip(plain(episode.seats?.[episode.agent]?.label ?? "the agent"), 40)}: ${episode.score.toFixed(2)}` : "";
      setText(score, parts.length ? `${total} (${parts.join(", ")})` : total);
      score.hidden = total === "";
      const found = turns();
      replace(turned, ...[...found, ...lastGreatMoments(timeline, found)].map(turnElement));
      why.hidden = !turned.querySelector("p + p");
      turned.hidden = turned.childElementCount === 0;
    },
  };
}
