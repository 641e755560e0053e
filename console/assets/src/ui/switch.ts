// The switch of light, dark, and as the system has it; see theme.ts.

import { icon, name, tool } from "./tools.js";

const drawings: Record<string, [string, string]> = {
  light: ["M8 5a3 3 0 1 0 0 6a3 3 0 1 0 0-6M8 1v1.5M8 13.5V15M1 8h1.5M13.5 8H15M3.1 3.1l1 1M11.9 11.9l1 1M3.1 12.9l1-1M11.9 4.1l1-1", "Light"],
  dark: ["M13.5 9.5A6 6 0 0 1 6.5 2.5A6 6 0 1 0 13.5 9.5", "Dark"],
  system: ["M2 3h12v8H2zM6 14h4M8 11v3", "As the system has it"],
};
const order = ["system", "light", "dark"];

export function startSwitch(): void {
  const root = document.documentElement;
  const button = tool("theme", "", () => {
    const next = order[(order.indexOf(current()) + 1) % order.length] ?? "system";
    if (next === "system") delete root.dataset["theme"];
    else root.dataset["theme"] = next;
    try {
      if (next === "system") localStorage.removeItem("pgqueue.theme");
      else localStorage.setItem("pgqueue.theme", next);
    } catch {
      // for this page only
    }
    show();
    document.dispatchEvent(new CustomEvent("pgqueue:theme"));
  });
  const current = (): string => root.dataset["theme"] ?? "system";
  const show = (): void => {
    const [path, words] = drawings[current()] ?? ["", ""];
    button.replaceChildren(icon(path));
    name(button, `Colours: ${words}`);
  };
  show();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => document.dispatchEvent(new CustomEvent("pgqueue:theme")));
}
