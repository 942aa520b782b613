// @ts-check
// The keys of a seat: figures pick, Enter sends.

/** @param {{pick: (index: number) => boolean, send: () => void}} form @param {() => boolean} isAsked */
export function listenToKeys(form, isAsked) {
  document.addEventListener("keydown", (event) => {
    if (!isAsked() || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    const target = event.target instanceof Element ? event.target : document.body;
    if (target.closest("input:not([type=radio]):not([type=range]), select, textarea, [contenteditable]")) return;
    if (/^[1-9]$/.test(event.key) && form.pick(Number(event.key) - 1)) event.preventDefault();
    else if (event.key === "Enter" && !target.closest("button, summary, a, form")) { event.preventDefault(); form.send(); }
  });
}
