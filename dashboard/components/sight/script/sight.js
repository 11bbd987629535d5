// Tells once when its place comes near the window; until then it holds the place that the chart will take.
//
// One place asks at a time: of several parts of a page that are asked for at once, Streamlit runs one.

const NEAR = "100px 0px"; // so that a chart is often there before its place is
const LOOK_MS = 250;
const LOOKS = 20; // without an answer after so many it asks again

const queue = []; // places that have been seen; the first has asked

export default function mount(component) {
  const root = component.parentElement.querySelector(".clustercep-unseen");
  root.style.minHeight = `${Number(component.data.height) || 0}px`;
  root.textContent = "Drawn when it is scrolled to.";
  const place = { root, ask: () => component.setTriggerValue("seen", true), timer: 0 };
  const observer = new IntersectionObserver(
    (entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      observer.disconnect();
      if (queue.push(place) === 1) begin(place);
    },
    { rootMargin: NEAR },
  );
  observer.observe(root);
  return () => {
    observer.disconnect();
    leave(place);
  };
}

function begin(place) {
  let looks = 0;
  place.ask();
  place.timer = setInterval(() => {
    looks += 1;
    if (!place.root.isConnected) leave(place);
    else if (looks % LOOKS === 0) place.ask();
  }, LOOK_MS);
}

function leave(place) {
  clearInterval(place.timer);
  const at = queue.indexOf(place);
  if (at < 0) return;
  queue.splice(at, 1);
  if (at > 0 || !queue.length) return;
  queue.unshift(queue.pop()); // the latest is what is looked at now
  begin(queue[0]);
}
