// Every page: its address, its place in the menu, its key behind "g", and who may see it.
import { mayAdminister, mayMonitor } from "./core/session.js";
import { ChannelsPage } from "./pages/channels.js";
import { ConnectionPage } from "./pages/connection.js";
import { ConnectionsPage } from "./pages/connections.js";
import { DeadLettersPage } from "./pages/dead-letters.js";
import { DefinitionsPage } from "./pages/definitions.js";
import { ExchangePage } from "./pages/exchange.js";
import { ExchangesPage } from "./pages/exchanges.js";
import { MessagesPage } from "./pages/messages.js";
import { NodePage } from "./pages/node.js";
import { OverviewPage } from "./pages/overview.js";
import { PipelinesPage } from "./pages/pipelines.js";
import { PoliciesPage } from "./pages/policies.js";
import { QueuePage } from "./pages/queue.js";
import { QueuesPage } from "./pages/queues.js";
import { StreamsPage } from "./pages/streams.js";
import { UserPage } from "./pages/user.js";
import { UsersPage } from "./pages/users.js";
import { VhostsPage } from "./pages/vhosts.js";

const always = () => true;

function place(name, title, key, page, may = always, detail = null) {
  return { name, title, key, page, may, detail, address: name === "overview" ? "#/" : `#/${name}` };
}

const OVERVIEW = place("overview", "Overview", "o", OverviewPage);

export const GROUPS = [
  { title: "", places: [OVERVIEW] },
  {
    title: "Messaging",
    places: [
      place("queues", "Queues", "q", QueuesPage, always, QueuePage),
      place("streams", "Streams", "s", StreamsPage, always, QueuePage),
      place("exchanges", "Exchanges", "e", ExchangesPage, always, ExchangePage),
      place("messages", "Messages", "m", MessagesPage),
      place("dead", "Dead letters", "d", DeadLettersPage),
    ],
  },
  {
    title: "Clients",
    places: [
      place("connections", "Connections", "c", ConnectionsPage, always, ConnectionPage),
      place("channels", "Channels", "h", ChannelsPage),
      place("pipelines", "Pipelines", "p", PipelinesPage),
    ],
  },
  {
    title: "Administration",
    places: [
      place("users", "Users", "u", UsersPage, mayAdminister, UserPage),
      place("vhosts", "Virtual hosts", "v", VhostsPage, mayAdminister),
      place("policies", "Policies", "l", PoliciesPage),
      place("definitions", "Definitions", "f", DefinitionsPage),
      place("node", "Node", "n", NodePage, mayMonitor),
    ],
  },
];

export const PLACES = GROUPS.flatMap((group) => group.places);

export function placeOf(segments) {
  return segments.length ? PLACES.find((one) => one.name === segments[0]) : OVERVIEW;
}
