/** Which page is at which address, and which filters an address can have. */
import { createRootRoute, createRoute, createRouter } from "@tanstack/react-router";
import { type Range, readRange } from "./api/historyQueries";
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
import { DATE, policiesText } from "./pool/replays";
import { Broken } from "./components/Broken";
import { Frame } from "./components/Frame";
import { latePage } from "./components/LatePage";
import { Empty, Loading } from "./components/states";
import { TIMELINE_HOURS, type TimelineHours } from "./jobs/timeline";
import { OverviewPage } from "./pages/OverviewPage";
import { JOB_MEANS, MEANS, type Means } from "./pool/means";
import type { DeviceFilter } from "./pool/nodeRows";
import { readSearch, type Search, writtenSearch } from "./search";

export interface DevicesSearch {
  node?: string;
  state?: string;
  range?: Range;
}

export interface QueueSearch {
  user?: string;
  name?: string;
  queue?: string;
  project?: string;
  namespace?: string;
  means?: Means;
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

export interface ReplaySearch {
  policies?: string;
  range?: ReportRange;
  from?: string;
  to?: string;
  replay?: string;
  course?: string;
}

const words = (value: unknown): string | undefined =>
  typeof value === "string" && value !== "" ? value : undefined;
const date = (value: unknown): string | undefined =>
  typeof value === "string" && DATE.test(value) ? value : undefined;

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
    range: readRange(search.range),
  }),
  component: latePage(() => import("./pages/DevicesPage").then((file) => file.DevicesPage)),
});
const device = createRoute({
  getParentRoute: () => root,
  path: "/devices/$uuid",
  validateSearch: (search: Search): Pick<DevicesSearch, "range"> => ({ range: readRange(search.range) }),
  component: latePage(() => import("./pages/DevicePage").then((file) => file.DevicePage)),
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
  component: latePage(() => import("./pages/NodesPage").then((file) => file.NodesPage)),
});
const node = createRoute({
  getParentRoute: () => root,
  path: "/nodes/$name",
  validateSearch: (search: Search): Pick<DevicesSearch, "range"> => ({ range: readRange(search.range) }),
  component: latePage(() => import("./pages/NodePage").then((file) => file.NodePage)),
});
const queue = createRoute({
  getParentRoute: () => root,
  path: "/queue",
  validateSearch: (search: Search): QueueSearch => ({
    user: words(search.user),
    name: words(search.name),
    queue: words(search.queue),
    project: words(search.project),
    namespace: words(search.namespace),
    means: JOB_MEANS.find((known) => known === search.means),
    phase: words(search.phase),
    ended: search.ended === true || search.ended === "true" ? true : undefined,
    timeline: TIMELINE_HOURS.find((known) => known === search.timeline),
    why: words(search.why),
  }),
  component: latePage(() => import("./pages/QueuePage").then((file) => file.QueuePage)),
});
const job = createRoute({
  getParentRoute: () => root,
  path: "/jobs/$id",
  component: latePage(() => import("./pages/JobPage").then((file) => file.JobPage)),
});
const submit = createRoute({
  getParentRoute: () => root,
  path: "/submit",
  validateSearch: (search: Search): { like?: string } => ({ like: words(search.like) }),
  component: latePage(() => import("./pages/SubmitPage").then((file) => file.SubmitPage)),
});

const alerts = createRoute({
  getParentRoute: () => root,
  path: "/alerts",
  validateSearch: (search: Search): AlertsSearch => ({
    severity: words(search.severity),
    over: search.over === true || search.over === "true" ? true : undefined,
  }),
  component: latePage(() => import("./pages/AlertsPage").then((file) => file.AlertsPage)),
});
const map = createRoute({
  getParentRoute: () => root,
  path: "/map",
  validateSearch: (search: Search): Pick<DevicesSearch, "node"> => ({ node: words(search.node) }),
  component: latePage(() => import("./pages/MapPage").then((file) => file.MapPage)),
});
const compare = createRoute({
  getParentRoute: () => root,
  path: "/compare",
  validateSearch: (search: Search): CompareSearch => ({
    what: COMPARED.find((known) => known === search.what),
    ids: words(search.ids),
    range: readRange(search.range),
  }),
  component: latePage(() => import("./pages/ComparePage").then((file) => file.ComparePage)),
});
const usage = createRoute({
  getParentRoute: () => root,
  path: "/usage",
  validateSearch: (search: Search): UsageSearch => ({
    by: REPORT_BY.find((known) => known === search.by),
    range: REPORT_RANGES.find((known) => known === search.range),
    kpis: KPI_RANGES.find((known) => known === search.kpis),
  }),
  component: latePage(() => import("./pages/UsagePage").then((file) => file.UsagePage)),
});

const replay = createRoute({
  getParentRoute: () => root,
  path: "/replay",
  validateSearch: (search: Search): ReplaySearch => ({
    policies: policiesText(words(search.policies)),
    range: REPORT_RANGES.find((known) => known === search.range),
    from: date(search.from),
    to: date(search.to),
    replay: words(search.replay),
    course: words(search.course),
  }),
  component: latePage(() => import("./pages/ReplayPage").then((file) => file.ReplayPage)),
});

const tasks = createRoute({
  getParentRoute: () => root,
  path: "/tasks",
  component: latePage(() => import("./pages/TasksPage").then((file) => file.TasksPage)),
});
const newTask = createRoute({
  getParentRoute: () => root,
  path: "/tasks/new",
  validateSearch: (search: Search): { like?: string } => ({ like: words(search.like) }),
  component: latePage(() => import("./pages/NewTaskPage").then((file) => file.NewTaskPage)),
});
const task = createRoute({
  getParentRoute: () => root,
  path: "/tasks/$task",
  component: latePage(() => import("./pages/TaskPage").then((file) => file.TaskPage)),
});
const compareExperiments = createRoute({
  getParentRoute: () => root,
  path: "/tasks/$task/compare",
  validateSearch: (search: Search): { one?: string; other?: string } => ({
    one: words(search.one),
    other: words(search.other),
  }),
  component: latePage(() =>
    import("./pages/CompareExperimentsPage").then((file) => file.CompareExperimentsPage),
  ),
});
const experiment = createRoute({
  getParentRoute: () => root,
  path: "/experiments/$experiment",
  component: latePage(() => import("./pages/ExperimentPage").then((file) => file.ExperimentPage)),
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
  replay,
  tasks,
  newTask,
  task,
  compareExperiments,
  experiment,
]);

export function makeRouter() {
  return createRouter({
    routeTree: routes,
    parseSearch: readSearch,
    stringifySearch: writtenSearch,
    defaultErrorComponent: Broken,
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
