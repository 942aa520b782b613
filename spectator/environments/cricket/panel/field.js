// @ts-check
// The field seen from above: the fielders that are set, the ring, and the way of the last ball.

const PITCH_M = 20.12;
const RING_M = 27.43;
const BOUNDARY_M = 68;
const INSIDE_M = 2;
const MIDDLE_M = PITCH_M / 2;

/** Metres from the striker at which a ball is drawn to end, by what it brought; only the direction is the model's. */
const REACH = { six: 84, four: 70, dot: 14, extra: 20 };

/** The field's x and y as the drawing's: the bowler's end is up, the off side of a right-hander right. @param {{x: number, y: number}} spot */
export const onPaper = ({ x, y }) => ({ x, y: MIDDLE_M - y });

/** @param {{x: number, y: number}} spot */
export function isOutside({ x, y }) {
  if (y >= 0 && y <= PITCH_M) return Math.abs(x) > RING_M;
  return Math.hypot(x, y < 0 ? y : y - PITCH_M) > RING_M;
}

/**
 * The boundary as the striker of a right-hander's drawing sees it: metres from the centre of the pitch by sector,
 * from fine leg round to third. Ends change with the over; a left-hander sees the ground mirrored.
 * @param {any} ground @param {any} over @param {string | undefined} striker @returns {number[]}
 */
export function facedRope(ground, over, striker) {
  const sizes = ground?.boundaries;
  if (!Array.isArray(sizes) || sizes.length !== 8) return Array(8).fill(BOUNDARY_M);
  const turned = ((over?.number ?? 1) - 1) % 2 ? [...sizes.slice(4), ...sizes.slice(0, 4)] : [...sizes];
  return (ground.left_handers ?? []).includes(striker) ? turned.reverse() : turned;
}

/**
 * Metres from the centre of the pitch to the rope in a direction; even between the middles of two sectors.
 * @param {number[]} rope @param {number} x @param {number} y from the centre of the pitch, towards the bowler
 */
export function ropeAt(rope, x, y) {
  const degrees = ((Math.atan2(-x, -y) * 180) / Math.PI + 360) % 360;
  const place = degrees / 45 - 0.5;
  const low = Math.floor(place);
  const part = place - low;
  return (1 - part) * rope[(low + 8) % 8] + part * rope[(low + 9) % 8];
}

/** Who would stand beyond the rope stands inside it. @param {{x: number, y: number}} spot @param {number[]} rope */
export function insideRope({ x, y }, rope) {
  const far = Math.hypot(x, y - MIDDLE_M);
  const limit = ropeAt(rope, x, y - MIDDLE_M);
  return far <= limit ? { x, y } : { x: (x * (limit - INSIDE_M)) / far, y: MIDDLE_M + ((y - MIDDLE_M) * (limit - INSIDE_M)) / far };
}

/** The rope as a path. @param {number[]} rope */
function ropePath(rope) {
  const spots = Array.from({ length: 72 }, (_, step) => {
    const angle = (step * Math.PI) / 36;
    const [x, y] = [-Math.sin(angle), -Math.cos(angle)];
    const reach = ropeAt(rope, x, y);
    return `${(x * reach).toFixed(1)} ${(-y * reach).toFixed(1)}`;
  });
  return `M${spots.join("L")}z`;
}

/**
 * Where the drawing lets the ball end: in the middle of its sector of 45 degrees, counted from fine leg.
 * @param {any} ball @param {number[]} rope @returns {{x: number, y: number} | null}
 */
export function ballEnd(ball, rope = Array(8).fill(BOUNDARY_M)) {
  if (!(ball?.zone >= 1 && ball.zone <= 8)) return null;
  const angle = ((ball.zone - 0.5) * Math.PI) / 4;
  const reach = REACH[/** @type {"six"} */ (ball.kind)] ?? Math.min(62, 22 + 14 * (ball.runs ?? 0) + (ball.aerial ? 12 : 0));
  const end = { x: -Math.sin(angle) * reach, y: -Math.cos(angle) * reach };
  const far = Math.hypot(end.x, end.y - MIDDLE_M);
  const boundary = ropeAt(rope, end.x, end.y - MIDDLE_M);
  const limit = ball.kind === "six" ? boundary + 6 : boundary;
  if (ball.kind !== "six" && ball.kind !== "four" && far <= limit) return end;
  return { x: (end.x * limit) / far, y: MIDDLE_M + ((end.y - MIDDLE_M) * limit) / far };
}

