// @ts-check
// The field seen from above: where everyone stands, and what became of the last ball.

import { makeGround } from "./ground.js";

/** What a drawing shows of a ball, in words. @param {any} drawing */
export function ballWords({ men = {}, ball }) {
  if (!ball) return "";
  const by = men[ball.by]?.[2];
  if (ball.out === "run out") return `Run out at the ${ball.broken === "striker" ? "striker’s" : "bowler’s"} end${by ? `, by ${by}` : ""}.`;
  if (ball.out) return `${ball.out[0].toUpperCase()}${ball.out.slice(1)}${by ? `, by ${by}` : ""}.`;
  return by ? `The last ball was fielded by ${by}.` : { six: "The last ball went over the rope.", four: "The last ball went to the rope." }[/** @type {"six"} */ (ball.kind)] ?? "";
}

/** @param {any} ctx */
export function mountField(ctx) {
  const { ui: { h, svg, setText, setAttribute }, charts } = ctx;
  const ground = makeGround(ctx, { margin: [12, 5] });
  const drawing = ground.element;
  const corners = [[-78, "start"], [78, "end"]].map(([x, anchor]) => svg("text", { class: "ground__end", x, y: 70, "text-anchor": anchor }));
  setAttribute(drawing, "role", "img");
  drawing.append(...corners);
  drawing.addEventListener("click", (/** @type {any} */ event) => {
    const man = event.target.closest(".ground__man");
    for (const one of drawing.querySelectorAll(".ground__man")) one.classList.toggle("is-named", one === man && !one.classList.contains("is-named"));
  });
  charts.readable(drawing);
  const preset = h("b");
  const count = h("span", { class: "quiet ground__note" });
  const element = h("section", { class: "card ground", "aria-label": "Field and path of the ball" },
    h("header", { class: "card__head" }, h("h2", {}, "Field"), preset, count), drawing,
    h("p", { class: "ground__foot" }, "Simulated: positions as set, the ball’s direction from the model. The bowler is at the top."));

  return {
    element,
    /** @param {any} world @param {boolean} moves */
    update(world, moves) {
      const shown = { ...world.drawing, powerplay: world.badges?.powerplay };
      ground.update(shown, moves, moves ? world.flight_ms : 0);
      for (const [place, text] of corners.entries()) setText(text, (place === 0) === Boolean(shown.left) ? "off side" : "leg side");
      setAttribute(drawing, "aria-label", `${Object.keys(shown.men ?? {}).length} players in the field${shown.left ? " to a left-hander" : ""}. ${ballWords(shown)}`);
      setText(preset, String(world.field?.preset ?? "").replaceAll("_", " "));
      const { outside, outside_limit: limit } = world.field ?? {};
      setText(count, outside === undefined ? "not set yet" : `${outside} outside the ring, at most ${limit}`);
    },
  };
}
