/** Light or dark: by the system, or as chosen in this browser. */
import { useSyncExternalStore } from "react";

export const THEMES = ["system", "light", "dark"] as const;
export type Theme = (typeof THEMES)[number];

const KEY = "corral-theme";
const listeners = new Set<() => void>();
const system = window.matchMedia("(prefers-color-scheme: dark)");

export function chosenTheme(): Theme {
  const kept = window.localStorage.getItem(KEY);
  return THEMES.find((theme) => theme === kept) ?? "system";
}

export function chooseTheme(theme: Theme): void {
  window.localStorage.setItem(KEY, theme);
  applyTheme();
}

export function applyTheme(): void {
  const theme = chosenTheme();
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  for (const listener of listeners) listener();
}

system.addEventListener("change", applyTheme);

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function useTheme(): Theme {
  return useSyncExternalStore(subscribe, chosenTheme);
}

/** What is drawn now. */
export function useThemeName(): "light" | "dark" {
  return useSyncExternalStore(subscribe, () => {
    const theme = chosenTheme();
    return theme === "system" ? (system.matches ? "dark" : "light") : theme;
  });
}
