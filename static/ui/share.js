// @ts-check
// The link to a moment.

const HUB = "https://huggingface.co";

/**
 * In a Space only the page around the frame has an address to share or to reload; it takes a query from within.
 * @param {string} episodeId @param {number | null} seq null at the live edge
 */
function tellFrame(episodeId, seq) {
  if (window.parent !== window) window.parent.postMessage({ queryString: seq === null ? `ep=${episodeId}` : `ep=${episodeId}&seq=${seq}` }, HUB);
}

/**
 * Copy the page's address, with the viewer's place.
 * @param {HTMLElement} button @param {string} episodeId @param {() => number | null} seq null at the live edge
 */
export function mountShare(button, episodeId, seq) {
  const label = button.getAttribute("aria-label") ?? "";
  tellFrame(episodeId, Number(new URLSearchParams(location.search).get("seq")) || null);
  button.addEventListener("click", async () => {
    const address = new URL(location.href);
    const place = seq();
    if (place === null) address.searchParams.delete("seq");
    else address.searchParams.set("seq", String(place));
    history.replaceState(null, "", address);
    tellFrame(episodeId, place);
    try {
      await navigator.clipboard.writeText(address.href);
      tell("Copied");
    } catch {
      tell("The address bar now holds the link");
    }
  });

  /** @param {string} words */
  function tell(words) {
    button.setAttribute("aria-label", words);
    button.setAttribute("title", words);
    button.classList.add("tool--done");
    setTimeout(() => {
      button.setAttribute("aria-label", label);
      button.removeAttribute("title");
      button.classList.remove("tool--done");
    }, 2_000);
  }
}
