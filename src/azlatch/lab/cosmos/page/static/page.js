// Keeps what is marked with data-live up to date: asks for the page again, and takes those parts of it over.
"use strict";
(() => {
  const EVERY_MS = 2000;
  const PATIENCE_MS = 10000;
  const source = document.body.dataset.source || location.href;
  const box = document.getElementById("live");
  const button = document.getElementById("live-button");
  const status = document.getElementById("live-status");
  if (!document.querySelector("[data-live]")) return;
  let paused = false;
  let timer = 0;

  const say = (text, isBad) => {
    // A screen reader is told of changes alone.
    if (status.textContent !== text) status.textContent = text;
    box.classList.toggle("bad", Boolean(isBad));
  };

  const take = (text) => {
    const fresh = new DOMParser().parseFromString(text, "text/html");
    for (const old of document.querySelectorAll("[data-live]")) {
      const next = fresh.getElementById(old.id);
      // Nothing is taken away from under the keyboard.
      if (next && !old.contains(document.activeElement)) old.replaceWith(document.adoptNode(next));
    }
  };

  const look = async () => {
    try {
      const reply = await fetch(source, { cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MS) });
      if (!reply.ok) throw new Error(String(reply.status));
      take(await reply.text());
      if (!paused) say("Live", false);
    } catch (error) {
      say(/^[45]\d\d$/.test(error.message) ? `Not live: ${error.message}` : "The lab does not answer", true);
    }
    plan();
  };

  const plan = () => {
    clearTimeout(timer);
    if (!paused && !document.hidden) timer = setTimeout(look, EVERY_MS);
  };

  button.addEventListener("click", () => {
    paused = !paused;
    button.setAttribute("aria-pressed", String(paused));
    say(paused ? "Paused" : "Live", false);
    plan();
  });
  document.addEventListener("visibilitychange", plan);
  box.hidden = false;
  document.getElementById("still").hidden = true;
  say("Live", false);
  plan();
})();
