// All the script there is: a live price while a question is being put together, epsilon by a
// slider with the error beside it, a job's progress, and pictures that a busy server draws later.
// Every page works without it.
"use strict";

const WAIT_AFTER_TYPING = 300; // milliseconds

function livePrice(form) {
  const panel = document.getElementById("price");
  const button = form.querySelector("[data-price-button]");
  let timer = 0;
  let latest = 0;
  if (button) button.hidden = true;

  async function ask() {
    const mine = ++latest;
    try {
      const response = await fetch(form.dataset.price, {
        method: "POST",
        body: new URLSearchParams(new FormData(form)),
        credentials: "same-origin",
      });
      const html = await response.text();
      if (mine === latest && response.ok) {
        panel.innerHTML = html; // our own server's fragment
        panel.dispatchEvent(new Event("priced"));
      }
    } catch {
      if (mine === latest && button) button.hidden = false;
    }
  }

  form.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(ask, WAIT_AFTER_TYPING);
  });
}

// The slider runs over powers of ten; what it shows of the error is what the price panel says.
function slideEpsilon(place) {
  const typed = document.getElementById(place.dataset.slide);
  const slider = place.querySelector("input");
  const panel = document.getElementById("price");
  const error = place.querySelector("output");

  function follow() {
    const epsilon = Number(typed.value);
    if (epsilon > 0) slider.value = Math.log10(epsilon);
    slider.setAttribute("aria-valuetext", `epsilon ${typed.value}`);
  }

  function tell() {
    const worth = panel.querySelector("[data-worth]");
    error.textContent = worth ? worth.textContent : ""; // a refusal stands in the panel
    if (worth) worth.hidden = true; // it stands beside the slider
  }

  slider.addEventListener("input", () => {
    typed.value = String(Number((10 ** Number(slider.value)).toPrecision(2)));
    slider.setAttribute("aria-valuetext", `epsilon ${typed.value}`);
  });
  typed.addEventListener("input", follow);
  panel.addEventListener("priced", tell);
  follow();
  tell();
  place.hidden = false;
}

async function watchJob(place) {
  const bar = place.querySelector("progress");
  const words = place.querySelector("[data-words]");
  for (let pause = 250; ; pause = Math.min(pause * 1.25, 5000)) {
    await new Promise((resolve) => setTimeout(resolve, pause));
    try {
      const response = await fetch(place.dataset.job, { credentials: "same-origin" });
      if (!response.ok) break;
      const job = await response.json();
      bar.value = job.tenths;
      words.textContent = job.words;
      if (job.ended) break;
    } catch {
      break;
    }
  }
  window.location.reload();
}

function waitForPicture(image) {
  let tries = 30;

  async function again() {
    const response = await fetch(image.src, { credentials: "same-origin" });
    const comes = response.ok || response.headers.has("retry-after");
    if (comes && tries-- > 0) setTimeout(() => (image.src = image.src), response.ok ? 0 : 5000);
  }

  image.addEventListener("error", again);
  if (image.complete && !image.naturalWidth) again(); // it failed before this ran
}

for (const form of document.querySelectorAll("form[data-price]")) livePrice(form);
for (const place of document.querySelectorAll("[data-slide]")) slideEpsilon(place);
for (const place of document.querySelectorAll("[data-job]")) watchJob(place);
for (const image of document.querySelectorAll("figure img")) waitForPicture(image);
