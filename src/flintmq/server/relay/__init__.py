"""Relays: processes and nodes that own clients' sockets, and exchange their bytes with the broker's event loop."""
