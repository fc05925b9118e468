import { path } from "../core/api.js";
import { html } from "../core/html.js";
import { useVhost } from "../core/vhosts.js";
import { CHANNEL_COLUMNS, noteChannels } from "../parts/channels.js";
import { Listing } from "../parts/listing.js";
import { Empty, Head } from "../parts/states.js";

export function ChannelsPage() {
  const vhost = useVhost();
  return html`
    <${Head} title="Channels" />
    <${Listing} label="Channels" address=${vhost ? path`vhosts/${vhost}/channels` : "/api/channels"} columns=${CHANNEL_COLUMNS} keyOf=${(channel) => channel.name}
      first=${{ key: "name", reverse: false }} onData=${(page) => noteChannels(page.items)}
      empty=${html`<${Empty} icon="channels" title="No open channels">
        <p>Clients open channels to publish and to consume.</p>
      <//>`} />`;
}
