// @ts-check
// The choice between the evening and the day look, made before the first paint.

(() => {
  const key = "spectator.theme";
  const read = () => {
    try { return localStorage.getItem(key); } catch { return null; }
  };
  const system = matchMedia("(prefers-color-scheme: light)").matches ? "light" : "dark";
  const known = read();
  document.documentElement.dataset.theme = known === "light" || known === "dark" ? known : system;
  document.addEventListener("click", (event) => {
    if (!(event.target instanceof Element) || !event.target.closest("#theme")) return;
    const next = document.documentElement.dataset.theme === "light" ? "dark" : "light";
    document.documentElement.dataset.theme = next;
    try { localStorage.setItem(key, next); } catch { /* a private window keeps no choice */ }
  });
})();
