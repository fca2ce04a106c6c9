/** Which page is at which address, and which filters an address can have. */
import { createRootRoute, createRoute, createRouter, lazyRouteComponent } from "@tanstack/react-router";
import { RANGES, type Range } from "./api/queries";
import {
  COMPARED,
  type Compared,
  KPI_RANGES,
  type KpiRange,
  REPORT_BY,
  REPORT_RANGES,
  type ReportBy,
  type ReportRange,
} from "./pool/choices";
import { Frame } from "./components/Frame";
import { Empty, Loading } from "./components/states";
import { TIMELINE_HOURS, type TimelineHours } from "./jobs/timeline";
import { OverviewPage } from "./pages/OverviewPage";
import { MEANS } from "./pool/means";
import type { DeviceFilter } from "./pool/nodeRows";

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
  timeline?: TimelineHours;
  why?: string;
}

export interface AlertsSearch {
  severity?: string;
  over?: boolean;
}

export interface CompareSearch {
  what?: Compared;
  ids?: string;
  range?: Range;
}

export interface UsageSearch {
  by?: ReportBy;
  range?: ReportRange;
  kpis?: KpiRange;
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
  component: lazyRouteComponent(() => import("./pages/DevicesPage"), "DevicesPage"),
});
const device = createRoute({
  getParentRoute: () => root,
  path: "/devices/$uuid",
  validateSearch: (search: Search): Pick<DevicesSearch, "range"> => ({ range: range(search.range) }),
  component: lazyRouteComponent(() => import("./pages/DevicePage"), "DevicePage"),
});
const nodes = createRoute({
  getParentRoute: () => root,
  path: "/nodes",
  validateSearch: (search: Search): DeviceFilter => ({
    node: words(search.node),
    means: MEANS.find((known) => known === search.means),
    user: words(search.user),
    project: words(search.project),
  }),
  component: lazyRouteComponent(() => import("./pages/NodesPage"), "NodesPage"),
});
const node = createRoute({
  getParentRoute: () => root,
  path: "/nodes/$name",
  validateSearch: (search: Search): Pick<DevicesSearch, "range"> => ({ range: range(search.range) }),
  component: lazyRouteComponent(() => import("./pages/NodePage"), "NodePage"),
});
const queue = createRoute({
  getParentRoute: () => root,
  path: "/queue",
  validateSearch: (search: Search): QueueSearch => ({
    user: words(search.user),
    name: words(search.name),
    queue: words(search.queue),
    phase: words(search.phase),
    ended: search.ended === true || search.ended === "true" ? true : undefined,
    timeline: TIMELINE_HOURS.find((known) => known === search.timeline),
    why: words(search.why),
  }),
  component: lazyRouteComponent(() => import("./pages/QueuePage"), "QueuePage"),
});
const job = createRoute({
  getParentRoute: () => root,
  path: "/jobs/$id",
  component: lazyRouteComponent(() => import("./pages/JobPage"), "JobPage"),
});
const submit = createRoute({
  getParentRoute: () => root,
  path: "/submit",
  validateSearch: (search: Search): { like?: string } => ({ like: words(search.like) }),
  component: lazyRouteComponent(() => import("./pages/SubmitPage"), "SubmitPage"),
});

const alerts = createRoute({
  getParentRoute: () => root,
  path: "/alerts",
  validateSearch: (search: Search): AlertsSearch => ({
    severity: words(search.severity),
    over: search.over === true || search.over === "true" ? true : undefined,
  }),
  component: lazyRouteComponent(() => import("./pages/AlertsPage"), "AlertsPage"),
});
const map = createRoute({
  getParentRoute: () => root,
  path: "/map",
  validateSearch: (search: Search): Pick<DevicesSearch, "node"> => ({ node: words(search.node) }),
  component: lazyRouteComponent(() => import("./pages/MapPage"), "MapPage"),
});
const compare = createRoute({
  getParentRoute: () => root,
  path: "/compare",
  validateSearch: (search: Search): CompareSearch => ({
    what: COMPARED.find((known) => known === search.what),
    ids: words(search.ids),
    range: range(search.range),
  }),
  component: lazyRouteComponent(() => import("./pages/ComparePage"), "ComparePage"),
});
const usage = createRoute({
  getParentRoute: () => root,
  path: "/usage",
  validateSearch: (search: Search): UsageSearch => ({
    by: REPORT_BY.find((known) => known === search.by),
    range: REPORT_RANGES.find((known) => known === search.range),
    kpis: KPI_RANGES.find((known) => known === search.kpis),
  }),
  component: lazyRouteComponent(() => import("./pages/UsagePage"), "UsagePage"),
});

const routes = root.addChildren([
  overview,
  devices,
  device,
  nodes,
  node,
  queue,
  job,
  submit,
  alerts,
  map,
  compare,
  usage,
]);

export function makeRouter() {
  return createRouter({
    routeTree: routes,
    defaultPreload: "intent",
    defaultPendingComponent: () => <Loading what="the page" />,
    scrollRestoration: true,
  });
}

declare module "@tanstack/react-router" {
  interface Register {
    router: ReturnType<typeof makeRouter>;
  }
}
