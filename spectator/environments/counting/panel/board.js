// @ts-check
// Every integer that was said, in its place; each leads to its moment.

/** Most places on the board; of a longer count the last are shown. */
const MOST = 100;
/** Counts up to here have few, large places. */
const FEW = 20;

/** @param {any} ctx */
export function mountBoard({ ui: { h, keyed, replace, setText, momentLink } }) {
  const range = h("span", { class: "quiet" });
  const list = h("ol", { class: "said" });
  const element = h("section", { class: "card with-report", "aria-label": "Every integer" }, h("header", { class: "card__head" }, h("h2", {}, "Every integer"), range), list);

  /** @param {HTMLElement} place @param {{due: number, past: boolean, one?: {seq: number, note: import("./panel.js").Said}}} given */
  const fill = (place, { due, past, one }) => {
    const look = !one ? (past ? "unread" : "none") : one.note.said === due ? "right" : "wrong";
    if (place.dataset.look === look) return place;
    place.dataset.look = look;
    const words = look === "wrong" ? `${one?.note.said}, where ${due} was due` : `${due}, right`;
    replace(place, one ? momentLink(one.seq, { class: `said__one said__one--${look}`, "aria-label": words },
      h("b", {}, one.note.said), look === "wrong" ? h("small", {}, `not ${due}`) : null) : h("span", { class: `said__one said__one--${look}` }, due));
    return place;
  };

  return {
    element,
    /** @param {{turns: number, said: number, passed: {seq: number, note: import("./panel.js").Said}[]}} count */
    update({ turns, said, passed }) {
      const first = Math.max(1, Math.min(turns, Math.max(said, MOST)) - MOST + 1);
      const last = Math.min(turns, first + MOST - 1);
      const known = new Map(passed.slice(-MOST).map((one) => [one.note.due, one]));
      list.classList.toggle("said--few", turns <= FEW);
      setText(range, last - first + 1 < turns ? `${first} to ${last} of ${turns.toLocaleString("en")}` : "tap one to go there");
      const places = Array.from({ length: Math.max(0, last - first + 1) }, (_, index) => ({ due: first + index, past: first + index <= said, one: known.get(first + index) }));
      keyed(list, places, ({ due }) => String(due), (given) => fill(h("li"), given), fill);
    },
  };
}
