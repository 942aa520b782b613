// @ts-check
// Downloads a clip of the viewer's moment, drawn by the server.

import { h } from "./dom.js";

const SAID_MS = 4_000;

/**
 * @param {HTMLButtonElement} button @param {string} root @param {string} episodeId @param {() => number} seq the viewer's place
 */
export function mountClip(button, root, episodeId, seq) {
  const label = button.getAttribute("aria-label") ?? "";
  button.addEventListener("click", async () => {
    const place = Math.max(1, seq());
    button.disabled = true;
    tell("Rendering the clip…");
    try {
      const answer = await fetch(new URL(`clip/${encodeURIComponent(episodeId)}.webp?from=${place}`, root));
      if (!answer.ok) throw new Error((await answer.json()).detail ?? `the server answered ${answer.status}`);
      const address = URL.createObjectURL(await answer.blob());
      h("a", { href: address, download: `${episodeId}-${place}.webp` }).click();
      setTimeout(() => URL.revokeObjectURL(address), SAID_MS);
      tell("Clip downloaded", SAID_MS);
    } catch (error) {
      tell(`No clip: ${/** @type {Error} */ (error).message}`, SAID_MS);
    }
    button.disabled = false;
  });

  /** @param {string} words @param {number} [forMs] */
  function tell(words, forMs) {
    button.setAttribute("aria-label", words);
    button.setAttribute("title", words);
    button.classList.toggle("tool--done", forMs !== undefined);
    if (forMs === undefined) return;
    setTimeout(() => {
      button.setAttribute("aria-label", label);
      button.removeAttribute("title");
      button.classList.remove("tool--done");
    }, forMs);
  }
}
