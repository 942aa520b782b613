// @ts-check
// The ground from above, on the page and on tiles, at the places that show/drawing.py gives.

const PITCH_M = 20.12;
const RING_M = 27.43;
const BOUNDARY_M = 68;
const MIDDLE_M = PITCH_M / 2;
const RING = `M${-RING_M} ${MIDDLE_M}V${-MIDDLE_M}a${RING_M} ${RING_M} 0 0 1 ${2 * RING_M} 0V${MIDDLE_M}a${RING_M} ${RING_M} 0 0 1 ${-2 * RING_M} 0z`;
/** What a ball brought, by its kind: the colour of its way. */
const COLOURS = { six: "var(--willow)", four: "var(--grass)", wicket: "var(--cherry)", extra: "var(--sky)" };
/** Dismissals that break the stumps. */
const BREAKS = new Set(["bowled", "hit wicket", "stumped", "run out"]);
const BROKEN = "M-2.2 2.4l-1.6-5.4M0 2.4v-5.4M2.2 2.4l1.6-5.4M-3.4-4.4l2.6-1.6M1-6.2l2.6 2";

/** @typedef {[number, number, string?]} Man place, and name where there is room for it */

/** A place on paper: the bowler's end up, the off side of a right-hander right, of a left-hander left. @param {number} x @param {number} y @param {boolean} [left] @returns {[number, number]} */
export const onPaper = (x, y, left = false) => [left ? -x : x, MIDDLE_M - y];

/** Whether a name is written beside its man; those farther out have it below. @param {Man} man */
const isClose = ([x, y]) => Math.hypot(x, y) < 16 || (Math.abs(x) < 4 && y < 26);

/**
 * @param {{ui: any, charts: any}} tools
 * @param {{margin: [number, number], sign?: (ball: any) => string}} looks metres of the drawing beyond the rope, sideways and up;
 *   what is written where a ball ended
 */
