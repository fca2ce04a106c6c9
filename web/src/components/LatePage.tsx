import { type ComponentType, useEffect, useReducer } from "react";
import { Empty, Loading } from "./states";

const AGAIN_MS = 2_000;
const RELOADED_AT = "reloaded-at";
const RELOADED_AGAIN_AFTER_MS = 60_000;

/**
 * A page whose files are loaded when it is opened. Where they do not come, the server is away, or was upgraded and
 * its files have other names: once it answers, the page is loaded anew as a whole.
 */
export function latePage(load: () => Promise<ComponentType>) {
  let loaded: ComponentType | undefined;
  let failure: unknown;
  const begin = async () => {
    try {
      loaded ??= await load();
    } catch (error) {
      failure = error;
    }
  };
  function LatePage() {
    const [, again] = useReducer((count: number) => count + 1, 0);
    useEffect(() => {
      if (loaded) return;
      if (!failure) {
        void begin().then(again);
        return;
      }
      const timer = window.setInterval(() => void reloadOnceAnswered(), AGAIN_MS);
      return () => window.clearInterval(timer);
    });
    if (loaded) {
      const Page = loaded;
      return <Page />;
    }
    if (!failure) return <Loading what="the page" />;
    return (
      <Empty title="This page was not loaded yet">
        The server does not send it. It is loaded once the server answers.
      </Empty>
    );
  }
  // Where one only points at a link nothing is said of a failure, and what is shown stays.
  LatePage.preload = begin;
  return LatePage;
}

async function reloadOnceAnswered(): Promise<void> {
  const before = Number(window.sessionStorage.getItem(RELOADED_AT) ?? Number.NEGATIVE_INFINITY);
  if (Math.abs(Date.now() - before) < RELOADED_AGAIN_AFTER_MS) return;
  const answer = await fetch("/api/v1/health").catch(() => undefined);
  if (!answer?.ok) return;
  window.sessionStorage.setItem(RELOADED_AT, String(Date.now()));
  window.location.reload();
}
