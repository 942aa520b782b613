// @ts-check
// Shows a game of another package: its board as text, the last move and the rewards of the seats.

export default {
  /** @param {HTMLElement} root @param {any} ctx */
  mount(root, { lead, ui: { h, setText } }) {
    const board = h("pre", { class: "game__board", tabindex: "0" });
    const last = h("p");
    const rewards = h("p", { class: "quiet" });
    lead.append(h("section", { class: "card game", "aria-label": "The game" }, board, last, rewards));
    return {
      /** @param {any} state */
      update({ world = {} }) {
        board.hidden = !world.text;
        setText(board, world.text ?? "");
        setText(last, world.headline ?? "");
        setText(rewards, Object.entries(world.rewards ?? {}).map(([seat, reward]) => `${seat}: ${reward}`).join(" · "));
      },
      destroy: () => lead.replaceChildren(),
    };
  },
  /** @param {any} state */
  sections: ({ world = {} }) => [{ title: "The game", lines: [world.headline ?? "", ...(world.text ?? "").split("\n")] }],
};
