// @ts-check
// A panel that throws once three integers were said.

export default {
  mount(root) {
    const words = document.createElement("p");
    words.textContent = "This panel is fine.";
    root.append(words);
    return {
      update(state) {
        if (state.world?.said >= 3) throw new Error("the panel lost count");
      },
      destroy() {
        throw new Error("and cannot even leave");
      },
    };
  },
};
