// @ts-check
// One group on the page of a run: what it has come to, and a cell for each sibling.

import { h, keyed, setAttribute, setText } from "./dom.js";
import { figure, goodness, ownWords, rewardWords } from "./run_words.js";
import { clip, plain } from "./text.js";

/** @param {string} key the group's name; empty for the episodes of none @param {string} run @param {string} root */
export function makeGroup(key, run, root) {
  const title = key ? h("a", { href: new URL(`group/${encodeURIComponent(key)}?run=${encodeURIComponent(run)}`, root).href }, h("bdi", {}, clip(plain(key), 40))) : h("b", {}, "Episodes");
  const state = h("span", { class: "badge" });
  const mean = h("p", { class: "group__mean" });
  const cells = h("div", { class: "cells" });
  const element = h("section", { class: "card group", "aria-label": key ? `Group ${clip(plain(key), 40)}` : "Episodes" }, h("p", { class: "group__head" }, title, state), mean, cells);
  if (!key) element.classList.add("group--alone");
  return {
    element,
    /** @param {any} group */
    update(group) {
      state.hidden = !group.state;
      setText(state, group.state ? `${group.state} · ${group.usable} of ${group.size}` : "");
      setText(mean, [...rewardWords(group, group.usable).map((words) => words.join(" ")), group.usable > 1 && group.spread === 0 ? "nothing to learn from" : ""].filter(Boolean).join(", "));
      mean.hidden = !group.state;
      keyed(cells, Object.entries(group.members ?? {}), ([id]) => id, ([id, member]) => fill(h("a", { class: "cell", href: new URL(`watch/${encodeURIComponent(id)}`, root).href }), [id, member]), fill);
    },
  };
}

/** @param {HTMLElement} cell @param {[string, any]} entry */
function fill(cell, [id, member]) {
  const shown = typeof member.reward === "number" ? figure(member.reward) : member.standing === "playing" ? `${member.turns}…` : "×";
  setText(cell, shown);
  setAttribute(cell, "data-standing", member.standing);
  setAttribute(cell, "data-good", goodness(member) || null);
  const standing = { playing: `turn ${member.turns}, running`, failed: "failed", cut: "cut short", over: "finished" }[/** @type {string} */ (member.standing)] ?? "";
  const label = [`Episode ${plain(id).slice(-8)}: ${standing}`, typeof member.reward === "number" ? `reward ${figure(member.reward)}` : "", typeof member.advantage === "number" ? `advantage ${figure(member.advantage)}` : "", `${member.turns} turns`, ...ownWords(member), member.attempt ? `attempt ${member.attempt}` : ""].filter(Boolean).join(", ");
  setAttribute(cell, "aria-label", label);
  setAttribute(cell, "title", label);
  return cell;
}
