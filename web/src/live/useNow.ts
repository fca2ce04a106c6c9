import { useEffect, useState } from "react";
import { serverNow } from "../format/times";

/** What time it is at the server, in Unix seconds, told every `everyMs`. */
export function useNow(everyMs = 1_000): number {
  const [now, setNow] = useState(serverNow);
  useEffect(() => {
    const timer = window.setInterval(() => setNow(serverNow()), everyMs);
    return () => window.clearInterval(timer);
  }, [everyMs]);
  return now;
}
