// @ts-check
// The invitation of a rival: one click gives a seat to anyone who opens its link.

import { giveAway, seatsHeld } from "../live/seats.js";
import { h, replace } from "./dom.js";

/** @param {string} root @param {string} episodeId @param {() => void} given hears that a seat was left */
export function makeInvitation(root, episodeId, given) {
  const element = h("div", { class: "seat__invite", hidden: true });
  let drawn = "";
  return {
    element,
    /** @param {(actor: string) => string} nameOf */
    update(nameOf) {
      const seats = seatsHeld(episodeId);
      if (drawn === seats.join()) return;
      drawn = seats.join();
      element.hidden = seats.length < 2;
      if (element.hidden) return;
      replace(element, ...seats.map((actor) => h("button", { class: "chip", type: "button", on: { click: () => invite(actor, nameOf(actor)) } }, `Invite someone to play ${nameOf(actor)}`)));
    },
  };

  /** @param {string} actor @param {string} name */
  async function invite(actor, name) {
    const link = giveAway(root, episodeId, actor);
    drawn = seatsHeld(episodeId).join();
    const field = h("input", { class: "input", id: "seat-link", readonly: true, value: link });
    const said = h("small", {}, "Send it to one person: anyone who opens it can play this seat.");
    replace(element, h("label", { for: "seat-link" }, `Link that plays ${name}`), field, said);
    field.select();
    given();
    try { await navigator.clipboard.writeText(link); said.textContent = "Copied. Send it to one person: anyone who opens it can play this seat."; } catch { /* it stands in the field */ }
  }
}
