// Keys and copying; every page is whole without them. Nothing here makes markup of anything.
"use strict";

const typing = (target) => target instanceof HTMLElement && target.matches("input, textarea, select");

const step = (by) => {
  const places = [...document.querySelectorAll("main a.go, main details.turn > summary")];
  if (places.length === 0) return;
  const at = places.indexOf(document.activeElement);
  const next = at < 0 ? (by > 0 ? 0 : places.length - 1) : Math.min(places.length - 1, Math.max(0, at + by));
  places[next].focus();
  places[next].scrollIntoView({ block: "nearest" });
};

const keys = {
  j: () => step(1),
  k: () => step(-1),
  "/": () => document.getElementById("q").focus(),
  g: () => { location.href = "/"; },
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape" && typing(event.target)) { event.target.blur(); return; }
  if (typing(event.target) || !Object.hasOwn(keys, event.key)) return;
  event.preventDefault();
  keys[event.key]();
});

document.addEventListener("click", async (event) => {
  const button = event.target instanceof Element ? event.target.closest("button[data-copy]") : null;
  if (!button) return;
  try {
    await navigator.clipboard.writeText(button.dataset.copy);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Mark it and copy";
  }
});

// A list that is looked through by keys is not taken away under them, nor marked text.
document.addEventListener("htmx:beforeSwap", (event) => {
  const target = event.detail.target;
  const marked = document.getSelection();
  const isUsed = target.contains(document.activeElement)
    || (marked && !marked.isCollapsed && target.contains(marked.anchorNode));
  if (isUsed && (target.id === "list" || target.id === "live")) event.detail.shouldSwap = false;
});
