// @ts-check
// Counting's panel: how far the count has come, every integer that was said, how many were right, and what it is worth.

import { mountBoard } from "./board.js";
import { mountCourse } from "./course.js";
import { mountWorth } from "./worth.js";

/** Longest count that is read from its beginning for a viewer who joins late. */
const READ = 2_000;

/** What is kept of an event. @typedef {{said: number, due: number}} Said */

export default {
  /** @param {HTMLElement} root @param {any} ctx */
  mount(root, ctx) {
    const { lead, notes, whole, parts, ui: { h, setText } } = ctx;
    const last = h("span", { class: "count__last" });
    const of = h("span", { class: "quiet" });
    const bar = h("progress", { class: "count__bar", "aria-label": "Progress of the count", max: "1", value: "0" });
    const verdict = h("p");
    lead.append(h("section", { class: "card count", "aria-label": "The count" }, h("p", {}, last, " ", of), bar, verdict));
    const [board, course, worth] = [mountBoard(ctx), mountCourse(ctx), mountWorth(ctx)];
    root.append(h("div", { class: "counts" }, board.element, course.element, worth.element));
    let asked = false;
    const drawing = parts([board, course, worth]);
    return {
      /** @param {any} state */
      update({ world = {}, episode = {} }) {
        const { turns = 0, said = 0, correct = 0 } = world;
        setText(last, world.last ?? "–");
        setText(of, `${said} of ${turns} said`);
        bar.max = Math.max(1, turns);
        bar.value = said;
        setText(verdict, verdictWords(world));
        verdict.className = said > correct ? "down" : said ? "up" : "quiet";
        /** @type {{seq: number, note: Said}[]} */
        const known = notes();
        if (said > known.length && said <= READ && !asked) {
          asked = true;
          void whole();
        }
        const passed = known.length && known[known.length - 1].note.due <= said ? known : known.filter(({ note }) => note.due <= said);
        drawing.update({ turns, said, correct, passed, reward: episode.score ?? 0, over: Boolean(world.result) }, false);
      },
      destroy() {
        drawing.destroy();
        for (const place of [root, lead]) place.replaceChildren();
      },
    };
  },
  /** @param {any} event @returns {Said | null} */
  note: ({ type, data }) => (type === "counting.number_said" ? { said: data.number, due: data.expected } : null),
  names: () => ({ counter: "Counter" }),
  /** @param {string} name @param {any} value @returns {[string, string]} */
  argument: (name, value) => ["says", /ACTION:\s*(-?\d+)/.exec(String(value))?.[1] ?? String(value)],
  /** @param {any} state */
  sections: ({ world = {} }) => [{ title: "The count", lines: [`${world.said ?? 0} of ${world.turns ?? 0} said, ${world.correct ?? 0} right.`, `Last: ${world.last ?? "none"}. ${verdictWords(world)}`] }],
};

/** Whether the count is right, in words. @param {any} world */
function verdictWords({ said = 0, correct = 0, result }) {
  const wrong = said - correct;
  if (result) return result === "right" ? "Complete: every integer is right." : `Complete, with ${wrong} wrong.`;
  return wrong ? `${wrong} wrong so far.` : said ? "Right so far." : "Nothing said yet.";
}
