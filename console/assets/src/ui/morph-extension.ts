// hx-swap="morph:innerHTML" and "morph" for htmx, as idiomorph's own extension does it, without the form that takes code and
// needs eval.

import type htmx from "htmx.org";
import { Idiomorph } from "idiomorph";

export function addMorph(to: typeof htmx): void {
  to.defineExtension("morph", {
    isInlineSwap: (style: string) => style === "morph" || style === "morph:outerHTML",
    handleSwap: (style: string, target: Node, fragment: Node) => {
      if (!(target instanceof Element) || !(fragment instanceof DocumentFragment)) return false;
      if (style === "morph:innerHTML") return Idiomorph.morph(target, fragment.children, { morphStyle: "innerHTML" }) ?? true;
      if (style === "morph" || style === "morph:outerHTML") return Idiomorph.morph(target, fragment.children, { morphStyle: "outerHTML" }) ?? true;
      return false;
    },
  } as Parameters<typeof to.defineExtension>[1]);
}
