// @ts-check
// What the count is worth, and by which rule.

/** @param {any} ctx */
export function mountWorth({ ui: { h, setText } }) {
  const figures = ["Right", "Said", "Slips", "Longest run without a slip", "Reward"].map((name) => ({ name: h("dt", {}, name), value: h("dd") }));
  const element = h("section", { class: "card worth", "aria-label": "What it is worth" }, h("header", { class: "card__head" }, h("h2", {}, "What it is worth")),
    h("dl", {}, ...figures.map(({ name, value }) => h("div", {}, name, value))),
    h("p", { class: "quiet" }, "A count earns 1 if every integer is right, else 0. It is paid with the last integer."));
  return {
    element,
    /** @param {{turns: number, said: number, correct: number, reward: number, over: boolean, passed: {note: import("./panel.js").Said}[]}} count */
    update({ turns, said, correct, reward, over, passed }) {
      const share = (/** @type {number} */ part, /** @type {number} */ whole) => (whole ? `${part} of ${whole} (${Math.round((100 * part) / whole)} %)` : "–");
      const run = passed.length === said ? String(longest(passed)) : "–";
      const reached = over ? String(reward) : said > correct ? "0, as there is a slip" : "1 if it stays right";
      [share(correct, said), share(said, turns), said - correct, run, reached].forEach((value, index) => setText(figures[index].value, value));
    },
  };
}

/** @param {{note: import("./panel.js").Said}[]} passed */
function longest(passed) {
  let [most, now] = [0, 0];
  for (const { note: { said, due } } of passed) most = Math.max(most, now = said === due ? now + 1 : 0);
  return most;
}
