// @ts-check
// Owns the link to a moment.

/**
 * Copy the page's address, with the place where the viewer stands.
 * @param {HTMLElement} button @param {() => number | null} seq null at the live edge
 */
export function mountShare(button, seq) {
  const label = button.getAttribute("aria-label") ?? "";
  button.addEventListener("click", async () => {
    const address = new URL(location.href);
    const place = seq();
    if (place === null) address.searchParams.delete("seq");
    else address.searchParams.set("seq", String(place));
    history.replaceState(null, "", address);
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
