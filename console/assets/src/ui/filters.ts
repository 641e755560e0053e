// A form of filters leaves its empty fields out of the address, so that an address says what is asked for and no more.

/** emptyNames are the fields of a form that hold nothing. */
function emptyNames(form: FormData): string[] {
  return Array.from(form.keys()).filter((key) => form.getAll(key).every((value) => value === ""));
}

function isFilter(element: EventTarget | null): boolean {
  return element instanceof HTMLFormElement && element.method === "get" && element.classList.contains("filters");
}

export function startFilters(): void {
  document.addEventListener("formdata", (event) => {
    if (isFilter(event.target)) for (const key of emptyNames(event.formData)) event.formData.delete(key);
  });
  // htmx builds its request from the fields themselves.
  document.addEventListener("htmx:configRequest", (event) => {
    const detail = (event as CustomEvent<{ elt: Element; formData: FormData }>).detail;
    if (isFilter(detail.elt)) for (const key of emptyNames(detail.formData)) detail.formData.delete(key);
  });
}
