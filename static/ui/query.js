// @ts-check
// What the address keeps of a page's choices, so that a link or a reload shows the same.

const LONGEST = 100;

/** @param {string[]} names @returns {Record<string, string>} empty for those that are not there */
export function readQuery(names) {
  const query = new URLSearchParams(location.search);
  return Object.fromEntries(names.map((name) => [name, (query.get(name) ?? "").slice(0, LONGEST)]));
}

/** Keep `choices` in the address, without a new entry in the history. @param {Record<string, string>} choices */
export function writeQuery(choices) {
  const address = new URL(location.href);
  for (const [name, value] of Object.entries(choices)) {
    if (value) address.searchParams.set(name, value);
    else address.searchParams.delete(name);
  }
  history.replaceState(null, "", address);
}
