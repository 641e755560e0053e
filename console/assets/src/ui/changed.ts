// Whether a form holds something that would be lost with it.

/** changed says whether a field below root holds something else than the page was sent with. */
export function changed(root: ParentNode): boolean {
  for (const field of root.querySelectorAll<HTMLInputElement | HTMLTextAreaElement | HTMLSelectElement>("form :is(input, textarea, select)")) {
    if (field instanceof HTMLSelectElement) {
      const sent = [...field.options].find((option) => option.defaultSelected) ?? field.options[0];
      if (!field.multiple && sent !== undefined && !sent.selected) return true;
    } else if (field instanceof HTMLInputElement && (field.type === "checkbox" || field.type === "radio")) {
      if (field.checked !== field.defaultChecked) return true;
    } else if (field.value !== field.defaultValue) {
      return true;
    }
  }
  return false;
}
