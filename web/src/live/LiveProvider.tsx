import { useQueryClient } from "@tanstack/react-query";
import { createContext, type ReactNode, useContext, useEffect, useState } from "react";
import { type Connection, EventFollower } from "./events";
import { LiveRows } from "./LiveRows";

const LiveContext = createContext<Connection>("connecting");

/** Follows the server's events for all pages below. */
export function LiveProvider({ children }: { children: ReactNode }) {
  const client = useQueryClient();
  const [connection, setConnection] = useState<Connection>("connecting");
  useEffect(() => {
    const rows = new LiveRows(client);
    let before: Connection = "connecting";
    const follower = new EventFollower(
      (events) => rows.take(events),
      (now) => {
        // What is not told by events may have changed while the server was away, and so may the session.
        if (now === "live" && before === "lost") void client.invalidateQueries();
        if (now === "lost" && before === "live") void client.invalidateQueries({ queryKey: ["session"] });
        before = now;
        setConnection(now);
      },
    );
    follower.open();
    return () => {
      follower.close();
      rows.close();
    };
  }, [client]);
  return <LiveContext.Provider value={connection}>{children}</LiveContext.Provider>;
}

/** Whether what is shown is live. */
export function useConnection(): Connection {
  return useContext(LiveContext);
}
