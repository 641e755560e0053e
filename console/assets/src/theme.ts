// A classic script in the head, small, and before the first paint: the reader's choice of light or dark is on <html> when the
// page is drawn. No choice: the system's. ui/switch.ts changes it.

try {
  const theme = localStorage.getItem("pgqueue.theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset["theme"] = theme;
} catch {
  // no storage: the system's
}
