import { useMutation } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { answered, api, type Schemas } from "../api/client";

/** Begins a session: with the code of the link that was opened, else with a token. */
export function LoginPage({ reason, onSession }: { reason?: string; onSession: () => void }) {
  const [token, setToken] = useState("");
  const login = useMutation({
    mutationFn: (body: Schemas["Login"]) => answered(api.POST("/api/v1/session", { body })),
    onSuccess: onSession,
  });
  const begun = useRef(false);
  const { mutate } = login;
  useEffect(() => {
    const code = codeOfLink();
    if (code && !begun.current) {
      begun.current = true;
      mutate({ code });
    }
  }, [mutate]);
  return (
    <main className="login">
      <section className="panel" aria-label="Sign in">
        <h1>Corral</h1>
        {reason && !login.error && <p className="quiet">{reason}</p>}
        {login.error && (
          <p className="banner" data-kind="bad" role="alert">
            {login.error.message}
          </p>
        )}
        <p>
          On the server's machine, <code>corral dashboard</code> opens this page as you. Elsewhere, paste a
          token from <code>corral token create</code>.
        </p>
        <form
          className="fields"
          onSubmit={(event) => {
            event.preventDefault();
            login.mutate({ token: token.trim() });
          }}
        >
          <div className="field" style={{ flex: 1 }}>
            <label htmlFor="token">Token</label>
            <input
              id="token"
              type="password"
              autoComplete="off"
              value={token}
              onChange={(event) => setToken(event.target.value)}
            />
          </div>
          <button
            className="button"
            data-kind="main"
            type="submit"
            disabled={!token.trim() || login.isPending}
          >
            Sign in
          </button>
        </form>
      </section>
    </main>
  );
}

/** The code behind # of a link, which is taken out of the address. */
function codeOfLink(): string | null {
  if (window.location.pathname !== "/login" || window.location.hash.length < 2) return null;
  const code = window.location.hash.slice(1);
  window.history.replaceState(null, "", "/");
  return code;
}
