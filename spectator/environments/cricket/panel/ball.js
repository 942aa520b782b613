// @ts-check
// The last ball and this over.

import { ballName, isInterval, markKind, momentNames, validBalls } from "./words.js";

const BALLS = 6;
/** Balls of an over that are shown; the longest ones lose their beginning. */
const SHOWN = 11;

/** @param {any} ctx */
export function mountBall({ ui }) {
  const { h, setText, replace, clip, plain } = ui;
  const markPlace = h("div", { class: "ball__place" });
  const line = h("p", { class: "ball__line" });
  const detail = h("p", { class: "ball__detail quiet" });
  const over = h("ol", { class: "over" });
  const overName = h("span", { class: "quiet" });
  const sides = { bowling: sideOf("bowled"), batting: sideOf("played") };
  /** Who did best in the innings before: on a phone, whose first screen has no room for the card below. */ const best = h("b", { class: "ball__best", hidden: true });
  const element = h("section", { class: "card ball", "aria-label": "Last ball" }, markPlace, line, h("div", { class: "ball__over" }, overName, over, best));
  const why = h("section", { class: "card ball-why", "aria-label": "Calls on the last ball" }, detail, sides.bowling.element, sides.batting.element);
  let seq = -1;
  /** @type {unknown} */ let marks = null;
  /** @type {unknown} */ let values = null;

  /** The decision of one side on the ball, and what it was worth. @param {string} verb */
  function sideOf(verb) {
    const who = h("span", { class: "ball__who" });
    const call = h("code");
    const why = ui.said("p", "ball__reason", 84);
    const foreign = h("p", { class: "badge badge--foreign ball__foreign", hidden: true });
    const worth = h("p", { class: "ball__worth" });
    return {
      element: h("div", { class: "ball__side" }, h("p", {}, who, " ", call), h("div", { class: "ball__said" }, foreign, why.element), worth),
      /** @param {any} made @param {string} team @param {string} stranger why it was not the side's own decision, in words */
      show(made, team, stranger = "") {
        this.element.classList.toggle("ball__side--none", !made);
        if (!made) return;
        foreign.hidden = stranger === "";
        setText(foreign, stranger);
        setText(who, `${team} ${verb}`);
        setText(call, clip(plain([(made.tool ?? "").replaceAll("_", " "), ...Object.entries(made.arguments ?? {}).slice(0, 3).map(([key, value]) => `${key.replaceAll("_", " ")} ${ui.argumentText(value, 24)}`)].join(" · ")), 90));
        why.show(made.reasoning || "no reason given");
      },
      /** @param {number | undefined} value @param {number | undefined} planned @param {number | undefined} deed @param {string} segment */
      weigh(value, planned, deed, segment) {
        replace(worth, ...worthParts(h, value), ...planParts(h, planned, deed, segment));
      },
    };
  }

  /** @param {any} world @param {boolean} moves */
  function drawOver(world, moves) {
    if (marks === world.over) return;
    marks = world.over;
    const bowled = world.over?.marks ?? [];
    const todo = Math.max(0, BALLS - validBalls(bowled));
    setText(overName, world.over ? `Over ${world.over.number}` : "This over");
    const shown = bowled.slice(-SHOWN);
    const hidden = bowled.length - shown.length;
    replace(over, hidden ? h("li", { class: "quiet" }, "…") : null, ...shown.map((/** @type {string} */ mark, /** @type {number} */ index) => h("li", {},
      ui.momentLink(momentNames.ofOver(world.innings, world.over.number, hidden + index + 1), { class: `over__ball over__ball--${markKind(mark)}${moves && index === shown.length - 1 ? " ball__told" : ""}`, "aria-label": ballName(world.over, hidden + index) }, mark))),
      ...Array.from({ length: todo }, () => h("li", { class: "over__ball over__ball--todo", "aria-hidden": "true" })));
  }

  /** @param {any} ball */
  function drawWorth(ball) {
    if (values === ball.values) return;
    values = ball.values;
    for (const [role, deed] of /** @type {["batting" | "bowling", number][]} */ ([["batting", ball.intents?.aggression], ["bowling", ball.intents?.attack]])) {
      sides[role].weigh(ball.values?.[role], ball.planned?.[role], deed, ball.planned?.segment ?? "");
    }
  }

  /** The innings before, until the next one has its first ball. @param {any} world */
  async function drawInterval(world) {
    seq = -world.innings;
    const { intervalWords } = await import("./interval.js");
    const interval = intervalWords(world);
    if (!interval || seq !== -world.innings) return;
    replace(markPlace, h("div", { class: "ball__mark ball__mark--none", "aria-hidden": "true" }, interval.runs));
    setText(line, plain(interval.line));
    setText(best, clip(plain(interval.best), 120));
    best.hidden = !interval.best;
    setText(detail, plain(interval.detail));
    for (const role of /** @type {const} */ (["batting", "bowling"])) {
      sides[role].show({ reasoning: interval[role] }, world.teams?.[role === "batting" === (world.batting === "home") ? "away" : "home"]?.name ?? "");
      sides[role].weigh(undefined, undefined, undefined, "");
    }
  }

  return {
    element,
    /** How it was bowled and played, and both captains' reasons: under the ball, on a phone below the fold. */
    why,
    /** @param {any} world @param {boolean} moves */
    update(world, moves) {
      drawOver(world, moves);
      const ball = world.last_ball;
      if (isInterval(world)) return seq === -world.innings || void drawInterval(world);
      if (ball && ball.seq === seq) return drawWorth(ball);
      seq = ball?.seq ?? 0;
      best.hidden = true;
      if (!ball) {
        replace(markPlace, h("div", { class: "ball__mark ball__mark--none", "aria-hidden": "true" }));
        setText(line, "No ball has been bowled yet.");
        setText(detail, world.toss ? "The captains choose who opens and who bowls first." : "The toss comes first.");
        sides.batting.show(null, "");
        return sides.bowling.show(null, "");
      }
      replace(markPlace, h("div", { class: `ball__mark ball__mark--${markKind(ball.mark)}${moves ? " ball__mark--land" : ""}`, "aria-hidden": "true" }, ball.mark));
      replace(line, h("span", { class: moves ? "ball__told" : "" }, clip(plain(ball.words), 120)));
      setText(detail, [ball.at, deliveryWords(ball), ball.shot === "none" ? "" : ball.shot].filter(Boolean).join(" · "));
      const teamOf = (/** @type {any} */ made) => world.teams?.[made?.actor]?.name ?? "";
      for (const role of /** @type {const} */ (["batting", "bowling"])) {
        const made = ball.decisions?.[role];
        sides[role].show(made, teamOf(made), strangerOf(world, ball, made));
      }
      values = NaN;
      drawWorth(ball);
    },
  };

  /** Why a decision on the ball was not its seat's own; the class of a failure stands in the newest decision until the next one. @param {any} world @param {any} ball @param {any} made */
  function strangerOf(world, ball, made) {
    const newest = world.decided?.[made?.actor];
    return made ? ui.foreignWords(newest?.seq < ball.seq ? newest : made, world.seats?.[made.actor]?.source) : "";
  }
}

