// @ts-check
// The lobby's first buttons: one click starts the suggested match, or one in which the visitor plays a side.

import { call } from "../live/api.js";
import { showRefusal } from "./refusal.js";
import { openStarted } from "./start_form.js";

/** @param {HTMLElement} place its buttons name the captain and the opponent @param {string} root */
export function mountQuickStart(place, root) {
  const buttons = [...place.querySelectorAll("button")];
  const wrong = /** @type {HTMLElement} */ (place.querySelector("[role=alert]"));
  const disable = (/** @type {boolean} */ busy) => buttons.forEach((one) => { one.disabled = busy; });
  for (const button of buttons) {
    button.addEventListener("click", async () => {
      const { captain, opponent } = button.dataset;
      wrong.hidden = true;
      disable(true);
      const fields = { captain_preset: captain, ...(opponent ? { opponent_choice: opponent } : {}) };
      const answer = await call(root, "custom/start_episode", fields);
      if (openStarted(answer, root)) return;
      disable(false);
      showRefusal(wrong, answer, root, { again: () => button.click() });
    });
  }
  addEventListener("pageshow", () => disable(false));
}
