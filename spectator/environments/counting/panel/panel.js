// @ts-check
// Counting's panel: how far the count has come, and whether it is right so far.

export default {
  /** @param {HTMLElement} root @param {any} ctx */
  mount(root, { lead, ui: { h, setText } }) {
    const last = h("span", { class: "count__last" });
    const of = h("span", { class: "quiet" });
    const bar = h("progress", { class: "count__bar", "aria-label": "Progress of the count", max: "1", value: "0" });
    const verdict = h("p");
    lead.append(h("section", { class: "card count", "aria-label": "The count" }, h("p", {}, last, " ", of), bar, verdict));
    return {
      /** @param {any} state */
      update({ world = {} }) {
        const { turns = 0, said = 0, correct = 0 } = world;
        setText(last, world.last ?? "–");
        setText(of, `${said} of ${turns} said`);
        bar.max = Math.max(1, turns);
        bar.value = said;
        const wrong = said - correct;
        setText(verdict, world.result ? (world.result === "right" ? "Complete: every integer is right." : `Complete, with ${wrong} wrong.`) : wrong ? `${wrong} wrong so far.` : said ? "Right so far." : "Nothing said yet.");
        verdict.className = wrong ? "down" : said ? "up" : "quiet";
      },
      destroy: () => lead.replaceChildren(),
    };
  },
};
