// @ts-check
// A match from afar: the ground with the field that is set, and the way of the last ball.

const PITCH_M = 20.12;
const RING_M = 27.43;
const MIDDLE_M = PITCH_M / 2;
/** Metres of the drawing beyond the rope, for what is hit over it. */
const BEYOND_M = 12;
const FLIGHT_MS = 450;
/** Smallest size in pixels at which balls and fielders move; smaller drawings are still, because there may be many. */
const LARGE_PX = 220;
/** What a ball brought, by its kind: the colour of its way, and the sign where it ended. */
const COLOURS = { six: "var(--willow)", four: "var(--grass)", wicket: "var(--cherry)", extra: "var(--sky)" };
const SIGNS = { six: "6", four: "4", wicket: "W" };

export default {
  /** @param {any} ctx */
  mount({ ui: { svg, replace, setAttribute }, charts: { arcPath, round } }) {
    const grass = (/** @type {number} */ share) => `color-mix(in oklab, var(--grass) ${share}%, var(--card))`;
    const ring = `M${-RING_M} ${MIDDLE_M}V${-MIDDLE_M}a${RING_M} ${RING_M} 0 0 1 ${2 * RING_M} 0V${MIDDLE_M}a${RING_M} ${RING_M} 0 0 1 ${-2 * RING_M} 0z`;
    const mown = [1, 0.8, 0.6].map((size, step) => svg("path", { transform: `scale(${size})`, fill: grass(step % 2 ? 31 : 25) }));
    const rope = svg("path", { fill: "none", stroke: "var(--ink-3)", "stroke-width": 1.2 });
    const circle = svg("path", { d: ring, fill: grass(38), "stroke-width": 1, "stroke-dasharray": "3 2.4" });
    const way = svg("g", { "stroke-linecap": "round" });
    const men = svg("g", { fill: "var(--ink)", stroke: "var(--card)", "stroke-width": 0.8 });
    const element = svg("svg", {}, ...mown, circle, rope,
      svg("rect", { x: -2.4, y: -MIDDLE_M - 1.2, width: 4.8, height: PITCH_M + 2.4, rx: 0.8, fill: "color-mix(in oklab, var(--willow) 55%, var(--card))" }), men,
      svg("g", { fill: "var(--sky)", stroke: "var(--card)", "stroke-width": 0.6 }, svg("circle", { cx: -1, cy: MIDDLE_M - 1, r: 2.2 }), svg("circle", { cx: 1.8, cy: -MIDDLE_M, r: 2.2 })), way);
    let sizes = "";
    let set = "";
    let seq = -1;

    /** @param {number[]} reaches */
    function drawRope(reaches) {
      sizes = reaches.join();
      const size = Math.max(...reaches) + BEYOND_M;
      setAttribute(element, "viewBox", `${-size} ${-size} ${2 * size} ${2 * size}`);
      const path = ropePath(reaches, round);
      for (const one of [...mown, rope]) setAttribute(one, "d", path);
    }

    /** Fielders go to their new places. @param {[number, number][]} places @param {boolean} moves */
    function drawMen(places, moves) {
      set = places.join();
      while (men.childElementCount > places.length) men.lastElementChild.remove();
      while (men.childElementCount < places.length) men.append(svg("circle", { r: 2.8 }));
      places.forEach((place, index) => {
        const { x, y } = onPaper(place);
        const { style } = men.children[index];
        style.transition = moves ? "transform .9s" : "";
        style.transform = `translate(${x}px, ${y}px)`;
      });
    }

    /** @param {any} ball @param {boolean} moves */
    function drawBall(ball, moves) {
      seq = ball?.seq ?? 0;
      if (!ball) return replace(way);
      const colour = COLOURS[/** @type {"six"} */ (ball.kind)] ?? "var(--ink)";
      const sign = SIGNS[/** @type {"six"} */ (ball.kind)];
      const bat = onPaper([0, 0.8]);
      const end = onPaper(ball.to ?? [0, sign ? 0 : -5]);
      const path = ball.to ? svg("path", { fill: "none", stroke: colour, "stroke-width": sign ? 2.4 : 1.6, pathLength: 100, "stroke-dasharray": 100, d: arcPath([[bat.x, bat.y], [end.x, end.y]], ball.aerial ? 0.16 : 0.02) }) : null;
      const mark = svg("g", { transform: `translate(${round(end.x)} ${round(end.y)})` }, svg("circle", { r: sign ? 9 : 2.6, fill: sign ? colour : "var(--cherry)", stroke: "var(--card)", "stroke-width": 0.8 }),
        sign ? svg("text", { y: 4.7, "text-anchor": "middle", "font-size": 13, "font-weight": 800, fill: "var(--on-colour)" }, sign) : null);
      replace(way, path, mark);
      if (!moves) return;
      path?.animate({ strokeDashoffset: [100, 0] }, { duration: FLIGHT_MS, easing: "ease-out" });
      mark.animate({ opacity: [0, 0, 1] }, { duration: FLIGHT_MS, easing: "ease-in" });
    }

    return {
      element,
      /** @param {any} picture @param {boolean} moves */
      update({ rope: reaches = [], men: places = [], ball = null, powerplay = false }, moves) {
        const walks = moves && element.clientWidth >= LARGE_PX;
        if (reaches.length && sizes !== reaches.join()) drawRope(reaches);
        if (set !== places.join()) drawMen(places, walks);
        setAttribute(circle, "stroke", powerplay ? "var(--willow)" : "var(--edge)");
        if ((ball?.seq ?? 0) !== seq) drawBall(ball, walks);
      },
    };
  },
};

/** The field's x and y as the drawing's: the bowler's end is up, the off side of a right-hander right. @param {[number, number]} place */
const onPaper = ([x, y]) => ({ x, y: MIDDLE_M - y });

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
