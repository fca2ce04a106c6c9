import { QueryClientProvider, useQuery, useQueryClient } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { useMemo } from "react";
import { ApiError } from "./api/client";
import { makeQueryClient, sessionQuery } from "./api/queries";
import { Failed, Loading } from "./components/states";
import { LiveProvider } from "./live/LiveProvider";
import { LoginPage } from "./pages/LoginPage";
import { makeRouter } from "./router";

export function App() {
  const client = useMemo(() => makeQueryClient(), []);
  return (
    <QueryClientProvider client={client}>
      <SignedIn />
    </QueryClientProvider>
  );
}

/** The pages for who has a session, else the way to one. */
function SignedIn() {
  const session = useQuery(sessionQuery);
  const client = useQueryClient();
  const router = useMemo(() => makeRouter(), []);
  if (session.error instanceof ApiError && [401, 403].includes(session.error.status)) {
    const expired = session.data !== undefined;
    return (
      <LoginPage
        reason={expired ? "Your session has ended." : undefined}
        onSession={() => {
          if (window.location.pathname === "/login") window.history.replaceState(null, "", "/");
          void client.invalidateQueries();
        }}
      />
    );
  }
  if (session.data === undefined) {
    return session.error ? (
      <Failed error={session.error} retry={() => void session.refetch()} />
    ) : (
      <Loading what="your session" />
    );
  }
  return (
    <LiveProvider>
      <RouterProvider router={router} />
    </LiveProvider>
  );
}
