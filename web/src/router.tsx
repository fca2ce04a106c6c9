/** Which page is at which address, and which filters an address can have. */
import { createRootRoute, createRoute, createRouter } from "@tanstack/react-router";
import { RANGES, type Range } from "./api/queries";
import { Frame } from "./components/Frame";
import { Empty } from "./components/states";
import { DevicePage } from "./pages/DevicePage";
import { DevicesPage } from "./pages/DevicesPage";
import { JobPage } from "./pages/JobPage";
import { NodesPage } from "./pages/NodesPage";
import { OverviewPage } from "./pages/OverviewPage";
import { QueuePage } from "./pages/QueuePage";

type Search = Record<string, unknown>;

export interface DevicesSearch {
  node?: string;
  state?: string;
  range?: Range;
}

export interface QueueSearch {
  user?: string;
  name?: string;
  queue?: string;
  phase?: string;
  ended?: boolean;
}

const words = (value: unknown): string | undefined =>
  typeof value === "string" && value !== "" ? value : typeof value === "number" ? String(value) : undefined;
const range = (value: unknown): Range | undefined => RANGES.find((known) => known === value);

const root = createRootRoute({
  component: Frame,
  notFoundComponent: () => <Empty title="There is no such page">Choose one from the list.</Empty>,
});

const overview = createRoute({ getParentRoute: () => root, path: "/", component: OverviewPage });
const devices = createRoute({
  getParentRoute: () => root,
  path: "/devices",
  validateSearch: (search: Search): DevicesSearch => ({
    node: words(search.node),
    state: words(search.state),
    range: range(search.range),
  }),
  component: DevicesPage,
});
const device = createRoute({
  getParentRoute: () => root,
  path: "/devices/$uuid",
  validateSearch: (search: Search): Pick<DevicesSearch, "range"> => ({ range: range(search.range) }),
  component: DevicePage,
});
const nodes = createRoute({ getParentRoute: () => root, path: "/nodes", component: NodesPage });
const queue = createRoute({
  getParentRoute: () => root,
  path: "/queue",
  validateSearch: (search: Search): QueueSearch => ({
    user: words(search.user),
    name: words(search.name),
    queue: words(search.queue),
    phase: words(search.phase),
    ended: search.ended === true || search.ended === "true" ? true : undefined,
  }),
  component: QueuePage,
});
const job = createRoute({ getParentRoute: () => root, path: "/jobs/$id", component: JobPage });

const routes = root.addChildren([overview, devices, device, nodes, queue, job]);

export function makeRouter() {
  return createRouter({ routeTree: routes, defaultPreload: "intent", scrollRestoration: true });
}

declare module "@tanstack/react-router" {
  interface Register {
    router: ReturnType<typeof makeRouter>;
  }
}
