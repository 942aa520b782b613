// @ts-check
// The field of the seat: presets as small pictures, and fielders that are dragged or moved with the arrow keys.

import { makeGround, onPaper } from "./ground.js";
import { makeChoice } from "./seat_choice.js";
import { isOutside, presetWords } from "./seat_draft.js";

/** @typedef {import("./seat_draft.js").Fielder} Fielder */

const STEP_M = 2;
const [KEEPER, BOWLER] = [{ pace: [0, -14], spin: [0, -3] }, [2, 22]];

/** @param {any} tools @param {{preset: (name: string) => void, fielders: (fielders: Fielder[], moved: string) => void}} on */
export function makeFieldPicker(tools, on) {
  const { ui: { h, svg, setText, setAttribute }, charts } = tools;
  const ground = makeGround(tools, { margin: [8, 5] });
  const drawing = ground.element;
  const wrong = h("p", { class: "set-field__wrong notice notice--bad", role: "alert", hidden: true });
  const count = h("p", { class: "quiet", role: "status" });
  const presets = makeChoice(tools.ui, { name: "preset", title: "Field", look: "strip" }, on.preset);
  const hint = h("p", { class: "quiet" }, "Drag a fielder, or tab to one and use the arrow keys (2 m a step). The bowler is at the top.");
  const element = h("div", { class: "set-field" }, presets.element, h("div", { class: "set-field__picture" }, drawing, wrong), count, hint);
  charts.readable(drawing);
  setAttribute(drawing, "role", "group");
  setAttribute(drawing, "aria-label", "Fielders");
  /** @type {Fielder[]} */ let men = [];
  /** @type {any} */ let seen = {};
  let [held, moved, free] = ["", "", true];
  /** Odds and pictures of presets, drawn once for each hand. @type {Map<string, Element>} */ const pictures = new Map();

  const isLeft = () => seen.striker?.bats === "left";
  const rope = () => (seen.ground?.now ? Object.values(seen.ground.now) : Array(8).fill(68));

  function draw() {
    const places = /** @type {Record<string, any>} */ (Object.fromEntries(men.map(({ name, x, y }, index) => [String(index), [x, y, name]])));
    places.keeper = [...KEEPER[/spin|break/.test(seen.bowler?.kind ?? "") ? "spin" : "pace"], "keeper"];
    places.bowler = [...BOWLER, "bowler"];
    ground.update({ rope: rope(), men: places, left: isLeft(), powerplay: seen.powerplay }, false, 0);
    for (const man of drawing.querySelectorAll(".ground__man")) {
      const fielder = men[Number(man.dataset.man)];
      if (!fielder) continue;
      setAttribute(man, "tabindex", free ? "0" : null);
      setAttribute(man, "role", "button");
      setAttribute(man, "aria-roledescription", "fielder");
      setAttribute(man, "aria-label", `${fielder.name}, ${Math.round(Math.hypot(fielder.x, fielder.y))} m from the bat, ${isOutside(fielder) ? "outside" : "inside"} the ring`);
      man.classList.toggle("is-held", man.dataset.man === held);
    }
    const outside = men.filter(isOutside).length;
    setText(count, `${outside} of 9 outside the ring, at most ${seen.outside_limit ?? 9}${seen.powerplay ? " in the powerplay" : ""}.`);
  }

  /** @param {string} key @param {number} x @param {number} y */
  function move(key, x, y) {
    men = men.map((one, index) => (String(index) === key ? { ...one, x: Math.round(x * 10) / 10, y: Math.round(y * 10) / 10 } : one));
    moved = key;
    draw();
  }

  /** @param {PointerEvent} event @returns {[number, number]} metres from the striker */
  function spotOf(event) {
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(drawing.getScreenCTM().inverse());
    const [x, y] = onPaper(at.x, at.y, isLeft());
    return [Math.max(-90, Math.min(90, x)), Math.max(-90, Math.min(110, y))];
  }

  const locked = () => !free || Boolean(drawing.closest("fieldset:disabled"));
  drawing.addEventListener("pointerdown", (/** @type {any} */ event) => {
    const key = event.target.closest(".ground__man")?.dataset.man;
    if (!/^\d$/.test(key ?? "") || locked()) return;
    event.preventDefault();
    held = key;
    drawing.setPointerCapture(event.pointerId);
    draw();
  });
  drawing.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => { if (held) move(held, ...spotOf(event)); });
  const drop = () => {
    if (!held) return;
    held = "";
    draw();
    if (moved) on.fielders(men, moved);
  };
  drawing.addEventListener("pointerup", drop);
  drawing.addEventListener("pointercancel", drop);
  drawing.addEventListener("keydown", (/** @type {any} */ event) => {
    const key = event.target.closest(".ground__man")?.dataset.man;
    const step = { ArrowUp: [0, STEP_M], ArrowDown: [0, -STEP_M], ArrowLeft: [-STEP_M, 0], ArrowRight: [STEP_M, 0] }[/** @type {"ArrowUp"} */ (event.key)];
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); return void drawing.closest("form")?.requestSubmit(); }
    if (!step || !men[key] || locked()) return;
    event.preventDefault();
    move(key, men[key].x + (isLeft() ? -step[0] : step[0]), men[key].y + step[1]);
    on.fielders(men, key);
  });

  /** A preset as a small picture. @param {string} name @param {Fielder[]} fielders */
  function pictureOf(name, fielders) {
    const key = `${name} ${isLeft()} ${JSON.stringify(fielders)}`;
    if (!pictures.has(key)) pictures.set(key, svg("svg", { viewBox: "-72 -72 144 144", "aria-hidden": "true" }, svg("circle", { r: 70, class: "set-field__grass" }), svg("rect", { x: -27, y: -37, width: 54, height: 74, rx: 27, class: "set-field__ring" }), svg("rect", { x: -3, y: -10, width: 6, height: 20, class: "set-field__pitch" }),
      ...fielders.map(({ x, y }) => { const [cx, cy] = onPaper(x, y, isLeft()); return svg("circle", { cx, cy, r: 6, class: "set-field__dot" }); })));
    return /** @type {Element} */ (pictures.get(key));
  }

  return {
    element,
    /** The nine as they are drawn. */
    placed: () => men,
    /**
     * @param {any} situation @param {{preset: string, fielders: Fielder[] | null}} draft @param {any} weighed @param {Record<string, number>} merit @param {boolean} mayChange
     */
    update(situation, { preset, fielders }, weighed, merit, mayChange) {
      seen = situation;
      free = mayChange;
      const options = weighed?.options?.field ?? {};
      const known = Object.entries(options).map(([name, { fielders: placed, ...odds }]) => ({ value: name, label: presetWords(name), odds, merit: merit[name], picture: pictureOf(name, placed) }));
      presets.update(free ? known : [], fielders ? "" : preset);
      if (!held) men = fielders ?? options[preset]?.fielders ?? seen.field?.fielders ?? [];
      hint.hidden = !free;
      draw();
      this.refuse(weighed?.refused?.message ?? "");
    },
    /** Show a refusal beside the fielder who was moved last. @param {string} message */
    refuse(message) {
      wrong.hidden = !message;
      setText(wrong, message);
      const man = men[Number(moved)];
      if (!message || !man) return;
      const [x, y] = onPaper(man.x, man.y, isLeft());
      wrong.style.setProperty("--x", `${Math.round(Math.max(0, Math.min(100, 50 + x / 1.52)))}%`);
      wrong.style.setProperty("--y", `${Math.round(Math.max(6, Math.min(88, 50 + y / 1.46)))}%`);
    },
  };
}
