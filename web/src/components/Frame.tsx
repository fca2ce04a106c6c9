import { useQuery } from "@tanstack/react-query";
import { Link, Outlet } from "@tanstack/react-router";
import { useEffect } from "react";
import { api } from "../api/client";
import { serverQuery, sessionQuery } from "../api/queries";
import { useConnection } from "../live/LiveProvider";
import { AlertCount } from "./FiringAlerts";
import { chooseTheme, THEMES, type Theme, useTheme } from "./theme";
import { UserText, visible } from "./UserText";

const PAGES = [
  { to: "/", name: "Overview" },
  { to: "/devices", name: "Devices" },
  { to: "/nodes", name: "Nodes" },
  { to: "/queue", name: "Queue" },
  { to: "/submit", name: "Submit" },
  { to: "/tasks", name: "Autotuner" },
  { to: "/alerts", name: "Alerts" },
  { to: "/map", name: "Allocation map" },
  { to: "/compare", name: "Compare" },
  { to: "/usage", name: "Users and projects" },
  { to: "/replay", name: "Replay" },
] as const;

/** What is around every page: where one can go, who one is, and whether what is shown is live. */
export function Frame() {
  const cluster = useQuery(serverQuery).data?.cluster;
  useEffect(() => {
    document.title = cluster ? `${visible(cluster)} · Corral` : "Corral";
  }, [cluster]);
  return (
    <div className="frame">
      <a className="skip" href="#main">
        Skip to the page
      </a>
      <header className="side">
        <Link to="/" className="brand">
          <img src="/icon.svg" alt="" /> Corral
          {cluster && <UserText text={cluster} className="quiet cut" />}
        </Link>
        <nav aria-label="Pages">
          {PAGES.map((page) => (
            <Link key={page.to} to={page.to} activeOptions={{ exact: page.to === "/" }}>
              {page.name}
              {page.to === "/alerts" && <AlertCount />}
            </Link>
          ))}
        </nav>
        <Foot />
      </header>
      <main className="main" id="main" tabIndex={-1}>
        <Banners />
        <Outlet />
      </main>
    </div>
  );
}

function Banners() {
  const connection = useConnection();
  const server = useQuery(serverQuery);
  return (
    <>
      {connection === "lost" && (
        <p className="banner" data-kind="bad" role="status">
          The connection to the server is lost. The page shows the last known state, and continues by itself.
        </p>
      )}
      {server.data?.obstacle && (
        <p className="banner" role="status">
          {server.data.obstacle}
        </p>
      )}
    </>
  );
}

function Foot() {
  const session = useQuery(sessionQuery);
  const server = useQuery(serverQuery);
  const theme = useTheme();
  return (
    <div className="foot">
      <label>
        <span className="only-read-aloud">Theme</span>
        <select value={theme} onChange={(event) => chooseTheme(event.target.value as Theme)}>
          {THEMES.map((name) => (
            <option key={name} value={name}>
              {name === "system" ? "as the system" : name}
            </option>
          ))}
        </select>
      </label>
      {session.data && (
        <span className="quiet cut">
          <UserText text={session.data.user} />
          {session.data.admin && ", administrator"}
        </span>
      )}
      <button type="button" className="button" onClick={() => void signOut()}>
        Sign out
      </button>
      {server.data && <span className="quiet cut">Corral {server.data.version}</span>}
    </div>
  );
}

async function signOut(): Promise<void> {
  await api.DELETE("/api/v1/session");
  window.location.assign("/");
}
