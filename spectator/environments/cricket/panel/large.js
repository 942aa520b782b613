// @ts-check
// A wicket or a six over the whole screen, for a second; fetched with the first one.

const LASTS_MS = 1_000;
/** Shares of that time after which it fills the screen, and after which it leaves. */
const [FULL, LEAVES] = [0.16, 0.8];
const SURFACE = "position:fixed;inset:0;z-index:9;pointer-events:none;display:grid;align-content:center;justify-items:center;text-align:center;padding:4vmin";
const WORD = "font-size:min(24vw,52vh);font-weight:800;line-height:.9;letter-spacing:-.045em";
const LINE = "margin-top:3vmin;max-width:34ch;font-size:clamp(1.1rem,2.6vw,2.4rem);font-weight:600;line-height:1.25;text-wrap:balance";
const LOOKS = { wicket: ["OUT", "var(--cherry)", "var(--on-colour)"], six: ["SIX", "var(--bright)", "var(--on-bright)"] };

/**
 * Show it for a moment. Hidden from screen readers, because the same text is elsewhere.
 * @param {any} ui @param {"wicket" | "six"} kind @param {string} words of the ball
 */
export function showLarge({ h }, kind, words) {
  const [name, ground, ink] = LOOKS[kind];
  const word = h("p", {}, name);
  const line = h("p", {}, words.replace(/^.*: OUT, /, "").replace(": SIX ", ": "));
  const surface = h("div", { class: "large", "aria-hidden": "true", data: { kind } }, word, line);
  surface.style.cssText = `${SURFACE};background:${ground};color:${ink}`;
  word.style.cssText = WORD;
  line.style.cssText = LINE;
  document.body.append(surface);
  const timing = { duration: LASTS_MS, easing: "cubic-bezier(.2, .7, .2, 1)", fill: /** @type {const} */ ("both") };
  word.animate([{ transform: "scale(1.18)" }, { transform: "none", offset: FULL }, { transform: "none" }], timing);
  surface.animate([{ clipPath: "inset(0 100% 0 0)" }, { clipPath: "inset(0)", offset: FULL }, { clipPath: "inset(0)", offset: LEAVES }, { clipPath: "inset(0 0 0 100%)" }], timing)
    .finished.finally(() => surface.remove());
}
