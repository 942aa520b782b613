// @ts-check
// One sibling on the page of a group: its state at a decision, and the row of its path.

import { alone } from "../live/siblings.js";
import { playedElsewhere } from "../live/decisions.js";
import { h, replace, setAttribute, setText, svg } from "./dom.js";
import { figure, ownWords } from "./run_words.js";
import { decidedWords } from "./side.js";
import { clip, plain, words } from "./text.js";

/**
 * @param {string} key what it is called on the page @param {string} id @param {string} root
 * @param {(opener: HTMLButtonElement) => void} mountFork takes the button that plays on from here @param {() => void} showWords
 */
export function makeSibling(key, id, root, mountFork, showWords) {
  const standing = h("span", { class: "badge" });
  const parent = h("span", { class: "sibling__at" });
  const headline = h("bdi");
  const at = h("span", { class: "sibling__at" });
  const progress = h("progress", { max: "1", value: "0", "aria-label": "Progress" });
  const decided = h("p", { class: "sibling__decided" });
  const earned = h("p", { class: "sibling__earned" });
  const open = h("a", { class: "button" }, "Open here");
  const fork = h("button", { class: "button", type: "button" }, "Play on from here");
  const said = h("button", { class: "button", type: "button", on: { click: showWords } }, "Prompt and reply");
  mountFork(fork);
  const element = h("section", { class: "card sibling", id: `sibling-${key}`, tabindex: "-1", "aria-label": `Sibling ${key}` },
    h("p", { class: "sibling__head" }, h("span", { class: "sibling__key" }, key), h("span", { class: "sibling__id" }, `…${clip(plain(id).slice(-8), 12)}`), parent, standing),
    h("div", { class: "sibling__now" }, h("p", { class: "sibling__headline" }, headline), progress, at, decided), earned, h("p", { class: "sibling__do" }, said, open, fork));
  return {
    element, open,
    /** @param {{state: any, seq: number, decision: any, member: any, earned: number, advantage: number | null, alone: boolean, past: boolean, branch: any}} view */
    update({ state, seq, decision, member, earned: sum, advantage, alone: byItself, past, branch }) {
      const { episode = {}, world = {} } = state;
      fork.hidden = playedElsewhere(episode);
      setText(standing, member.standing === "playing" ? `turn ${member.turns}, running` : words(member.standing));
      setText(parent, branch ? `branch of …${clip(plain(branch.parent).slice(-8), 12)} at event ${branch.seq ?? "?"}: ${clip(plain(branch.captain), 30)}` : "");
      setText(headline, clip(plain(world.headline) || "Not begun", 120));
      setText(at, [clip(plain(world.glance?.at ?? `turn ${episode.turn ?? 0}`), 40), world.glance?.value === undefined ? "" : `${world.glance.value} ${plain(world.glance.unit)}`].filter(Boolean).join(" · "));
      progress.hidden = world.glance?.progress === undefined;
      progress.value = Number(world.glance?.progress ?? 0);
      replace(decided, ...(decision ? decidedWords(decision.data, episode) : [h("span", { class: "quiet" }, past ? "It ended before this decision." : "No decision yet.")]));
      replace(earned, h("span", {}, h("b", {}, figure(sum)), " earned so far"), advantage === null ? null : h("span", {}, h("b", {}, figure(advantage)), " ahead of the mean so far"),
        typeof member.reward === "number" ? h("span", {}, h("b", {}, figure(member.reward)), " reward") : null, typeof member.advantage === "number" ? h("span", {}, h("b", {}, figure(member.advantage)), " advantage") : null, ...ownWords(member).map((words) => h("span", {}, words)));
      setAttribute(element, "data-alone", byItself ? "yes" : null);
      setAttribute(element, "data-past", past ? "yes" : null);
      setAttribute(element, "data-branch", branch ? "yes" : null);
      setAttribute(open, "href", new URL(`watch/${encodeURIComponent(id)}?seq=${seq}`, root).href);
    },
  };
}

/**
 * The way of one sibling: a stretch a company, a click goes to the decision.
 * @param {string} key @param {import("../live/siblings.js").Company[]} counts who went with it @param {number} size siblings in all @param {number} longest decisions @param {(step: number) => void} go
 */
export function drawWay(key, counts, size, longest, go) {
  const stretches = [];
  for (const [step, { count, branch }] of counts.entries()) {
    const last = stretches.at(-1);
    if (last && last.count === count && last.branch === branch) last.length += 1;
    else stretches.push({ step, length: 1, count, branch });
  }
  const cursor = svg("path", { class: "way__cursor" });
  const picture = svg("svg", { viewBox: `0 0 ${Math.max(1, longest)} 1`, preserveAspectRatio: "none", role: "img", "aria-label": `Path of ${key}: ${counts.length} decisions, ${alone(counts) === null ? "never alone" : `alone from ${(alone(counts) ?? 0) + 1} on`}` },
    ...stretches.map(({ step, length, count, branch }) => svg("rect", { class: count === size ? "way__all" : count > 1 ? `way__some way__some--${branch % 3}` : "way__one", x: step, y: 0, width: length, height: 1 }, svg("title", {}, `decisions ${step + 1} to ${step + length}: ${count === 1 ? "alone" : `${count} of ${size} the same`}`))), cursor);
  picture.addEventListener("click", (/** @type {MouseEvent} */ event) => {
    const box = picture.getBoundingClientRect();
    go(Math.min(longest - 1, Math.floor(((event.clientX - box.left) / box.width) * longest)));
  });
  return { element: h("div", { class: "way" }, h("span", { class: "way__key" }, key), picture), at: (/** @type {number} */ step) => cursor.setAttribute("d", `M${step + 0.5} 0V1`) };
}
