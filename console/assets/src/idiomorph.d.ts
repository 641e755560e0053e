// idiomorph brings no types; this is what is used of it.
declare module "idiomorph" {
  export interface Callbacks {
    beforeNodeAdded?: (node: Node) => boolean;
    afterNodeAdded?: (node: Node) => void;
    beforeNodeMorphed?: (old: Node, fresh: Node) => boolean;
    afterNodeMorphed?: (old: Node, fresh: Node) => void;
    beforeNodeRemoved?: (node: Node) => boolean;
    afterNodeRemoved?: (node: Node) => void;
    beforeAttributeUpdated?: (attribute: string, element: Element, mutation: "update" | "remove") => boolean;
  }
  export interface Config {
    morphStyle?: "innerHTML" | "outerHTML";
    ignoreActive?: boolean;
    ignoreActiveValue?: boolean;
    restoreFocus?: boolean;
    callbacks?: Callbacks;
  }
  export const Idiomorph: {
    morph(old: Element, fresh: Element | Node | HTMLCollection | Node[] | string | null, config?: Config): Node[] | undefined;
  };
}
