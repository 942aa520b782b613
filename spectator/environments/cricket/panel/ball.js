// @ts-check
// Owns the last ball, with the two decisions that led to it, and this over.

import { markKind, markWords, validBalls } from "./words.js";

const BALLS = 6;
/** Balls of an over that are shown; the longest ones lose their beginning. */
const SHOWN = 11;

/** @param {HTMLElement} place @param {any} ctx */
export function mountBall(place, { ui }) {
  const { h, setText, replace, said, clip, plain } = ui;
  const markPlace = h("div", { class: "ball__place" });
  const line = h("p", { class: "ball__line" });
  const detail = h("p", { class: "ball__detail quiet" });
  const over = h("ol", { class: "over" });
  const overName = h("span", { class: "quiet" });
  const sides = { bowling: decision("bowled for"), batting: decision("played for") };
  const card = h("section", { class: "card ball", "aria-label": "Last ball" }, markPlace,
    h("div", { class: "ball__words" }, line, detail), h("div", { class: "ball__over" }, overName, over),
    h("div", { class: "ball__why" }, sides.bowling.element, sides.batting.element));
  place.append(card);
  let seq = -1;
  /** @type {unknown} */ let marks = null;

  /** @param {string} verb */
  function decision(verb) {
    const who = h("span", { class: "ball__who" });
    const call = h("code");
    const why = said("p", "ball__reason", 110);
    return {
      element: h("div", { class: "ball__side" }, h("p", {}, who, " ", call), why.element),
      /** @param {any} made @param {string} team */
      show(made, team) {
        this.element.hidden = !made;
        if (!made) return;
        setText(who, `${team} ${verb === "bowled for" ? "bowled" : "played"}`);
        setText(call, clip(plain([made.tool, ...Object.entries(made.arguments ?? {}).slice(0, 3).map(([key, value]) => `${key.replaceAll("_", " ")} ${ui.argumentText(value, 24)}`)].join(" · ")), 90));
        why.show(made.reasoning || "no reason given");
      },
    };
  }

  /** @param {any} world */
  function drawOver(world) {
    if (marks === world.over) return;
    marks = world.over;
    const bowled = world.over?.marks ?? [];
    const todo = Math.max(0, BALLS - validBalls(bowled));
    setText(overName, world.over ? `Over ${world.over.number}` : "This over");
    const shown = bowled.slice(-SHOWN);
    replace(over, shown.length < bowled.length ? h("li", { class: "quiet" }, "…") : null, ...shown.map((/** @type {string} */ mark) => h("li", { class: `over__ball over__ball--${markKind(mark)}`, "aria-label": markWords(mark) }, mark)),
      ...Array.from({ length: todo }, () => h("li", { class: "over__ball over__ball--todo", "aria-hidden": "true" })));
  }

  return {
    element: card,
    /** @param {any} world @param {boolean} moves */
    update(world, moves) {
      drawOver(world);
      const ball = world.last_ball;
      if (ball && ball.seq === seq) return;
      seq = ball?.seq ?? 0;
      if (!ball) {
        replace(markPlace, h("div", { class: "ball__mark ball__mark--none", "aria-hidden": "true" }));
        setText(line, "No ball has been bowled yet.");
        setText(detail, world.toss ? "The captains choose who opens and who bowls first." : "First the toss.");
        sides.batting.show(null, "");
        return sides.bowling.show(null, "");
      }
      replace(markPlace, h("div", { class: `ball__mark ball__mark--${markKind(ball.mark)}${moves ? " ball__mark--land" : ""}`, "aria-hidden": "true" }, ball.mark));
      setText(line, clip(plain(ball.words), 120));
      setText(detail, [ball.at, deliveryWords(ball), ball.shot === "none" ? "" : ball.shot].filter(Boolean).join(" · "));
      const teamOf = (/** @type {any} */ made) => world.teams?.[made?.actor]?.name ?? "";
      sides.batting.show(ball.decisions?.batting, teamOf(ball.decisions?.batting));
      sides.bowling.show(ball.decisions?.bowling, teamOf(ball.decisions?.bowling));
    },
  };
}

/** @param {any} ball */
function deliveryWords(ball) {
  const place = [ball.length === "good" ? "good length" : ball.length, ball.line].filter(Boolean).join(", ").replaceAll("_", " ");
  const speed = typeof ball.speed_kmh === "number" ? `${Math.round(ball.speed_kmh)} km/h` : "";
  return [place, speed].filter(Boolean).join(", ");
}
