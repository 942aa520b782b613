// @ts-check
// How many integers were right as the count went on, below the line of a count without a slip.

/** Most integers that the line is drawn from; of a longer count the last. */
const MOST = 2_000;
const [WIDE, LEFT, TOP, BASE] = [480, 40, 12, 168];

/** @param {any} ctx */
export function mountCourse({ ui: { h, svg, replace }, charts: { figuresTable, grid, linear, linePath, readable, ticks } }) {
  const picture = readable(svg("svg", { viewBox: `0 0 ${WIDE} ${BASE + 24}`, role: "img", "aria-label": "Right integers as the count went on; the figures follow as a table" }));
  const table = h("div", { class: "unseen" });
  const element = h("section", { class: "card course", "aria-label": "Right so far" },
    h("header", { class: "card__head" }, h("h2", {}, "Right so far"), h("span", { class: "quiet" }, "dashed: no slip")), picture, table);
  let drawn = "";
  return {
    element,
    /** @param {{turns: number, said: number, correct: number, passed: {note: import("./panel.js").Said}[]}} count */
    update({ turns, said, correct, passed }) {
      const now = `${turns} ${said} ${correct} ${passed.length}`;
      if (now === drawn) return;
      drawn = now;
      const known = passed.slice(-MOST).map(({ note }) => note);
      const from = known.length ? known[0].due - 1 : said;
      let right = correct;
      /** @type {[number, number][]} */
      const points = [[said, correct]];
      for (const { said: number, due } of known.reverse()) points.push([due - 1, right -= number === due ? 1 : 0]);
      points.reverse();
      const x = linear([from, Math.max(from + 1, turns - said > MOST ? said : turns)], [LEFT, WIDE - 8]);
      const marks = ticks(Math.max(1, turns - said > MOST ? said : turns));
      const y = linear([0, marks.at(-1) ?? 1], [BASE, TOP]);
      const end = turns - said > MOST ? said : turns;
      replace(picture, grid(marks, y, { left: LEFT, right: WIDE - 8 }),
        svg("path", { class: "course__ideal", d: linePath([[x(from), y(from)], [x(end), y(end)]]) }),
        svg("path", { class: "course__line", d: linePath(points.map(([step, value]) => [x(step), y(value)])) }),
        svg("circle", { class: "course__now", cx: x(said), cy: y(correct), r: 4 }),
        ...[from, end].map((step, index) => svg("text", { x: x(step), y: BASE + 18, "text-anchor": index ? "end" : "start" }, index ? `${step} said` : step)));
      const every = Math.max(1, Math.ceil(points.length / 20));
      replace(table, figuresTable("Right integers as the count went on", ["said", "right"], points.filter((_, index) => index % every === 0 || index === points.length - 1)));
    },
  };
}
