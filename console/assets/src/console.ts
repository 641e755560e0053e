// What every page of the console loads. Without it pages read and act all the same.

import htmx from "htmx.org";
import { startCopy } from "./ui/copy.js";
import { startDialogs } from "./ui/dialog.js";
import { startDone } from "./ui/done.js";
import { startFilters } from "./ui/filters.js";
import { startKeys } from "./ui/keys.js";
import { startLive } from "./ui/live.js";
import { addMorph } from "./ui/morph-extension.js";
import { startSelect } from "./ui/select.js";
import { startSwitch } from "./ui/switch.js";
import { startTimes } from "./ui/times.js";

// The Content-Security-Policy forbids these anyway; said here, they are not even tried.
Object.assign(htmx.config, { allowEval: false, includeIndicatorStyles: false, selfRequestsOnly: true, historyCacheSize: 0, allowScriptTags: false, defaultSettleDelay: 0 });
addMorph(htmx);
document.addEventListener("htmx:afterSettle", () => document.dispatchEvent(new CustomEvent("pgqueue:updated")));
// What a morph has brought is unknown to htmx, whoever asked for it.
document.addEventListener("pgqueue:updated", () => {
  const main = document.getElementById("main");
  if (main !== null) htmx.process(main);
});

startDone(); // before the first refresh
startLive();
startSwitch();
startDialogs();
startFilters();
startKeys();
startSelect();
startCopy();
startTimes();

document.querySelector("header .menu [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
document.documentElement.dataset["ready"] = "";
