// @ts-check
// What an imported episode came to, what is known of it, and its siblings.

import { get } from "../live/api.js";
import { verdictOf } from "../live/conversation.js";
import { byId, h, replace, setAttribute, setText } from "./dom.js";
import { tokenWords } from "./message.js";
import { figure } from "./run_words.js";
import { clip, duration, plain, plural, words } from "./text.js";

/** Most siblings in the list; the group's page has all. */
const MOST = 60;

/** @param {HTMLElement} place @param {import("../live/conversation.js").Conversation} conversation @param {string} episodeId */
export function drawVerdict(place, conversation, episodeId) {
  const { ended, started, rubric, tokens, times } = conversation;
  const { tone, title, reward, why } = verdictOf(ended);
  const seat = started.seats?.[started.agent] ?? {};
  const took = (Date.parse(times[1]) - Date.parse(times[0])) / 1000;
  const parts = Object.entries(rubric).filter(([, value]) => typeof value === "number");
  const facts = /** @type {[string, string][]} */ ([
    ["Model", seat.label === "unknown" ? "" : seat.label ?? ""], ["Environment", started.environment === started.title ? "" : started.environment ?? ""],
    ["Answers", conversation.answers ? conversation.answers.toLocaleString("en") : ""],
    ["Tokens", tokenWords(tokens.in, tokens.out).replace(/ tokens?/, "")],
    ["Took", took > 0 ? duration(took) : ""], ["Seed", started.seed ? String(started.seed) : ""], ["Episode", episodeId],
  ]);
  setAttribute(place, "data-tone", tone);
  replace(place, h("h2", { class: "verdict__title" }, title), reward === null ? null : h("p", { class: "verdict__reward" }, figure(reward)),
    why ? h("p", { class: "verdict__why" }, h("bdi", { dir: "auto" }, clip(plain(why), 500))) : null,
    parts.length > 1 || (parts.length === 1 && parts[0][1] !== reward) ? h("dl", { class: "facts verdict__parts" }, ...parts.flatMap(([name, value]) => [h("dt", {}, h("bdi", {}, clip(words(name), 60))), h("dd", {}, figure(value))])) : null,
    h("dl", { class: "facts" }, ...facts.filter(([, value]) => value !== "").flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, h("bdi", {}, clip(plain(value), 200)))])));
}

/**
 * The siblings of an episode, each with its reward; links to the one before and after, and to the group's page.
 * @param {HTMLElement} place @param {string} root @param {string} episodeId @param {any} started
 * @returns {Promise<{before: string | null, after: string | null}>} addresses
 */
export async function drawSiblings(place, root, episodeId, started) {
  const none = { before: null, after: null };
  if (!started.group_id) return none;
  const run = started.run_id ? `?run=${encodeURIComponent(started.run_id)}` : "";
  const group = encodeURIComponent(started.group_id);
  const answer = await get(root, `api/groups/${group}${run}`);
  const members = answer.ok ? Object.entries(answer.body.members ?? {}) : [];
  const at = members.findIndex(([id]) => id === episodeId);
  if (at < 0 || members.length < 2) return none;
  const address = (/** @type {string} */ id) => new URL(`watch/${encodeURIComponent(id)}`, root).href;
  const first = Math.max(0, Math.min(at - MOST / 2, members.length - MOST));
  const link = (/** @type {number} */ to, /** @type {string} */ label) => (members[to] ? h("a", { class: "button", href: address(members[to][0]) }, label) : null);
  replace(place, h("h2", {}, "Siblings"), h("p", { class: "quiet" }, `${at + 1} of ${plural(members.length, "answer")} to the same prompt`),
    h("ol", { class: "siblinglist", start: first + 1 }, ...members.slice(first, first + MOST).map(([id, member], index) => {
      const reward = typeof member.reward === "number" ? figure(member.reward) : { failed: "failed", cut: "cut short", playing: "running" }[/** @type {string} */ (member.standing)] ?? "no reward";
      const said = `Sibling ${first + index + 1}: ${typeof member.reward === "number" ? `reward ${reward}` : reward}`;
      return h("li", {}, h("a", { href: address(id), "aria-label": said, "aria-current": id === episodeId ? "page" : null }, h("span", { class: "quiet" }, String(first + index + 1)), h("b", {}, reward)));
    })),
    h("p", { class: "siblings__go" }, link(at - 1, "← Previous"), link(at + 1, "Next →"), h("a", { class: "button", href: new URL(`group/${group}${run}`, root).href }, "Compare all")));
  place.hidden = false;
  byId("sibling-keys").hidden = false;
  return { before: members[at - 1] ? address(members[at - 1][0]) : null, after: members[at + 1] ? address(members[at + 1][0]) : null };
}

/** The run of an episode, as a link in the header. @param {HTMLElement} link @param {string} root @param {any} started */
export function drawRun(link, root, started) {
  if (!started.run_id) return;
  setText(link, clip(plain(started.run_id), 40));
  setAttribute(link, "href", new URL(`rollouts/${encodeURIComponent(started.run_id)}`, root).href);
  link.hidden = false;
}