/** @param {any} ctx */
export function mountField({ ui: { h, svg, replace, setText, keyed }, charts }) {
  const men = svg("g", { class: "ground__men" });
  const way = svg("g");
  const ring = `M${-RING_M} ${MIDDLE_M}V${-MIDDLE_M}a${RING_M} ${RING_M} 0 0 1 ${2 * RING_M} 0V${MIDDLE_M}a${RING_M} ${RING_M} 0 0 1 ${-2 * RING_M} 0z`;
  const rope = svg("path", { class: "ground__rope" });
  const ringPath = svg("path", { class: "ground__ring", d: ring });
  const drawing = svg("svg", { viewBox: "-80 -73 160 146", role: "img" },
    rope, ringPath,
    svg("rect", { class: "ground__pitch", x: -1.8, y: -MIDDLE_M - 1.2, width: 3.6, height: PITCH_M + 2.4, rx: 0.6 }), way, men,
    svg("circle", { class: "ground__bat", cx: -0.9, cy: MIDDLE_M - 1, r: 1.7 }), svg("circle", { class: "ground__bat", cx: 1.6, cy: -MIDDLE_M, r: 1.7 }),
    svg("text", { class: "ground__end", x: -78, y: 70 }, "leg side"), svg("text", { class: "ground__end", x: 78, y: 70, "text-anchor": "end" }, "off side"));
  charts.readable(drawing);
  const preset = h("b");
  const count = h("span", { class: "quiet ground__note" });
  const element = h("section", { class: "card ground", "aria-label": "Field and path of the ball" },
    h("header", { class: "card__head" }, h("h2", {}, "Field"), preset, count), drawing,
    h("p", { class: "ground__foot" }, "Simulated: positions as set, the ball’s direction from the model. Drawn for a right-hander, bowler at the top."));
  /** @type {unknown} */ let field = null;
  let sizes = "";
  let seq = -1;

  const man = (/** @type {any} */ fielder) => {
    const at = onPaper(fielder);
    const outside = isOutside(fielder);
    return svg("g", { class: outside ? "ground__man ground__man--out" : "ground__man" }, svg("title", {}, fielder.name),
      svg("circle", { cx: at.x, cy: at.y, r: 2.2 }), svg("text", { x: Math.max(-66, Math.min(66, at.x)), y: at.y + (at.y > 60 ? -4 : 6.4), "text-anchor": "middle" }, fielder.name));
  };

  return {
    element,
    /** @param {any} world @param {boolean} moves */
    update(world, moves) {
      const faced = facedRope(world.ground, world.over, world.batters?.striker?.name);
      const ropeChanged = sizes !== faced.join(" ");
      if (ropeChanged) {
        sizes = faced.join(" ");
        rope.setAttribute("d", ropePath(faced));
        const room = Math.max(...faced) - BOUNDARY_M;
        if (room > 0) drawing.setAttribute("viewBox", `${-80 - room} ${-73 - room} ${160 + 2 * room} ${146 + 2 * room}`);
      }
      if (field !== world.field || ropeChanged) {
        field = world.field;
        const fielders = Object.values(world.field?.fielders ?? {}).map((/** @type {any} */ one) => ({ ...one, ...insideRope(one, faced) }));
        keyed(men, fielders, (/** @type {any} */ one) => `${one.name} ${one.x} ${one.y}`, man);
        ringPath.classList.toggle("ground__ring--powerplay", Boolean(world.badges?.powerplay));
        setText(preset, String(world.field?.preset ?? "").replaceAll("_", " "));
        const outside = fielders.filter(isOutside).length;
        const limit = world.field?.outside_limit;
        setText(count, world.field ? `${outside} outside the ring${limit === undefined ? "" : `, at most ${limit}`}` : "not set yet");
      }
      const ball = world.last_ball;
      if ((ball?.seq ?? 0) === seq) return;
      seq = ball?.seq ?? 0;
      const end = ballEnd(ball, faced);
      drawing.setAttribute("aria-label", `${Object.keys(world.field?.fielders ?? {}).length} fielders placed. ${end ? `The last ball went towards ${ball.direction ?? `sector ${ball.zone}`}.` : ""}`);
      if (!end) return replace(way);
      const from = onPaper({ x: 0, y: 0.8 });
      const to = onPaper(end);
      const path = svg("path", { class: `ground__way ground__way--${ball.kind}${moves ? " ground__way--fly" : ""}`, pathLength: 100, d: charts.arcPath([[from.x, from.y], [to.x, to.y]], ball.aerial ? 0.16 : 0.02) });
      replace(way, path, svg("circle", { class: `ground__ball${moves ? " ground__ball--fly" : ""}`, cx: to.x, cy: to.y, r: 2.4 }));
    },
  };
}
