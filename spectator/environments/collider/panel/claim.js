// @ts-check
// The claim, its verdict, and after the end the truth that was sealed until then.

import { channelMark, claimWords, figure, truthLines, verdicts } from "./words.js";

/** @param {any} ctx */
export function mountClaim({ ui: { h, replace }, truth }) {
  const body = h("div", { class: "claim__body" });
  const element = h("section", { class: "card claim", "aria-label": "Claim", hidden: true }, h("header", { class: "card__head" }, h("h2", {}, "The claim")), body);
  /** @type {unknown[]} */ let drawn = [];
  /** @type {any} */ let known = null;
  let asked = false;

  /** @param {string} title @param {Record<string, number>} shares @param {(name: string) => string} say */
  const bars = (title, shares, say) => (Object.keys(shares ?? {}).length ? h("div", { class: "claim__shares" }, h("h3", {}, title),
    h("ul", {}, ...Object.entries(shares).sort((a, b) => b[1] - a[1]).map(([name, share]) => h("li", {}, h("span", {}, say(name)), h("meter", { min: 0, max: 1, value: share, "aria-label": say(name) }), h("b", {}, `${figure(100 * share, 2)} %`))))) : null);

  /** @param {any} world */
  function draw({ claim, verdict, task }) {
    replace(body, h("p", { class: "claim__words" }, claimWords(claim)),
      bars("Which channel", claim.channel_probabilities, channelMark), bars("Which spin", claim.spin_probabilities, (name) => `spin ${name.replace(/^spin/, "")}`),
      verdict ? h("p", { class: "claim__verdict" }, h("b", {}, verdict.verdict), ` · score ${figure(verdict.score, 3)}`) : null,
      verdict ? h("ul", { class: "claim__flags" }, ...verdicts({ verdict, claim, task }).map(([name, right]) => h("li", { class: right ? "claim__flag is-right" : "claim__flag" }, `${right ? "✓" : "✗"} ${name}`))) : null,
      verdict ? h("div", { class: "claim__truth" }, h("h3", {}, "The truth, sealed until now"), known === null ? h("p", { class: "quiet" }, "It is in the sealed record of this episode.") : h("ul", {}, ...truthLines(known).map((line) => h("li", {}, line)))) : null);
  }

  return {
    element,
    /** @param {any} world */
    update(world) {
      element.hidden = !world.claim;
      if (!world.claim || (drawn[0] === world.claim && drawn[1] === world.verdict && drawn[2] === known && drawn[3] === world.ended)) return;
      drawn = [world.claim, world.verdict, known, world.ended];
      draw(world);
      if (world.ended && !asked && truth) {
        asked = true;
        truth().then((/** @type {any} */ answer) => {
          known = answer;
          if (answer) draw(world);
        });
      }
    },
  };
}