/** What a decision did to its side's chance to win, in points of a hundred. @param {any} h @param {unknown} value */
function worthParts(h, value) {
  if (typeof value !== "number") return [];
  const points = (100 * value).toFixed(1).replace("-", "−").replace("−0.0", "0.0");
  const look = Math.abs(value) < 0.0005 ? "" : value > 0 ? "up" : "down";
  return [h("span", { title: "How this decision changed its side’s chance to win, compared with what real sides do here; simulated" }, "worth ",
    h("b", { class: look }, `${look === "up" ? "+" : ""}${points} %`))];
}

/** @param {any} h @param {unknown} planned @param {unknown} deed @param {string} segment */
function planParts(h, planned, deed, segment) {
  if (typeof planned !== "number" || typeof deed !== "number") return [];
  const kept = Math.abs(planned - deed) < 0.15;
  return [h("span", { title: `Planned for the ${segment}, then set for this ball; 0 careful, 1 all out` }, "plan ", h("b", {}, planned.toFixed(2)), ` → ${deed.toFixed(2)} `,
    h("b", { class: kept ? "quiet" : "ball__off" }, kept ? "kept" : "off plan"))];
}

/** @param {any} ball */
function deliveryWords(ball) {
  const place = [ball.length === "good" ? "good length" : ball.length, ball.line].filter(Boolean).join(", ").replaceAll("_", " ");
  const speed = typeof ball.speed_kmh === "number" ? `${Math.round(ball.speed_kmh)} km/h` : "";
  return [place, speed].filter(Boolean).join(", ");
}