export function makeGround({ ui: { svg, replace, setAttribute }, charts: { arcPath, round } }, { margin, sign = () => "" }) {
  const grass = (/** @type {number} */ share) => `color-mix(in oklab, var(--grass) ${share}%, var(--card))`;
  const mown = [1, 0.8, 0.6].map((size, step) => svg("path", { transform: `scale(${size})`, fill: grass(step % 2 ? 31 : 25) }));
  const rope = svg("path", { class: "ground__rope", fill: "none", stroke: "var(--ink-3)", "stroke-width": 1.2 });
  const ring = svg("path", { d: RING, fill: grass(38), "stroke-width": 1, "stroke-dasharray": "3 2.4" });
  const men = svg("g", { stroke: "var(--card)", "stroke-width": 0.8 });
  const batters = svg("g", { fill: "var(--sky)", stroke: "var(--card)", "stroke-width": 0.6 }, svg("circle", { r: 2 }), svg("circle", { r: 2 }));
  const way = svg("g", { fill: "none", "stroke-linecap": "round" });
  const box = (/** @type {number} */ reach) => `${-reach - margin[0]} ${-reach - margin[1]} ${2 * (reach + margin[0])} ${2 * (reach + margin[1])}`;
  const crease = (/** @type {number} */ y) => `M-2.4 ${y}h4.8`;
  const element = svg("svg", { viewBox: box(BOUNDARY_M) }, ...mown, ring, rope,
    svg("rect", { x: -2.4, y: -MIDDLE_M - 1.2, width: 4.8, height: PITCH_M + 2.4, rx: 0.8, fill: "color-mix(in oklab, var(--willow) 55%, var(--card))" }),
    svg("path", { d: crease(MIDDLE_M) + crease(MIDDLE_M - 1.22) + crease(-MIDDLE_M) + crease(1.22 - MIDDLE_M), stroke: "var(--card)", "stroke-width": 0.3 }), men, batters, way);
  /** @type {any[]} */ let drawn = [];

  /** @param {number[]} reaches @param {boolean} left */
  function drawRope(reaches, left) {
    setAttribute(element, "viewBox", box(Math.max(...reaches)));
    const path = ropePath(left ? reaches.toReversed() : reaches, round);
    for (const one of [...mown, rope]) setAttribute(one, "d", path);
  }

  /** Fielders go to their new places. @param {Record<string, Man>} places @param {boolean} left @param {boolean} walks */
  function drawMen(places, left, walks) {
    const known = Object.fromEntries([...men.children].map((one) => [one.dataset.man, one]));
    for (const [key, man] of Object.entries(places)) {
      const one = known[key] ?? men.appendChild(svg("g", { class: "ground__man", data: { man: key } }, svg("circle", { r: 2.8, fill: /\d/.test(key) ? "var(--ink)" : "var(--willow)" })));
      delete known[key];
      move(one, onPaper(man[0], man[1], left), walks);
      if (man[2] !== undefined) label(one, man, left);
    }
    for (const one of Object.values(known)) one.remove();
    const off = (places.bowler?.[0] ?? 2) > 0;
    move(batters.children[0], onPaper(-1, 1, left), walks);
    move(batters.children[1], onPaper(off ? -2 : 2, 20, left), walks);
  }

  /** @param {any} one @param {[number, number]} place @param {boolean} walks */
  function move({ style }, [x, y], walks) {
    style.transition = walks ? "transform .9s" : "";
    style.transform = `translate(${x}px, ${y}px)`;
  }

  /** @param {any} one @param {Man} man @param {boolean} left */
  function label(one, man, left) {
    const [x, y] = onPaper(man[0], man[1], left);
    const outwards = (x || (left ? 1 : -1)) > 0;
    const at = isClose(man) ? { x: outwards ? 4 : -4, y: man[1] < -11 ? 4.4 : 1.4, "text-anchor": outwards ? "start" : "end" } : { x: Math.max(-66, Math.min(66, x)) - x, y: y > 60 ? -4.4 : 7, "text-anchor": "middle" };
    replace(one, svg("title", {}, man[2]), svg("circle", { r: 7, fill: "transparent", stroke: "none" }), one.querySelector("[r='2.8']"), svg("text", at, man[2]));
  }

  /** @param {any} ball @param {Record<string, Man>} places @param {boolean} left @param {number} flight */
  function drawBall(ball, places, left, flight) {
    for (const one of men.children) one.classList.toggle("is-by", one.dataset.man === ball?.by);
    if (!ball) return replace(way);
    const colour = COLOURS[/** @type {"six"} */ (ball.kind)] ?? "var(--ink)";
    const end = onPaper(ball.to[0], ball.to[1], left);
    const by = places[ball.by] && onPaper(places[ball.by][0], places[ball.by][1], left);
    const wicket = onPaper(0, ball.broken === "non_striker" ? PITCH_M : 0);
    const path = svg("path", { class: `ground__way ground__way--${ball.kind}${flight ? " ground__way--fly" : ""}`, stroke: colour, "stroke-width": ball.kind === "run" || ball.kind === "dot" ? 1.4 : 2, pathLength: 100, "stroke-dasharray": 100,
      d: arcPath([onPaper(0, 0.8), end], (left ? -1 : 1) * (ball.aerial ? 0.16 : 0.02)) });
    const runs = by && Math.hypot(by[0] - end[0], by[1] - end[1]) > 1;
    const after = svg("g", {},
      runs ? svg("path", { class: "ground__run", d: line(by, end), stroke: "var(--ink)", "stroke-width": 0.7, "stroke-dasharray": "1.2 1.8" }) : null,
      ball.broken ? svg("path", { class: "ground__throw", d: arcPath([end, wicket], 0.12), stroke: "var(--ink)", "stroke-width": 1, "stroke-dasharray": "2.4 1.6" }) : null,
      by ? svg("circle", { class: "ground__by", cx: by[0], cy: by[1], r: 4.4, stroke: colour, "stroke-width": 1 }) : null,
      BREAKS.has(ball.out) ? svg("path", { class: "ground__stumps", d: BROKEN, transform: `translate(${wicket.map(round).join(" ")})`, stroke: "var(--cherry)", "stroke-width": 1.1 }) : null,
      ball.out === "lbw" ? svg("rect", { class: "ground__pad", x: -2, y: wicket[1] - 4.4, width: 4, height: 6.4, rx: 1.4, fill: "var(--cherry)", stroke: "var(--card)", "stroke-width": 0.6 }) : null);
    const words = sign(ball);
    const mark = svg("g", { transform: `translate(${end.map(round).join(" ")})` }, svg("circle", { class: "ground__ball", r: words ? 9 : 2.2, fill: words ? colour : "var(--cherry)", stroke: "var(--card)", "stroke-width": 0.8 }),
      words ? svg("text", { y: 4.7, "text-anchor": "middle", "font-size": 13, "font-weight": 800, fill: "var(--on-colour)" }, words) : null);
    replace(way, path, mark, after);
    if (!flight) return;
    path.animate({ strokeDashoffset: [100, 0] }, { duration: flight, easing: "ease-out" });
    for (const one of [mark, after]) one.animate({ opacity: [0, 0, 1] }, { duration: flight, easing: "ease-in" });
  }

  const line = (/** @type {number[]} */ from, /** @type {number[]} */ to) => `M${from.map(round).join(" ")}L${to.map(round).join(" ")}`;

  return {
    element,
    /** @param {any} drawing as the server has it @param {boolean} walks whether fielders walk to new places @param {number} flight milliseconds of a new ball's way; 0 to draw it at once */
    update({ rope: reaches = [], men: places = {}, left = false, ball = null, powerplay = false }, walks, flight) {
      const [newReaches, newPlaces, newLeft, newBall] = [reaches.join(), JSON.stringify(places), left, JSON.stringify(ball)];
      const [oldReaches, oldPlaces, oldLeft, oldBall] = drawn;
      drawn = [newReaches, newPlaces, newLeft, newBall];
      if (reaches.length && (oldReaches !== newReaches || oldLeft !== left)) drawRope(reaches, left);
      if (oldPlaces !== newPlaces || oldLeft !== left) drawMen(places, left, walks && oldPlaces !== undefined);
      setAttribute(ring, "stroke", powerplay ? "var(--willow)" : "var(--ink-3)");
      if (oldBall !== newBall || oldLeft !== left) drawBall(ball, places, left, flight);
    },
  };
}

/**
 * The rope through the middle of each sector of 45 degrees, from fine leg round to third, as one smooth line.
 * @param {number[]} reaches metres from the middle of the pitch @param {(value: number) => number} round
 */
export function ropePath(reaches, round) {
  const spots = reaches.map((reach, sector) => {
    const angle = ((sector + 0.5) * Math.PI) / 4;
    return [-reach * Math.sin(angle), reach * Math.cos(angle)];
  });
  const at = (/** @type {number} */ place) => spots[(place + spots.length) % spots.length];
  const from = (/** @type {number} */ place, /** @type {number} */ way) => at(place).map((value, axis) => round(value + way * (at(place + 1)[axis] - at(place - 1)[axis]) * 0.1875));
  return `M${at(0).map(round).join(" ")}${spots.map((_, place) => `C${from(place, 1).join(" ")} ${from(place + 1, -1).join(" ")} ${at(place + 1).map(round).join(" ")}`).join("")}z`;
}
