import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./App";
import { applyTheme } from "./components/theme";
import "./styles/app.css";

const AGAIN_AFTER_MS = 60_000;

applyTheme();
// After an upgrade of the server the files of the pages have other names: the page that is open is loaded anew, once.
window.addEventListener("vite:preloadError", (event) => {
  const before = Number(window.sessionStorage.getItem("reloaded-at") ?? 0);
  if (Date.now() - before < AGAIN_AFTER_MS) return;
  window.sessionStorage.setItem("reloaded-at", String(Date.now()));
  event.preventDefault();
  window.location.reload();
});
const root = document.getElementById("root");
if (root) {
  createRoot(root).render(
    <StrictMode>
      <App />
    </StrictMode>,
  );
}
