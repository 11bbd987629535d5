// Tells once when its place comes near the window; until then it holds the place that the chart will take.

const NEAR = "300px 0px"; // so that a chart is often there before its place is

export default function mount(component) {
  const root = component.parentElement.querySelector(".clustercep-unseen");
  root.style.minHeight = `${Number(component.data.height) || 0}px`;
  root.textContent = "Drawn when it is scrolled to.";
  const observer = new IntersectionObserver(
    (entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      observer.disconnect();
      component.setStateValue("seen", true);
    },
    { rootMargin: NEAR },
  );
  observer.observe(root);
  return () => observer.disconnect();
}
