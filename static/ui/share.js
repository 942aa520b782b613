// @ts-check
// The link to a moment.

import { copyLink, toast } from "./confirm.js";

const HUB = "https://huggingface.co";

/**
 * In a Space only the page around the frame has an address to share or to reload; it takes a query from within.
 * @param {string} episodeId @param {number | null} seq null at the live edge
 */
export function tellFrame(episodeId, seq) {
  if (window.parent !== window) window.parent.postMessage({ queryString: seq === null ? `ep=${episodeId}` : `ep=${episodeId}&seq=${seq}` }, HUB);
}

/**
 * Note the viewer's place in the page's address, and copy the link to it.
 * @param {HTMLElement} button @param {string} episodeId @param {() => number | null} seq null at the live edge
 * @param {(seq: number) => string} [pageOf] the page of a moment, where it has one
 */
export function mountShare(button, episodeId, seq, pageOf) {
  const say = toast();
  button.addEventListener("click", async () => {
    const address = new URL(location.href);
    const place = seq();
    if (place === null) address.searchParams.delete("seq");
    else address.searchParams.set("seq", String(place));
    history.replaceState(null, "", address);
    tellFrame(episodeId, place);
    await copyLink(place === null || !pageOf ? address.href : pageOf(place), say, "The address bar now holds the link");
  });
}
